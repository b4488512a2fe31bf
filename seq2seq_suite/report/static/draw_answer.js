// A question over its context, in which the right answer and the output are marked where they stand.
drawings.answer = (element, {prediction, reference, shown_source: source}, {without_reference: bare = false} = {}) => {
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

  const said = h("p", {}, h("b", {}, found || "nothing"), gold && !right ? h("span", {class: "small"}, ` · right: ${gold.join(" or ")}`) : gold ? h("span", {class: "small"}, " · right") : "");
  if (bare) return element.append(said);
  let marked = 0;
  element.append(h("p", {}, h("b", {}, source?.question ?? "")), h("div", {class: "context"}, (source?.sentences ?? []).map((sentence) => {
    const theirs = places(sentence, found), ours = new Set((gold ?? []).flatMap((answer) => [...places(sentence, answer)]));
    return h("p", {}, sentence.split(/\s+/).filter(Boolean).map((word, place) => {
      const role = theirs.has(place) ? !gold || ours.has(place) ? "found" : "wrong" : ours.has(place) ? "missed" : "";
      marked += role !== "";
      return [role ? h("span", {class: role}, word) : word, " "];
    }));
  })), h("h3", {}, "Answer"), said);
  if (!marked) element.append(h("p", {class: "small"}, "Neither stands in the context word for word."));
  element.append(h("p", {class: "key"}, h("span", {}, h("span", {class: "found"}, "word"), gold ? "the right answer, given" : "the answer"),
    gold ? h("span", {}, h("span", {class: "wrong"}, "word"), "given, not right") : "", gold ? h("span", {}, h("span", {class: "missed"}, "word"), "right, not given") : ""));
};
