// Saves what a page shows: tables as Markdown, LaTeX or CSV, charts as SVG or PNG.
const save = {
  /** A file for the reader. */
  download(name, content, type) {
    const link = page.h("a", {href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type})), download: name});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  },

  /** Text into the clipboard, or into a file where there is none. */
  async copy(text, name) {
    try {
      await navigator.clipboard.writeText(text);
      return "copied";
    } catch {
      save.download(name, text, "text/plain");
      return "saved";
    }
  },

  /** The cells of a table as rows of texts. */
  cells: (table) => [...table.rows].map((row) => [...row.cells].map((cell) => [...cell.childNodes].map((node) => node.textContent.trim()).filter(Boolean).join(" "))),

  formats: {
    markdown(rows, side) {
      const line = (cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`;
      return [line(rows[0]), line(side.map((left) => left ? "---" : "---:")), ...rows.slice(1).map(line)].join("\n") + "\n";
    },
    latex(rows, side) {
      const signs = {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "↑": "$\\uparrow$", "↓": "$\\downarrow$", "→": "$\\to$", "−": "$-$", "–": "--", "<": "$<$", ">": "$>$", "…": "\\ldots{}"};
      const line = (cells) => "  " + cells.map((cell) => cell.replaceAll("\n", " ").replace(/[\\~^↑↓→−–<>…]|[#$%&_{}]/g, (sign) => signs[sign] ?? "\\" + sign)).join(" & ") + " \\\\";
      return [`\\begin{tabular}{${side.map((left) => left ? "l" : "r").join("")}}`, "  \\toprule", line(rows[0]), "  \\midrule", ...rows.slice(1).map(line), "  \\bottomrule", "\\end{tabular}"].join("\n") + "\n";
    },
    csv: (rows) => rows.map((cells) => cells.map((cell) => cell === "–" ? "" : cell.replaceAll("−", "-")).map((cell) => /[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell).join(",")).join("\r\n") + "\r\n",
  },

  /** The chart with the colours and the type that it has here, as the text of an SVG file, and its size. */
  svg(chart) {
    const copy = chart.cloneNode(true), {width, height} = chart.getBoundingClientRect(), all = (root) => [root, ...root.querySelectorAll("*")];
    const kept = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "fill-opacity", "visibility", "font-family", "font-size", "font-weight", "text-anchor"];
    all(chart).forEach((one, place) => {
      const style = getComputedStyle(one), to = all(copy)[place];
      to.removeAttribute("class");
      to.setAttribute("style", kept.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    });
    const paper = page.s("rect", {x: -8, y: -8, width: width + 16, height: height + 16, style: `fill:${getComputedStyle(document.body).backgroundColor}`});
    copy.prepend(paper);
    for (const [name, value] of [["xmlns", "http://www.w3.org/2000/svg"], ["viewBox", `-8 -8 ${width + 16} ${height + 16}`], ["width", width + 16], ["height", height + 16]]) copy.setAttribute(name, value);
    return {text: new XMLSerializer().serializeToString(copy), width: width + 16, height: height + 16};
  },

  /** The chart as the bytes of a PNG file of twice its size. */
  async png(chart) {
    const {text, width, height} = save.svg(chart), image = new Image();
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    await image.decode();
    const canvas = page.h("canvas", {width: 2 * width, height: 2 * height});
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  },

  /** What a file of an element is called: its section, or the heading before it. */
  name: (element) => (element.closest(".panel")?.querySelector("h3")?.textContent || element.closest("section")?.id || "page").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60),

  /** A small menu that does what is chosen: [[text, action], ...]; an action may give what it did. */
  menu(label, actions) {
    const list = page.h("select", {class: "save", "aria-label": label, async onchange() {
      const [, action] = actions[this.selectedIndex - 1] ?? [];
      const done = await action?.();
      this.selectedIndex = 0;
      list.options[0].textContent = done ?? "save";
      setTimeout(() => { list.options[0].textContent = "save"; }, 2000);
    }}, [["save"], ...actions].map(([text]) => page.h("option", {}, text)));
    return list;
  },

  /** Gives a table its menu, below it. */
  table(table) {
    const side = () => [...table.rows[Math.min(1, table.rows.length - 1)].cells].map((cell) => getComputedStyle(cell).textAlign !== "right");
    const text = (kind) => save.formats[kind](save.cells(table), side()), name = (end) => `${save.name(table)}.${end}`;
    const menu = save.menu("Copy or save this table", [["copy Markdown", () => save.copy(text("markdown"), name("md"))],
      ["copy LaTeX", () => save.copy(text("latex"), name("tex"))], ["copy CSV", () => save.copy(text("csv"), name("csv"))],
      ["file CSV", () => save.download(name("csv"), text("csv"), "text/csv")]]);
    (table.closest(".scroll") ?? table).after(menu);
  },

  /** A menu for the chart that `chart()` gives. */
  chart: (chart) => save.menu("Save this chart", [["file SVG", () => save.download(`${save.name(chart())}.svg`, save.svg(chart()).text, "image/svg+xml")],
    ["file PNG", async () => save.download(`${save.name(chart())}.png`, await save.png(chart()), "image/png")]]),

  /** Gives all tables of the page's own HTML their menus. */
  start() { for (const table of document.querySelectorAll("main table:not(.plain)")) save.table(table); },
};
