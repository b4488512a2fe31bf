// Sections of the page of a run; `report/run.py` makes their data.
{
  const {h} = page;
  const head = (element) => element.parentElement.querySelector("header");
  const colours = ["s1", "s2", "s3", "s4", "s5", "s6"];

  sections.training = (element, data) => {
    if (!data.losses.length && !data.figures.length) {
      element.append(page.missing("No curves are recorded here.", "A run records them in metrics.jsonl while it trains."));
    } else curves(element, data);
    const time = h("div", {});
    element.append(time);
    if (data.phases.length) {
      charts.panel(time, {kind: "strip", title: "Time by phase", y: "", texts: [data.phases.map(([, , text]) => text)],
        series: data.phases.map(([name, seconds], place) => ({name, role: ["s5", "s1", "s4", "s2"][place % 4], points: [["", seconds]]}))});
    } else if (data.losses.length) {
      time.append(h("h3", {}, "Time by phase"), page.missing("Not recorded in this run.", "Runs trained with this version record the seconds of each phase and the memory."));
    }
    if (data.memory !== null) time.append(h("p", {class: "note"}, "Peak memory: ", h("b", {}, `${page.number(data.memory / 1000)} GB`), "; on a CPU, of the whole process with Python, PyTorch and the data. The verb check estimates what a training step adds."));
  };

  function curves(element, data) {
    const axes = [["0", "updates"], ["1", "minutes"], ["2", "symbols"]].filter(([axis]) =>
      [...data.losses, ...data.figures].some((one) => one.points.some((point) => Number.isFinite(point[axis]))));
    const losses = [...new Set(data.losses.map((one) => one.loss))];
    let axis = "0", chosen = losses.length > 3 ? losses[0] : "";
    const place = h("div", {}), header = head(element);
    header.append(page.choice("Axis", axes, axis, (value) => { axis = value; draw(); }));
    if (chosen) header.append(h("p", {}), page.select("Loss", losses.map((one) => [one, one]), chosen, (value) => { chosen = value; draw(); }));
    for (const note of data.notes) header.append(h("p", {class: "note"}, note));
    element.append(place);

    function draw() {
      const on = (points) => points.filter((point) => Number.isFinite(point[axis])).map((point) => [point[axis], point[3]]);
      const ring = (points) => data.best === null ? undefined : points.find((point) => point[0] === data.best)?.[axis];
      const shown = data.losses.filter((one) => !chosen || one.loss === chosen);
      const all = [...shown, ...data.figures, {points: data.rate}].flatMap((one) => on(one.points).map(([x]) => x));
      const rangeX = [0, Math.max(...all)], unit = axes.find(([value]) => value === axis)[1];
      const plain = shown.map((one) => ({name: chosen ? one.dashed ? "validation" : "training" : one.name, dashed: one.dashed, marks: one.dashed, points: on(one.points),
        role: losses.length === 1 || chosen ? one.dashed ? "s4" : "s1" : colours[losses.indexOf(one.loss) % 6]}));
      const values = plain.flatMap((one) => one.points.map((point) => point[1])), least = Math.min(...values);
      const log = least > 0 && Math.max(...values) / least > 20;
      const figures = data.figures.map((one, place) => ({name: one.name, marks: true, role: data.figures.length > 1 ? colours[place % 6] : "s4",
        points: on(one.points), ring: place ? undefined : ring(one.points)}));
      const names = [...plain, ...figures].map((one) => one.name.length);
      const right = Math.min(190, Math.max(...names) * 6.6 + 22);
      place.replaceChildren();
      if (plain.length) charts.lines(place, {y: `loss, nats per token${log ? " (log)" : ""} ↓`, log, series: plain, rangeX, right, x: figures.length ? "" : unit, title: "loss"});
      if (figures.length) {
        charts.lines(place, {y: `${data.metric} on validation${data.best === null ? "" : "; ring: the checkpoint that is kept"}`, series: figures, rangeX, right, height: Math.max(110, 16 * figures.length), x: unit, title: "validation"});
      }
      if (data.rate.length > 1) {
        place.append(h("details", {}, h("summary", {}, "Learning rate")));
        charts.lines(place.lastChild, {y: "learning rate", height: 90, x: unit, rangeX, right, series: [{name: "rate", role: "s5", points: on(data.rate)}], title: "learning rate"});
      }
    }
    draw();
  }

  sections.errors = (element, data) => {
    const grid = h("div", {class: "grid"});
    element.append(grid);
    const cell = (width, panel) => {
      const place = h("div", {class: width});
      grid.append(place);
      if (panel) charts.panel(place, panel);
      return place;
    };
    const absent = (title, what) => cell("third").append(h("h3", {}, title), page.missing("Not recorded in this run.", what, h("code", {}, data.command)));
    const some = data.kinds || data.lengths;
    if (data.kinds) cell("third", data.kinds);
    else if (!some) absent("By kind of error", "Evaluation records the kinds of errors:");
    if (data.lengths) cell("third", data.lengths);
    else absent("By length of the source", "Evaluation records the lengths:");
    if (data.failures) cell("third", data.failures);
    if (!data.splits.length) return;
    const own = h("div", {class: "grid"});
    const show = (name) => {
      own.replaceChildren();
      for (const panel of data.splits.find((one) => one.name === name).panels) {
        const wide = (panel.kind === "matrix" || panel.kind === "table") && (panel.columns ?? []).length > 7;
        const place = h("div", {class: wide ? "" : "half"});
        own.append(place);
        charts.panel(place, panel);
      }
    };
    element.append(data.splits.length === 1 ? h("p", {class: "row"}) : h("div", {class: "row"}, h("h3", {}, "More on"), page.choice("Split", data.splits.map((one) => [one.name, one.name]), data.splits[0].name, show)), own);
    show(data.splits[0].name);
  };

  const plain = drawings.text, UNITS = {rate: "words a minute", noise: "dB signal-to-noise ratio"};
  const scramble = (number) => { let n = (number + 1) * 2654435761 >>> 0; n ^= n >>> 15; return Math.imul(n, 2246822519) >>> 0; };
  const said = (value) => typeof value === "number" ? page.short(value) : String(value);

  sections.examples = (element, data) => {
    const names = Object.keys(data), inspected = page.data("inside") ?? {};
    const state = {split: names[0], order: "worst", kind: "", search: ""};
    const top = h("div", {class: "row"}), shown = h("div", {class: "example"}), count = h("p", {class: "note", role: "status"}), list = h("div", {class: "list"});
    const search = h("input", {type: "search", placeholder: "search words", "aria-label": "Search words", oninput() { state.search = this.value; fill(); }});
    element.append(top, shown, count, list);
    if (names.length > 1) head(element).append(page.choice("Split", names.map((name) => [name, data[name].name]), state.split, (value) => { state.split = value; state.kind = ""; controls(); fill(); }));
    list.addEventListener("keydown", (event) => {
      const next = {ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling"}[event.key], other = next && document.activeElement[next];
      if (!other || !list.contains(document.activeElement)) return;
      event.preventDefault();
      other.focus();
      other.click();
    });
    controls();
    fill();

    function controls() {
      const counts = new Map();
      for (const row of data[state.split].rows) for (const kind of row.kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
      const kinds = [["", "all outputs"], ["wrong", "wrong outputs"], ["right", "right outputs"],
        ...[...counts].sort((a, b) => b[1] - a[1]).map(([kind, n]) => ["kind:" + kind, `${kind} (${n})`])];
      top.replaceChildren(page.choice("Order", [["worst", "Worst"], ["best", "Best"], ["longest", "Longest"], ["random", "Random"]], state.order, (value) => { state.order = value; fill(); }),
        h("span", {class: "grow"}), page.select("Show", kinds, state.kind, (value) => { state.kind = value; fill(); }), search);
    }

    function chosen() {
      const {rows, higher_is_better: higher} = data[state.split], words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
      const bad = (row) => [row.equal ? 1 : 0, row.figure === null ? Infinity : higher ? row.figure : -row.figure];
      const worse = (a, b) => { const [p, q] = [bad(a), bad(b)]; return p[0] - q[0] || (p[1] === q[1] ? 0 : p[1] - q[1]) || a.row - b.row; };
      const long = (row) => row.length ?? row.source.length;
      const order = {worst: worse, best: (a, b) => worse(b, a), longest: (a, b) => long(b) - long(a), random: (a, b) => scramble(a.row) - scramble(b.row)}[state.order];
      return rows.filter((row) => (!state.kind || (state.kind === "wrong" ? !row.equal : state.kind === "right" ? row.equal : row.kinds.includes(state.kind.slice(5))))
        && words.every((word) => [row.source, row.reference, row.prediction, ...row.kinds, ...Object.values(row.facts)].join(" ").toLowerCase().includes(word))).sort(order);
    }

    function fill() {
      const found = chosen(), {n, rows} = data[state.split];
      count.textContent = `${page.number(found.length, 0)} shown; this page holds ${page.number(rows.length, 0)} of ${page.number(n, 0)} outputs.`;
      list.hidden = !found.length;
      list.replaceChildren(...found.map((row) => h("button", {type: "button", onclick() { show(row, this); }},
        row.shown?.source?.picture ? h("img", {src: row.shown.source.picture, alt: "", class: "thumb"}) : h("span", {}, row.figure === null ? row.equal ? "=" : "≠" : page.number(row.figure, 1)),
        h("span", {}, h("span", {class: "text"}, row.shown?.source?.question ?? (row.source || row.reference)), h("span", {class: "small"}, [row.shown?.source?.picture && row.figure !== null ? page.number(row.figure, 1) : null, ...row.kinds].filter(Boolean).join(", "))))));
      if (found.length) return show(found[0], list.firstChild);
      shown.replaceChildren(h("div", {class: "state"}, h("b", {}, "No output matches."), " ", h("button", {type: "button", onclick() {
        Object.assign(state, {kind: "", search: ""});
        search.value = "";
        controls();
        fill();
      }}, "Show all")));
    }

    function show(row, button) {
      for (const one of list.children) one.setAttribute("aria-current", String(one === button));
      const {unit, metric, drawing, name} = data[state.split];
      const facts = [row.length === null ? null : `${page.short(row.length)} ${unit}`, ...Object.entries(row.facts).map(([key, value]) => UNITS[key] ? `${said(value)} ${UNITS[key]}` : `${key} ${said(value)}`), `row ${row.row + 1} of ${name}`, row.origin || null];
      const figure = row.figure === null ? row.equal ? "equal" : "not equal" : `${metric.replace(/,? ?%? ?[↑↓]/g, "")} ${page.number(row.figure)}`;
      const place = h("div", {});
      shown.replaceChildren(h("p", {}, h("b", {}, figure), " ", row.kinds.map((kind) => h("span", {class: "small"}, `${kind} · `)), h("span", {class: "small"}, facts.filter(Boolean).join(" · "))), place);
      if (inspected[state.split]?.examples.some((one) => one.row === row.row)) shown.firstChild.append(" ", h("button", {type: "button", onclick() { inspection.open(state.split, row.row); }}, "Look inside"));
      const example = {source: row.source, shown_source: row.shown?.source, reference: row.shown?.reference ?? {text: row.reference}, prediction: row.shown?.prediction ?? {text: row.prediction},
        raw: {reference: row.reference, prediction: row.prediction}, split: state.split, kinds: row.kinds, equal: row.equal, facts: row.facts,
        inspection: inspected[state.split]?.examples.find((one) => one.row === row.row)};
      const draw = row.shown ? drawings[drawing] ?? drawings.text : drawings.text;
      try {
        draw(place, example, {unit});
      } catch (error) {
        console.warn(error);
        place.replaceChildren();
        plain(place, example);
      }
    }
  };
}
