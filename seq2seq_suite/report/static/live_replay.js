// Replays how decoders generated their outputs: side by side, step by step, on one time axis.
const liveReplay = {
  names: {autoregressive: "Left to right", mask_predict: "Mask-predict", ctc: "CTC", dag: "Graph (DAG)", length_head: "Length first",
    cut_at_end: "Cut at the end", slots: "Slots", blocks: "Blocks"},
  colours: ["--s1", "--s4", "--s2", "--s3", "--s6", "--s5"],

  /** Rows of cells of a trace: [label, [{text, at, kind}]]; `kind` is new, old, blank or empty. */
  rows(trace, output) {
    const shown = (text) => text.replaceAll("▁", " ").trim() || (text ? "␣" : "–");
    const begins = (text) => text.startsWith("▁") || text === " ";
    if (trace.candidates) return [];
    if (trace.kind === "autoregressive" || (trace.passes && !trace.passes.some((one) => one.symbols.length > 1) && trace.passes.length > 1))
      return [["", trace.passes.filter((one) => one.symbols[0] !== "<end>").map((one) =>
        ({text: shown(one.symbols[0]), begins: begins(one.symbols[0]), at: one.milliseconds, kind: "new"}))]];
    if (trace.kind === "blocks") return [["", trace.passes[0].symbols.map((symbol, place) => ({text: shown(symbol), begins: begins(symbol),
      at: trace.passes.find((one) => one.written[place]).milliseconds, kind: "new"})).filter((one) => one.text !== "<end>")]];
    if (trace.passes) return trace.passes.map((one, number) => [trace.passes.length > 1 ? `pass ${number + 1}` : "at once", one.symbols.map((symbol, place) => {
      const again = trace.passes[number + 1]?.written[place];
      return {text: again ? "" : shown(symbol), at: one.milliseconds, begins: begins(symbol), kind: again ? "empty" : one.written[place] ? "new" : "old"};
    })]);
    const all = trace.milliseconds;
    if (trace.frames) return [["frames", trace.frames.map(([symbol]) => ({text: symbol ? shown(symbol) : "–", at: all, kind: symbol ? "new" : "blank"}))],
      ["merged", [{text: output, at: all, kind: "old"}]]];
    if (trace.graph) {
      const on = new Set(trace.graph.path);
      return [["graph", trace.graph.vertices.map(([symbol], place) => ({text: shown(symbol), at: all, kind: on.has(place) ? "new" : "blank"}))],
        ["path", [{text: output, at: all, kind: "old"}]]];
    }
    return [];
  },

  /** Times, in milliseconds, at which symbols were generated. */
  moments: (trace) => trace.passes ? trace.passes.map((one) => one.milliseconds) : [trace.milliseconds],

  passes(trace) {
    if (trace.candidates) return "minimum Bayes risk";
    const count = trace.passes?.length ?? 1;
    return `${count} ${count === 1 ? "pass" : "passes"}` + (trace.predicted_length ? `, predicted length ${trace.predicted_length}` : "");
  },

  /** Draws the time axis: a line for each trace, a mark for each step. */
  clock(element, columns) {
    const most = Math.max(...columns.map((one) => one.trace.milliseconds));
    page.fitted(element, (width) => {
      const left = Math.min(150, width * 0.3), right = 24, height = 20 * columns.length + 28, x = (at) => left + (width - left - right) * at / most;
      const rough = most / Math.max(2, Math.min(6, width / 140)), power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
      const svg = page.s("svg", {width, height, role: "img", "aria-label": "When each decoder generated its symbols: " +
        columns.map((one) => `${one.name} ${page.number(one.trace.milliseconds, 1)} ms`).join(", ")});
      for (let at = 0; at <= most; at += step) svg.append(page.s("line", {class: "rule", x1: x(at), x2: x(at), y1: 0, y2: height - 18}),
        page.s("text", {x: x(at), y: height - 4, "text-anchor": "middle"}, page.short(at) + (at + step > most ? " ms" : "")));
      columns.forEach((one, number) => {
        const y = 12 + 20 * number, colour = `var(${one.colour})`;
        const label = page.s("text", {x: 0, y: y + 4, class: "ink"}, one.name);
        const marks = liveReplay.moments(one.trace).map((at) => one.trace.kind === "autoregressive"
          ? page.s("circle", {"data-at": at, cx: x(at), cy: y, r: 4, fill: colour})
          : page.s("rect", {"data-at": at, x: x(at) - 3.5, y: y - 3.5, width: 7, height: 7, fill: colour, transform: `rotate(45 ${x(at)} ${y})`}));
        svg.append(label, page.s("line", {x1: x(0), x2: x(one.trace.milliseconds), y1: y, y2: y, stroke: colour, "stroke-width": 2, opacity: .4}), ...marks);
      });
      element.replaceChildren(svg);
    });
  },

  /** Cells of a trace; each carries its time. */
  cells(trace, output) {
    return page.h("div", {class: "steps"}, liveReplay.rows(trace, output).map(([label, cells]) => page.h("div", {class: "step"},
      label ? page.h("span", {class: "small"}, label) : null,
      page.h("p", {}, cells.map((one) => page.h("span", {class: "cell " + one.kind + (one.begins ? " begins" : ""), "data-at": one.at}, one.text))))));
  },

  /** Shows everything under `element` at its time, `slower` times as slow; returns a function that ends it. */
  play(element, most, slower) {
    const timed = [...element.querySelectorAll("[data-at]")].map((one) => [Number(one.dataset.at), one]);
    const upTo = (now) => { for (const [at, one] of timed) one.classList.toggle("ahead", at > now); };
    if (page.still() || !slower) { upTo(Infinity); return () => {}; }
    let frame = 0, begun;
    const draw = (now) => {
      begun ??= now;
      const at = (now - begun) / slower;
      upTo(at);
      if (at < most) frame = requestAnimationFrame(draw);
    };
    upTo(-1);
    frame = requestAnimationFrame(draw);
    return () => { cancelAnimationFrame(frame); upTo(Infinity); };
  },
};
