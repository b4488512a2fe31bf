// A text that a language model has judged: the shade of a symbol grows with its surprise, -log2 p.
drawings.surprise = (element, {prediction, source, shown_source: read, raw}) => {
  const {h} = page, pieces = prediction?.pieces;
  if (!pieces?.length) return element.append(h("p", {}, prediction?.text || raw?.prediction || h("span", {class: "note"}, "nothing")));  // a continuation
  const most = 10, text = read?.text ?? source ?? "";
  const shade = (bits) => `background: color-mix(in srgb, var(--gold) ${Math.round(45 * Math.min(1, bits / most))}%, transparent)`;
  const plain = (name) => name.replace(/^<(.*)>$/, "$1").replace(/▁/g, " ");
  const one = ([name, bits]) => [/^[▁ <]/.test(name) ? " " : "", page.tooltip(h("span", {class: "piece", tabindex: 0, style: shade(bits)}, plain(name).trim() || "␣"),
    `${plain(name).trim() || "␣"}: ${page.number(bits, 1)} bits, probability ${page.number(100 * 2 ** -bits, 1)} %`)];
  element.append(h("p", {class: "pieces"}, pieces.map(one)),
    h("p", {class: "note"}, `${page.number(prediction.bits, 1)} bits in all, ${page.number(prediction.bits / Math.max(1, text.length), 2)} a character. Hover or focus a symbol for its own.`),
    h("p", {class: "key"}, [0, 2, 5, 10].map((bits) => h("span", {}, h("span", {class: "piece", style: shade(bits)}, "\u00a0\u00a0\u00a0"), bits === most ? `${bits} bits or more` : `${bits} bits`))));
};
