// The live page: type, speak or drop a picture, and see what each open run predicts.
sections.live = (element, state) => {
  const h = page.h, tasks = [...new Set(state.runs.map((run) => run.task))], of = (task) => state.runs.filter((run) => run.task === task);
  const takes = () => of(task)[0].takes, spoken = () => takes() === "sound", file = () => spoken() || takes() === "picture";
  let task = tasks[0], given = null, slower = 40, stop = () => {}, turn = 0, recording = null;

  // -- the parts of the page
  const status = h("span", {class: "small", role: "status"}), place = h("div"), tries = h("div", {class: "row tries"});
  const speak = h("button", {type: "button", onclick: record}, "● Speak"), drop = h("button", {type: "button", onclick: () => chosen.click()}, "Choose a file");
  const chosen = h("input", {type: "file", hidden: true, "aria-label": "file", onchange() { if (this.files[0]) take(this.files[0], this.files[0].name); this.value = ""; }});
  const go = h("button", {type: "button", class: "primary", onclick: run}, "Run ⏎"), results = h("div", {id: "results"}), others = h("div", {id: "others"});
  const controls = h("div", {class: "row"}, go,
    tasks.length > 1 ? page.choice("task", tasks.map((one) => [one, of(one)[0].verb]), task, (one) => { task = one; begin(); }) : null, speak, drop, chosen,
    h("span", {class: "grow"}), page.select("replay speed", [["1", "real time"], ["10", "10x slower"], ["40", "40x slower"], ["100", "100x slower"], ["0", "final output only"]], "40", (one) => {
      slower = Number(one);
      replay();
    }));
  const field = (name, label, hint, attributes) => h("label", {"data-control": name === "beam" ? "beam" : "sampling"}, label, h("input", {type: "number", name, placeholder: hint, onkeydown(event) { if (event.key === "Enter") run(); }, ...attributes}));
  const search = h("div", {class: "row search"}, field("beam", "beam", "as trained", {min: 1, max: 20}), field("temperature", "temperature", "off", {min: 0.01, max: 10, step: 0.01}),
    field("top_p", "top-p", "1", {min: 0.01, max: 1, step: 0.01}), field("seed", "seed", "0", {min: 0, max: 2147483647}));
  const box = h("div", {class: "surface", ondragover(event) { event.preventDefault(); }, ondrop(event) {
    event.preventDefault();
    if (file() && event.dataTransfer.files[0]) take(event.dataTransfer.files[0], event.dataTransfer.files[0].name);
  }}, place, search, controls);
  const count = state.runs.length;
  element.append(h("div", {class: "row title"}, h("h1", {}, "Try it"),
    h("span", {class: "note"}, count === 1 ? "One run is open on this machine. Nothing leaves it." : `${count} runs are open on this machine. Nothing leaves it.`),
    h("span", {class: "grow"}), status), box, tries, results, others);
  let columns = [], replay = () => {};
  begin();
  requestAnimationFrame(linked);

  function begin() {
    const typed = [...place.querySelectorAll("textarea")].map((field) => [field.name, field.value]);
    given = null; turn += 1; stop();
    for (const label of search.children) label.hidden = !of(task).some((one) => one.controls.includes(label.dataset.control));
    speak.hidden = !spoken(); drop.hidden = !file();
    const write = (label, name, rows) => h("label", {class: "typed"}, h("span", {class: "small"}, label),
      h("textarea", {name, rows, maxlength: state.limits.text, onkeydown(event) {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); run(); }
      }}));
    if (takes() === "question") place.replaceChildren(write("question", "question", 1), write("context", "context", 2));
    else if (!file()) place.replaceChildren(write(of(task)[0].drawing === "surprise" ? "beginning" : "sentence", "text", 1));
    else place.replaceChildren(h("p", {class: "note prompt"}, spoken() ? "Speak, or drop a sound file here." : "Drop a picture here."));
    for (const [name, text] of typed) for (const field of place.querySelectorAll(`[name=${name}]`)) field.value = text;
    const first = of(task).find((one) => one.examples.length);
    tries.replaceChildren(...(first ? [h("span", {class: "small"}, "try"), ...first.examples.map((text, number) =>
      h("button", {type: "button", onclick: () => tryOut(first, text, number)}, text.split("|||")[0]))] : []));
    others.replaceChildren();
    results.replaceChildren(page.missing(file() ? "No file yet." : "No text yet.", file() ?
      (spoken() ? "Speak, choose a file, or use an example." : "Choose or drop a picture, or use an example.") : "Type a sentence and press Enter, or choose one above."));
    say();
  }

  async function tryOut(one, text, number) {
    if (!file()) {
      const parts = takes() === "question" ? text.split("|||").map((part) => part.trim()) : [text];
      [...place.querySelectorAll("textarea")].forEach((field, i) => { field.value = parts[i] ?? ""; });
      return run();
    }
    const reply = await fetch("api/examples?" + new URLSearchParams({run: one.name, number})).catch(() => null);
    if (reply?.ok) take(await reply.blob(), text);
    else fail({what: "The example cannot be read.", expected: "", remedy: "check that the server still runs"});
  }

  /** A recording or a picture becomes the input. */
  function take(blob, name) {
    if (blob.size > state.limits.megabytes * 2 ** 20) return fail({what: `The file has ${page.number(blob.size / 2 ** 20, 1)} MB.`,
      expected: `at most ${state.limits.megabytes} MB`, remedy: "choose a smaller one, or start the server with a larger --max-megabytes"});
    if (given?.url) URL.revokeObjectURL(given.url);
    given = {blob, url: URL.createObjectURL(blob)};
    place.replaceChildren(h("p", {class: "note"}, name), spoken() ? h("audio", {controls: true, src: given.url})
      : h("img", {src: given.url, alt: name, class: "preview", onerror() { this.hidden = true; }}));
    run();
  }

  async function record() {
    if (recording) {
      const done = await recording;
      recording = null;
      speak.textContent = "● Speak";
      if (done) take(await done(), "your recording");
      return;
    }
    speak.textContent = "■ Stop";
    recording = liveInput.record().catch(() => {
      fail({what: "The microphone cannot be used.", expected: "a microphone, and your permission", remedy: "allow it in the browser, or choose a file"});
      return null;
    });
    if (!await recording) { recording = null; speak.textContent = "● Speak"; }
  }

  function input() {
    if (file()) return given?.blob;
    const fields = [...place.querySelectorAll("textarea")], empty = fields.filter((field) => !field.value.trim());
    if (empty.length === fields.length) return null;
    for (const field of fields) field.setAttribute("aria-invalid", String(empty.includes(field)));
    if (!empty.length) return Object.fromEntries(fields.map((field) => [field.name, field.value]));
    empty[0].focus();
    throw {what: `The ${empty[0].name} is missing.`, expected: fields.map((field) => `a ${field.name}`).join(" and "), remedy: `fill in the field “${empty[0].name}”`};
  }

  /** The changed search settings, of a run only those that it supports. */
  function searched(one) {
    return Object.fromEntries([...search.children].filter((label) => !label.hidden && label.lastChild.value && (!one || one.controls.includes(label.dataset.control)))
      .map((label) => [label.lastChild.name, Number(label.lastChild.value)]));
  }

  /** The page's address with the input and the search settings. */
  function link(asked) {
    return "?" + new URLSearchParams({task, ...asked, ...searched()});
  }

  /** Runs the input of the page's address. */
  function linked() {
    const params = new URLSearchParams(location.search);
    if (!tasks.includes(params.get("task"))) return;
    [...controls.querySelectorAll(".choice button")][tasks.indexOf(params.get("task"))]?.click();
    for (const one of [...place.querySelectorAll("textarea"), ...search.querySelectorAll("input")]) one.value = params.get(one.name) ?? "";
    if (!file()) run();
  }

  const copier = (label, text) => h("button", {type: "button", class: "save", async onclick() { this.textContent = await save.copy(text(), "text.txt"); setTimeout(() => { this.textContent = label; }, 2000); }}, label);

  function say(waiting) {
    status.replaceChildren(h("span", {class: "light" + (waiting ? " busy" : "")}, "●"), waiting === undefined ? " ready" : ` working, ${waiting} waiting`);
  }

  function fail(error) {
    turn += 1;
    others.replaceChildren();
    results.replaceChildren(wrong(error));
    say();
  }

  function wrong(error) {
    return h("div", {class: "state error", role: "alert"}, h("b", {}, error.what), " ", error.expected ? h("div", {}, "expected: ", error.expected) : null,
      error.remedy ? h("div", {}, "remedy: ", error.remedy) : null);
  }

  async function run() {
    stop();
    let asked;
    try { asked = input(); } catch (error) { return fail(error); }
    if (!asked) return begin();
    const mine = ++turn, kind = takes(), own = of(task);
    if (!file()) history.replaceState(null, "", link(asked) + location.hash);
    others.replaceChildren();
    results.replaceChildren(h("div", {class: "state working"}, h("b", {}, "Working…"), " ", h("span", {}), h("div", {class: "bar-of"}, h("i", {}))));
    const watch = setInterval(async () => {
      const now = await fetch("api/runs").then((reply) => reply.json()).catch(() => null);
      if (mine !== turn || !now) return;
      const before = Math.max(0, now.waiting - 1);
      results.querySelector(".working span")?.replaceChildren(before ? `${before} in the queue before yours.` : "");
      say(now.waiting);
    }, 400);
    const found = [];
    try {
      for (const [number, one] of own.entries()) {  // one after the other: each has the machine to itself
        const answer = await liveInput.ask(one.name, asked, {...searched(one), trace: true}).catch((error) => ({error}));
        if (mine !== turn) return;
        found.push({run: one, answer});
        const bar = results.querySelector(".bar-of i");
        if (bar) bar.style.width = `${100 * (number + 1) / own.length}%`;
      }
      show(found, asked);
      const rest = state.runs.filter((one) => one.task !== task && one.takes === kind);
      if (rest.length) await showOthers(rest, asked, mine);
    } finally {
      clearInterval(watch);
      if (mine === turn) say();
    }
  }

  /** The runs of the task, side by side. */
  function show(found, asked) {
    const traced = found.filter((one) => one.answer.trace);
    columns = traced.map((one, number) => ({...one, trace: one.answer.trace, colour: liveReplay.colours[number % liveReplay.colours.length],
      name: title(one.run, found)}));
    const clock = h("div", {class: "chart"}), parts = h("div", {class: "grid"}), both = h("div", {}, clock, parts);
    for (const one of found) {
      const column = columns.find((other) => other.run === one.run);
      parts.append(h("div", {class: found.length === 1 ? "" : found.length === 2 || found.length === 4 ? "half" : "third", style: `border-top: 3px solid var(${column?.colour ?? "--rule-2"}); padding-top: 12px`},
        h("div", {class: "row"}, h("b", {}, title(one.run, found)), h("span", {class: "small"}, column ? liveReplay.passes(column.trace) : ""),
          h("a", {class: "small", href: "report?" + new URLSearchParams({run: one.run.name}), target: "_blank"}, one.run.score || "report"),
          h("span", {class: "grow"}), column ? h("span", {class: "value"}, page.number(column.trace.milliseconds, 1), h("small", {}, " ms")) : null),
        one.answer.error ? wrong(one.answer.error) : [column ? liveReplay.cells(column.trace, one.answer.outputs[0]?.text ?? "") : null,
          column?.trace.candidates ? inspection.candidates(column.trace) : null, output(one.run, one.answer), one.answer.outputs.length ? copier("copy output", () => one.answer.outputs[0].text) : null, nBest(one.run, asked), inside(one.run, asked)]));
    }
    const several = columns.length > 1;
    results.replaceChildren(strangers(found.flatMap((one) => one.answer.unknown ?? [])) ?? "",
      h("div", {class: "row heading"}, h("h2", {}, several ? "Decoders side by side, same time axis" : "Step by step"), h("span", {class: "grow"}),
        file() ? null : copier("copy link", () => location.href), columns.length ? h("button", {type: "button", onclick: () => replay()}, "↻ Replay") : null),
      columns.some((one) => !one.trace.candidates) ? h("p", {class: "note"}, several ? "The same input through each decoder. Tokens appear at the time they were generated." : "Tokens appear at the time they were generated.") : "", both);
    const most = Math.max(0, ...columns.map((one) => one.trace.milliseconds));
    if (columns.length) liveReplay.clock(clock, columns);
    replay = () => { stop(); stop = liveReplay.play(both, most, slower); };
    replay();
  }

  function strangers(words) {
    const unknown = [...new Set(words)], one = unknown.length === 1;
    return unknown.length ? h("p", {class: "note unknown"}, h("b", {}, one ? "Unknown word: " : "Unknown words: "), unknown.map((word) => `“${word}”`).join(", "),
      `. Not in the training data.`, unknown.some((word) => /\w[.,;:!?]$/.test(word)) ? " Type a space before punctuation." : "") : null;
  }

  function title(run, found) {
    const name = liveReplay.names[run.strategy] ?? run.strategy;
    return found.filter((one) => one.run.strategy === run.strategy).length > 1 ? `${name}: ${run.name}` : name;
  }

  /** The best output, drawn as the task draws it. */
  function output(one, answer) {
    const best = answer.outputs[0], target = h("div", {class: "output"});
    if (!best) return page.missing("No output.", "The search found none.");
    if (one.drawing !== "text" && drawings[one.drawing] && !file()) drawings[one.drawing](target, {source: answer.source.text, shown_source: answer.source, reference: null, prediction: best.shown}, {});
    else if (best.shown.boxes) boxes(target, best.shown.boxes);
    else target.append(best.drawn.includes("\n") ? h("div", {class: "scroll"}, h("pre", {}, best.drawn)) : h("p", {}, best.drawn));
    return target;
  }

  function boxes(target, found) {
    const image = h("img", {src: given.url, alt: "the picture", class: "whole"}), over = page.s("svg", {class: "over"}), said = h("span", {class: "small"});
    const draw = () => {
      const sure = found.filter((one) => 100 * one.score >= slider.value), unit = image.naturalWidth / Math.max(1, image.clientWidth);
      over.setAttribute("viewBox", `0 0 ${image.naturalWidth || 1} ${image.naturalHeight || 1}`);
      over.replaceChildren(...sure.flatMap(({box: [x, y, right, bottom], label, score}) => [
        page.s("rect", {x, y, width: right - x, height: bottom - y, fill: "none", stroke: "var(--predicted)", "stroke-width": 2 * unit}),
        page.s("text", {x, y: Math.max(12 * unit, y - 3 * unit), style: `font-size:${12 * unit}px; fill:var(--predicted); paint-order:stroke; stroke:var(--paper); stroke-width:${3 * unit}px`},
          `${label} ${page.number(100 * score, 0)} %`)]));
      said.textContent = `${sure.length} of ${found.length} boxes have a probability of ${slider.value} % or more.`;
    };
    const slider = h("input", {type: "range", min: 0, max: 100, value: 50, oninput: draw});
    image.addEventListener("load", draw);
    target.append(h("div", {class: "framed"}, image, over), h("div", {class: "row"}, h("label", {}, "lowest probability", slider), said));
    page.fitted(image, draw);
  }

  /** Details that are requested only when they are opened. */
  function onDemand(name, one, asked, options, draw) {
    const target = h("div", {}), details = h("details", {ontoggle: async () => {
      if (!details.open || target.children.length) return;
      target.append(h("p", {class: "small"}, "Working…"));
      const answer = await liveInput.ask(one.name, asked, options).catch((error) => ({error}));
      target.replaceChildren(answer.error ? wrong(answer.error) : "");
      if (!answer.error) draw(target, answer);
    }}, h("summary", {}, name), target);
    return details;
  }

  const nBest = (one, asked) => one.n_best < 2 ? null : onDemand("Five best", one, asked, {...searched(one), n_best: 5}, (target, answer) =>
    target.append(h("div", {class: "scroll"}, h("table", {}, h("tbody", {}, answer.outputs.map((found) =>
      h("tr", {}, h("td", {}, found.text || "(empty)"), h("td", {}, page.number(found.score, 2)))))))));

  const inside = (one, asked) => onDemand("Attention and probabilities", one, asked, {...searched(one), inspect: true}, (target, answer) =>
    inspection.show(target, {...answer.inspection, hypotheses: [], trace: undefined}, {drawing: one.drawing}));

  /** Predictions of other tasks' runs for the same input. */
  async function showOthers(rest, asked, mine) {
    const panel = h("div", {class: "surface"}), answers = new Map();
    for (const one of rest) {
      const answer = await liveInput.ask(one.name, asked, {}).catch((error) => ({error}));
      if (mine !== turn) return;
      answers.set(one.name, answer);
    }
    const pick = (name) => {
      const one = rest.find((other) => other.name === name), answer = answers.get(name);
      panel.replaceChildren(h("p", {class: "note"}, answer.error ? one.name : `${one.name}, ${page.number(answer.milliseconds, 1)} ms`), strangers(answer.unknown ?? []) ?? "",
        answer.error ? wrong(answer.error) : output(one, answer));
    };
    const twice = (one) => rest.filter((other) => other.task === one.task).length > 1;
    others.replaceChildren(h("div", {class: "row heading"}, h("h2", {}, "Other tasks on the same input"), h("span", {class: "grow"}),
      page.choice("run", rest.map((one) => [one.name, twice(one) ? one.name : one.verb]), rest[0].name, pick)), panel);
    pick(rest[0].name);
  }
};
