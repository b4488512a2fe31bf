// A question over its context, in which the right answer and the output are marked where they stand; if attention is recorded,
// the shade of a sentence or of a word grows with the attention that it receives from the answer.
drawings.answer = (element, {prediction, reference, shown_source: source, inspection}, {without_reference: bare = false} = {}) => {
  const {h} = page, parts = (text) => String(text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const found = prediction?.answers?.[0] ?? prediction?.text ?? "", gold = reference ? reference.answers ?? [reference.text] : null;
  const right = gold?.some((answer) => parts(answer).join(" ") === parts(found).join(" ")) ?? false;

  /** The places of an answer's words in a sentence, all of its occurrences. */
  function places(sentence, answer) {
    const words = parts(sentence), wanted = parts(answer), all = new Set();
    for (let first = 0; wanted.length && first + wanted.length <= words.length; first++) {
      if (wanted.every((word, place) => words[first + place] === word)) wanted.forEach((_, place) => all.add(first + place));
    }
    return all;
  }

  /** Attention of the answer's symbols, mean over the last layer's heads: sentence -> [its share, the shares of its words]; null where unknown. */
  function attention(sentences) {
    const cross = inspection?.attention?.cross, names = inspection?.source ?? [], rows = (inspection?.target ?? []).filter((name) => name !== "<end>").length;
    if (!cross || !rows) return null;
    const bytes = Uint8Array.from(atob(cross.values), (one) => one.charCodeAt(0)), share = names.map(() => 0);
    for (let head = 0; head < cross.heads; head++) for (let row = 0; row < rows; row++) for (let place = 0; place < names.length; place++)
      share[place] += bytes[(((cross.layers - 1) * cross.heads + head) * cross.rows + row) * cross.columns + place] / (255 * cross.heads * rows);
    if (sentences.every((one) => names.includes(one))) return sentences.map((one) => [share[names.indexOf(one)], null]);
    let place = parts(source.question).length;
    if (names.length < place + parts(sentences.join(" ")).length || names.some((name) => name.startsWith("▁"))) return null;  // pieces
    return sentences.map((one) => {
      const own = share.slice(place, place += parts(one).length);
      return [own.reduce((total, value) => total + value, 0), own];
    });
  }
  const shade = (share, most) => `background: color-mix(in srgb, var(--soft) ${Math.round(20 * share / Math.max(most, 0.01))}%, transparent)`;

  const said = h("p", {}, h("b", {}, found || "nothing"), gold && !right ? h("span", {class: "small"}, ` · right: ${gold.join(" or ")}`) : gold ? h("span", {class: "small"}, " · right") : "");
  if (bare) return element.append(said);
  let marked = 0;
  const seen = attention(source?.sentences ?? []), most = Math.max(0, ...(seen ?? []).flatMap(([all, words]) => words ?? [all]));
  element.append(h("p", {}, h("b", {}, source?.question ?? "")), h("div", {class: "context"}, (source?.sentences ?? []).map((sentence, number) => {
    const [all, each] = seen?.[number] ?? [null, null];
    const theirs = places(sentence, found), ours = new Set((gold ?? []).flatMap((answer) => [...places(sentence, answer)]));
    return h("p", {style: all !== null && !each ? shade(all, most) : null, title: all === null ? null : `${page.number(100 * all, 1)} % of the answer's attention`}, sentence.split(/\s+/).filter(Boolean).map((word, place) => {
      const role = theirs.has(place) ? !gold || ours.has(place) ? "found" : "wrong" : ours.has(place) ? "missed" : "";
      marked += role !== "";
      const said = role ? h("span", {class: role}, word) : word;
      return [each ? h("span", {style: shade(each[place], most)}, said) : said, " "];
    }));
  })), h("h3", {}, "Answer"), said);
  if (!marked) element.append(h("p", {class: "small"}, "Neither occurs verbatim in the context."));
  if (seen) element.append(h("p", {class: "small"}, "Shade: attention from the answer's words, mean over the heads of the last layer."));
  element.append(h("p", {class: "key"}, h("span", {}, h("span", {class: "found"}, "word"), gold ? "right answer" : "the answer"),
    gold ? h("span", {}, h("span", {class: "wrong"}, "word"), "wrong answer") : "", gold ? h("span", {}, h("span", {class: "missed"}, "word"), "right answer, missed") : ""));
};
