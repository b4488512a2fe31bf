// Sets of labels: what both have, what the output lacks, and what it adds.
drawings.labels = (element, {prediction, reference, source, shown_source: read}, {without_reference: bare = false} = {}) => {
  const {h} = page, found = prediction?.labels ?? [], gold = reference?.labels ?? null;
  const chip = (name, role, said) => h("span", {class: `chip ${role}`, title: said}, name, h("span", {class: "unseen"}, `, ${said}`));
  if (!bare) element.append(h("p", {class: "source"}, read?.text ?? source ?? ""));
  if (!gold) return element.append(h("p", {}, found.length ? found.map((name) => chip(name, "", "found")) : h("span", {class: "note"}, "no label")));
  const chips = [...found.map((name) => gold.includes(name) ? chip(name, "right", "right") : chip(name, "wrong", "not in the reference")),
    ...gold.filter((name) => !found.includes(name)).map((name) => chip(name, "missed", "missed"))];
  element.append(h("p", {}, chips.length ? chips : h("span", {class: "note"}, "no label, and none is right")));
  if (prediction?.chances?.length) element.append(h("p", {class: "small"}, "Probabilities: ", prediction.chances.map(([name, p]) => `${name} ${page.number(100 * p, 1)} %`).join(", "), "."));
  if (!bare) element.append(h("p", {class: "key"}, [["right", "right"], ["wrong", "not in the reference"], ["missed", "missed"]].map(([role, said]) => h("span", {}, h("span", {class: `chip ${role}`}, " "), said))));
};
