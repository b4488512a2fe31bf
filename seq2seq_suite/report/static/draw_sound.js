// A recording: its spectrogram, CTC output per frame, a player, and the transcript beside the reference.
drawings.sound = (element, {prediction, reference, shown_source: source, inspection}, {without_reference: bare = false} = {}) => {
  const {h} = page, found = prediction?.text ?? "", gold = reference?.text ?? null;
  if (!bare && source?.values) {
    const {bins, frames: columns, seconds} = source, values = Uint8Array.from(atob(source.values), (one) => one.charCodeAt(0)), ends = inspection?.trace?.frames ?? inspection?.ctc;
    const canvas = h("canvas", {width: columns, height: bins, role: "img", "aria-label": `spectrogram, ${page.number(seconds, 1)} seconds, low frequencies at the bottom`}), pen = canvas.getContext("2d"), picture = pen.createImageData(columns, bins);
    for (let place = 0; place < values.length; place++) {
      const at = 4 * ((bins - 1 - place % bins) * columns + Math.floor(place / bins));
      picture.data.set([20, 70, 130, values[place]], at);
    }
    pen.putImageData(picture, 0, 0);
    const place = h("div", {class: "sound"}, canvas), names = (ends ?? []).map(([name]) => name);
    if (names.length) place.append(h("div", {class: "path", "aria-label": "CTC output per frame"}, names.map((name, at) => name && name !== names[at - 1] ? h("span", {style: `left:${100 * (at + 0.5) / names.length}%`}, name.trim() || "\u2423") : "")));
    element.append(place, h("p", {class: "small"}, `${page.number(seconds, 2)} seconds, mel bands from low to high${names.length ? "; below them, CTC output per frame" : ""}`));
  }
  if (!bare && source?.sound) element.append(h("audio", {controls: "", preload: "metadata", src: source.sound, "aria-label": "the recording"}));
  if (gold === null) return element.append(h("p", {}, found || h("span", {class: "note"}, "nothing")));
  element.append(bare ? h("p", {}, texts.line(gold, found)) : texts.pair(gold, found, "Transcript"));
};
