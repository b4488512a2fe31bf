// Outputs as text: words that differ from the reference stand out. Other drawings use `words` too.
const words = {
  /** The words of two texts, each with whether the other lacks it at its place (longest common subsequence). */
  differ(left, right) {
    const [a, b] = [left, right].map((text) => text.split(/\s+/).filter(Boolean));
    if (a.length * b.length > 4e6) return [a, b].map((some) => some.map((word) => [word, false]));
    const best = Array.from({length: a.length + 1}, () => new Uint32Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
    const found = [[], []];
    for (let i = 0, j = 0; i < a.length || j < b.length;) {
      const same = i < a.length && j < b.length && a[i] === b[j], left = j >= b.length || (i < a.length && best[i + 1][j] >= best[i][j + 1]);
      if (same || left) found[0].push([a[i++], !same]);
      if (same || !left) found[1].push([b[j++], !same]);
    }
    return found;
  },

  /** A text of [word, marked]; marked words are of a role: wrong, missed. */
  marked(some, role) {
    return page.h("p", {}, some.length ? some.map(([word, is]) => [is ? page.h("span", {class: role}, word) : word, " "]) : page.h("span", {class: "note"}, "nothing"));
  },
};

drawings.text = (element, example) => {
  const {h} = page, text = (side, raw) => side?.text ?? raw ?? "";
  const [gold, found] = [text(example.reference, example.raw?.reference), text(example.prediction, example.raw?.prediction)];
  const sides = words.differ(gold, found), side = (title, some, role) => h("div", {}, h("h3", {}, title), words.marked(some, role));
  element.append(...(example.source ? [h("p", {class: "note source"}, example.source)] : []), gold === found ? side("Reference and prediction agree", sides[0], "missed")
    : h("div", {class: "pair"}, side("Reference", sides[0], "missed"), side("Prediction", sides[1], "wrong")));
};
