// A constituency tree, words in one row below; beside a reference, brackets that only one of the two has stand out.
drawings.tree = (element, {prediction, reference}, {without_reference: bare = false} = {}) => {
  const {h, s} = page, LEVEL = 34, HIGH = 18, GAP = 18;
  const pen = document.createElement("canvas").getContext("2d");
  const wide = (text, font) => { pen.font = `${font} ${getComputedStyle(document.body).fontFamily}`; return pen.measureText(text).width; };
  const nodes = (node) => node.children ? [node, ...node.children.flatMap(nodes)] : [];

  /** The nodes of a tree whose bracket the other tree does not have, each counted once. */
  function alone(tree, other) {
    const left = new Map();
    for (const node of nodes(other)) if (node.bracket) left.set(String(node.bracket), (left.get(String(node.bracket)) ?? 0) + 1);
    return new Set(nodes(tree).filter((node) => {
      const key = String(node.bracket), count = left.get(key) ?? 0;
      if (count) left.set(key, count - 1);
      return node.bracket && !count;
    }));
  }

  /** Draws a tree; `marked` nodes stand out as `role`, wrong or missed. */
  function draw(tree, name, marked = new Set(), role = "") {
    let right = 0;
    const place = (node) => {
      if (!node.children) {
        const width = Math.max(wide(node.word, "650 14px"), wide(node.tag, "11px"), 12);
        right += width + GAP;
        return {node, x: right - GAP / 2 - width / 2, level: 0, below: []};
      }
      const below = node.children.map(place);
      if (!below.length) right += 30;
      const ends = below.length ? (below[0].x + below[below.length - 1].x) / 2 : right - 15;
      return {node, x: ends, level: 1 + Math.max(0, ...below.map((one) => one.level)), below};
    };
    const root = place(tree), height = root.level * LEVEL + 50, y = (level) => height - 34 - level * LEVEL;
    const lines = [], texts = [];
    const add = (one) => {
      const {node, x, level, below} = one;
      for (const child of below) {
        const top = y(level) + 6, bottom = y(child.level) - (child.level ? 12 : 9), bend = top + 7, turn = Math.min(6, Math.abs(child.x - x)), side = Math.sign(child.x - x);
        lines.push(s("path", {d: turn < 1 ? `M${x} ${top}V${bottom}` : `M${x} ${top}V${bend}H${child.x - side * turn}q${side * turn} 0 ${side * turn} ${turn}V${bottom}`,
          fill: "none", stroke: "var(--rule-2)"}));
        add(child);
      }
      if (!node.children) return texts.push(s("text", {x, y: y(0) + 4, "text-anchor": "middle", class: "tiny"}, node.tag),
        s("text", {x, y: y(0) + 24, "text-anchor": "middle", class: "ink", style: "font-size:14px; font-weight:600"}, node.word));
      const label = s("text", {x, y: y(level), "text-anchor": "middle", class: "ink"}, node.label || "–");
      if (!marked.has(node)) return texts.push(label);
      const width = wide(node.label, "12px") + 12;
      label.setAttribute("style", `fill:var(--${role}); font-weight:650` + (role === "wrong" ? "; text-decoration:underline wavy 1px" : ""));
      texts.push(page.tooltip(s("g", {tabindex: 0, "aria-label": `${node.label}, ${role === "wrong" ? "not in the reference" : "missed"}`},
        s("rect", {x: x - width / 2, y: y(level) - 14, width, height: HIGH, rx: 3, fill: role === "wrong" ? "var(--wrong-f)" : "none",
          stroke: `var(--${role})`, "stroke-dasharray": role === "missed" ? "4 3" : "none"}), label),
      `${node.label}: ${role === "wrong" ? "the reference has no such bracket" : "the output lacks this bracket"}`));
    };
    add(root);
    return h("div", {class: "scroll", tabindex: right > 360 ? 0 : null, role: "group", "aria-label": name},
      s("svg", {width: right, height, role: marked.size ? null : "img", "aria-label": name}, lines, texts));
  }

  const found = prediction?.tree, gold = reference?.tree;
  if (!found) element.append(page.missing("No tree.", "The output is not well-formed.", prediction?.text));
  const extra = found && gold ? alone(found, gold) : new Set(), lacking = found && gold ? alone(gold, found) : new Set();
  if (found && !(gold && (extra.size || lacking.size))) return element.append(gold && !bare ? h("p", {class: "small"}, "Reference and output have the same brackets.") : "",
    draw(found, "the tree of the output"));
  if (gold && !bare) element.append(h("h3", {}, "Reference"), draw(gold, "the tree of the reference", lacking, "missed"));
  if (gold && found && !bare) requestAnimationFrame(() => {  // wide trees scroll together
    const both = [...element.querySelectorAll(":scope > .scroll")];
    for (const one of both) one.addEventListener("scroll", () => { for (const other of both) other.scrollLeft = one.scrollLeft; });
  });
  if (gold && found) element.append(bare ? "" : h("h3", {}, "Output"), draw(found, "the tree of the output", extra, "wrong"), h("p", {class: "small"},
    `Filled: ${extra.size} that the reference does not have. ${bare ? "The output lacks" : "Dashed:"} ${lacking.size}${bare ? " of the reference" : " that the output lacks"}.`));
};
