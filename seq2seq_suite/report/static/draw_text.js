// Outputs as text: words that differ from the reference stand out. Other drawings use `texts` too.
const texts = {
  /** Words and signs, each with whether a blank is before it; a Chinese character is a word. As `tasks.wording.words_of`. */
  words(text) {
    return [...text.matchAll(/\s*([\u3400-\u9fff\u3040-\u30ff]|[\p{L}\p{N}_]+(?:['’-][\p{L}\p{N}_]+)*|[^\s\p{L}\p{N}_])/gu)].map(([all, word]) => ({word, blank: all !== word}));
  },

  /** The words of two texts side by side, {kind, gold, found}: kind is "" for equal ones, wrong, missed or inserted; one that has no partner
   *  lacks `gold` or `found`. By the fewest edits (Levenshtein), and of these by the most equal words, then beginnings. */
  aligned(reference, output) {
    const [a, b] = [reference, output].map(texts.words), across = b.length + 1, EDIT = 1e6;
    if (a.length * b.length > 4e6) return [...a.map((gold) => ({kind: "", gold})), ...b.map((found) => ({kind: "", found}))];
    const cost = new Float64Array((a.length + 1) * across), at = (i, j) => cost[i * across + j];
    const alike = (one, other) => { let end = 0; while (end < 9 && end < one.length && one[end] === other[end]) end++; return end; };
    const pair = (i, j) => a[i].word === b[j].word ? -100 : EDIT - alike(a[i].word, b[j].word);
    for (let i = a.length; i >= 0; i--) for (let j = b.length; j >= 0; j--) {
      if (i === a.length || j === b.length) cost[i * across + j] = EDIT * (a.length - i + b.length - j);
      else cost[i * across + j] = Math.min(pair(i, j) + at(i + 1, j + 1), EDIT + at(i + 1, j), EDIT + at(i, j + 1));
    }
    const found = [];
    for (let i = 0, j = 0; i < a.length || j < b.length;) {
      const both = i < a.length && j < b.length;
      if (both && at(i, j) === pair(i, j) + at(i + 1, j + 1)) found.push({kind: a[i].word === b[j].word ? "" : "wrong", gold: a[i++], found: b[j++]});
      else if (i < a.length && (!both || at(i, j) === EDIT + at(i + 1, j))) found.push({kind: "missed", gold: a[i++]});
      else found.push({kind: "inserted", found: b[j++]});
    }
    return found;
  },

  /** The output in one line: wrong words with those of the reference behind them, and missed ones put in. */
  line(reference, output) {
    const {h} = page;
    return texts.aligned(reference, output).map(({kind, gold, found}) => [(found ?? gold).blank || kind === "missed" ? " " : "",
      kind ? h("span", {class: kind, title: kind === "wrong" ? `instead of ${gold.word}` : kind}, (found ?? gold).word) : found.word, kind === "wrong" ? h("span", {class: "small"}, ` (${gold.word})`) : ""]);
  },

  /** What the marks mean. */
  key: (kinds) => page.h("p", {class: "key"}, [["wrong", "other word"], ["missed", "missing"], ["inserted", "added"]].filter(([kind]) => kinds.has(kind))
    .map(([kind, said]) => page.h("span", {}, page.h("span", {class: kind}, "word"), said))),

  /** Reference and output side by side. */
  pair(reference, output, name = "Output") {
    const {h} = page, aligned = texts.aligned(reference, output), kinds = new Set(aligned.map((one) => one.kind));
    const side = (title, of) => h("div", {}, h("h3", {}, title), h("p", {}, aligned.some((one) => one[of]) ? aligned.filter((one) => one[of]).map((one) =>
      [one[of].blank ? " " : "", one.kind ? h("span", {class: of === "gold" && one.kind === "wrong" ? "instead" : one.kind}, one[of].word) : one[of].word]) : h("span", {class: "note"}, "nothing")));
    if (kinds.size === 1 && kinds.has("")) return side(`Reference and ${name.toLowerCase()} agree`, "gold");
    return h("div", {}, h("div", {class: "pair"}, side("Reference", "gold"), side(name, "found")), texts.key(kinds));
  },
};

drawings.text = (element, example) => {
  const {h} = page, text = (side, raw) => side?.text ?? raw ?? "";
  if (example.source) element.append(h("p", {class: "note source"}, example.source));
  element.append(texts.pair(text(example.reference, example.raw?.reference), text(example.prediction, example.raw?.prediction)));
};
