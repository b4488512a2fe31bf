// Words with their tags below them; under a wrong one stands the right one.
drawings.tags = (element, {prediction, reference}, {without_reference: bare = false} = {}) => {
  const {h} = page, words = (reference ?? prediction)?.words ?? [], gold = reference?.tags, found = prediction?.tags ?? [];
  if (!words.length) return element.append(h("p", {class: "note"}, "nothing"));
  const wrong = (place) => gold && found[place] !== gold[place];
  element.append(h("div", {class: "tags"}, words.map((word, place) => h("div", {}, h("div", {}, word),
    h("div", {}, h("span", {class: wrong(place) ? "wrong" : ""}, found[place] ?? "–")),
    wrong(place) ? h("div", {}, h("span", {class: "instead"}, gold[place])) : null))));
  if (!bare && words.some((_, place) => wrong(place))) element.append(h("p", {class: "key"},
    [["wrong", "output"], ["instead", "reference"]].map(([role, said]) => h("span", {}, h("span", {class: role}, "tag"), said))));
};
