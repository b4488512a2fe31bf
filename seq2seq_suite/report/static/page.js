// What all pages share: registries, theme, data, tooltips and controls. Text becomes text nodes, never markup.
const drawings = {};  // name -> function (element, example, options): draws one output
const sections = {};  // id -> function (element, data): fills a section of the page

const page = {
  /** An element: h("p", {class: "note", onclick: f}, "text", child); null and undefined are left out. */
  h(tag, attributes, ...children) {
    return page.filled(document.createElement(tag), attributes, children);
  },

  /** An element of SVG. */
  s(tag, attributes, ...children) {
    return page.filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  },

  filled(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === null || value === undefined || value === false) continue;
      if (typeof value === "function") element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) element.append(child);
    return element;
  },

  /** The JSON of a section, by its id; undefined if the page has none. */
  data(id) {
    const element = document.getElementById("data-" + id);
    return element ? JSON.parse(element.textContent) : undefined;
  },

  /** 35,493; 99.69; −0.5 with `sign`; – for none. */
  number(value, digits = 2, sign = false) {
    if (typeof value !== "number" || !Number.isFinite(value)) return "–";
    const shown = Math.abs(value).toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
    const zero = !/[1-9]/.test(shown);
    return (value < 0 && !zero ? "−" : sign && !zero ? "+" : "") + shown;
  },

  /** A number with as many digits as it needs: 1,200; 0.0123; 1.2e−5. */
  short(value) {
    if (typeof value !== "number" || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size && size < 1e-3) return value.toExponential(1).replace(".0e", "e").replace(/-/g, "−");
    return value.toLocaleString("en", size >= 100 ? {maximumFractionDigits: 0} : {maximumSignificantDigits: 3}).replace("-", "−");
  },

  /** Buttons of which one is pressed; `choices` is [[value, label], ...]; calls `chosen(value)` on a change. */
  choice(label, choices, value, chosen) {
    const buttons = choices.map(([one, text]) => page.h("button", {type: "button", "aria-pressed": String(one === value), onclick() {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button === this));
      chosen(one);
    }}, text));
    return page.h("div", {class: "choice", role: "group", "aria-label": label}, buttons);
  },

  /** A labelled list to choose from. */
  select(label, choices, value, chosen) {
    const list = page.h("select", {onchange() { chosen(this.value); }},
      choices.map(([one, text]) => page.h("option", {value: one, selected: one === value}, text)));
    return page.h("label", {}, label, list);
  },

  /** A dashed box: what, why, and what helps. */
  missing(what, why, remedy) {
    return page.h("div", {class: "state"}, page.h("b", {}, what), " ", why, remedy ? [" ", remedy] : null);
  },

  /** Shows text beside a point of the window; without text hides it. */
  tip(text, x, y) {
    const tip = document.getElementById("tip");
    tip.style.visibility = text ? "visible" : "hidden";
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x - box.width / 2), innerWidth - box.width - 8);
    const top = y - box.height - 12 < 8 ? y + 16 : y - box.height - 12;
    tip.style.transform = `translate(${left}px, ${top}px)`;
  },

  /** Gives an element a tooltip on hover and on focus; `text` is a string or a function that returns one. */
  tooltip(element, text) {
    const show = () => {
      const box = element.getBoundingClientRect();
      page.tip(typeof text === "function" ? text() : text, box.x + box.width / 2, box.y);
    };
    for (const name of ["mouseenter", "focus"]) element.addEventListener(name, show);
    for (const name of ["mouseleave", "blur"]) element.addEventListener(name, () => page.tip());
    return element;
  },

  /** Calls `draw(width)` now and whenever the element's width changes. */
  fitted(element, draw) {
    let width = 0;
    new ResizeObserver(() => {
      const now = Math.floor(element.getBoundingClientRect().width);
      if (now && now !== width) draw(width = now);
    }).observe(element);
    width = Math.floor(element.getBoundingClientRect().width);
    if (width) draw(width);
  },

  /** Whether things may move. */
  still: () => matchMedia("(prefers-reduced-motion: reduce)").matches,

  start() {
    const root = document.documentElement;
    document.getElementById("theme").addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
    addEventListener("keydown", (event) => { if (event.key === "Escape") page.tip(); });
    addEventListener("scroll", () => page.tip(), {passive: true, capture: true});
    save.start();
    for (const element of document.querySelectorAll("[data-section]")) {
      const id = element.dataset.section;
      try {
        if (sections[id]) sections[id](element, page.data(id));
      } catch (error) {  // one broken section must not take the others with it
        console.error(error);
        element.append(page.h("div", {class: "state error"}, page.h("b", {}, "This part could not be drawn."), " ", String(error)));
      }
    }
  },
};
