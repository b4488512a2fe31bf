// Objects in a picture: the true ones dashed, the predicted ones whose probability is above a slider's.
drawings.boxes = (element, {prediction, reference, shown_source: source}, {without_reference: bare = false} = {}) => {
  const {h, s} = page, found = prediction?.boxes ?? [], gold = reference?.boxes ?? [];
  const sides = [...found, ...gold].flatMap(({box}) => box);
  const width = source?.width ?? Math.max(1, ...sides), height = source?.height ?? Math.max(1, ...sides), unit = Math.max(width, height) / 360;
  const overlap = ([a, b, c, d], [e, f, g, i]) => {
    const inner = Math.max(0, Math.min(c, g) - Math.max(a, e)) * Math.max(0, Math.min(d, i) - Math.max(b, f));
    return inner / ((c - a) * (d - b) + (g - e) * (i - f) - inner || 1);
  };
  const svg = s("svg", {viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "the picture with its objects", style: `display:block; width:min(100%, ${Math.min(480, Math.max(360, width))}px); background:var(--empty)`});
  const layer = s("g", {}), status = h("p", {class: "small", role: "status"});
  if (source?.picture) svg.append(s("image", {href: source.picture, width, height, preserveAspectRatio: "none"}));
  else element.append(h("p", {class: "note"}, "The picture is not in this page."));
  svg.append(layer);

  /** A box with its name; `role` is its colour, `dash` its line. */
  function box([x1, y1, x2, y2], name, role, dash, tip) {
    const size = 11 * unit, down = y1 < size * 1.4;
    return page.tooltip(s("g", {tabindex: 0, "aria-label": tip.replaceAll("\n", ", ")},
      s("rect", {x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1), fill: "transparent", style: `stroke:var(--${role}); stroke-width:${2 * unit}`, "stroke-dasharray": dash ? `${5 * unit} ${4 * unit}` : null}),
      s("text", {x: x1 + 2 * unit, y: dash ? y2 - 4 * unit : down ? y1 + size : y1 - 3 * unit, style: `font-size:${size}px; font-weight:650; fill:var(--${role}); paint-order:stroke; stroke:var(--paper); stroke-width:${3 * unit}`}, name)), tip);
  }

  function draw(least) {
    const kept = found.filter(({score}) => score >= least), matched = new Set();
    const pairs = kept.map((one) => {
      const place = gold.findIndex((other, place) => !matched.has(place) && other.label === one.label && overlap(one.box, other.box) >= 0.5);
      if (place >= 0) matched.add(place);
      return [one, place >= 0];
    });
    layer.replaceChildren(...(bare ? [] : gold.map(({box: at, label}, place) => box(at, label, "gold", true, `${label}: in the reference${matched.has(place) ? "" : "\nnot found"}`))),
      ...pairs.map(([{box: at, label, score}, right]) => box(at, label, reference && !right ? "wrong" : "predicted", false, `${label}: probability ${page.number(score, 2)}${reference ? right ? "\nright" : "\nnot in the reference" : ""}`)));
    status.textContent = reference ? `${matched.size} of ${gold.length} found, ${kept.length - matched.size} wrong.` : `${kept.length} found.`;
  }

  const value = h("b", {}, "0.5"), slider = h("input", {type: "range", min: 0, max: 1, step: 0.01, value: 0.5, "aria-label": "Least probability", oninput() { value.textContent = page.number(Number(this.value), 2); draw(Number(this.value)); }});
  const unsure = found.some(({score}) => score < 1);
  element.append(svg, unsure ? h("p", {class: "row"}, h("label", {}, "Probability at least ", slider, value)) : "", status, h("p", {class: "key"},
    reference && !bare ? h("span", {}, h("span", {class: "swatch", style: "border:2px dashed var(--gold)"}), "reference") : "", h("span", {}, h("span", {class: "swatch", style: "border:2px solid var(--predicted)"}), reference ? "right" : "output"),
    reference ? h("span", {}, h("span", {class: "swatch", style: "border:2px solid var(--wrong)"}), "wrong") : ""));
  draw(unsure ? 0.5 : 0);
};
