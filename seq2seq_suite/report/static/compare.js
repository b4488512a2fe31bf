// Sections of the page of a comparison; `report/compared.py` makes their data.
{
  const {h} = page, MOST = 12;
  const colours = ["s1", "s2", "s3", "s4", "s5", "s6"];
  const head = (element) => element.parentElement.querySelector("header");
  const task = (name) => name.replaceAll("_", " ");
  const finite = Number.isFinite;

  /** One of several tasks at a time; `draw(place, one)` shows it. */
  function choosing(element, all, draw) {
    const place = h("div", {});
    const show = (name) => { place.replaceChildren(); draw(place, all.find((one) => one.task === name)); };
    if (all.length > 1) head(element).append(page.choice("Task", all.map((one) => [one.task, task(one.task)]), all[0].task, show));
    element.append(place);
    show(all[0].task);
  }

  /** The figures of each task's runs on an axis of their own. */
  sections.figures = (element, panels) => {
    const draw = (most) => element.replaceChildren(...panels.map((panel) => {
      const place = h("div", {}), [series] = panel.series, shown = {...panel, series: [{...series, points: series.points.slice(0, most)}]};
      requestAnimationFrame(() => charts.panel(place, shown));
      return place;
    }), panels.some((panel) => panel.series[0].points.length > most) ? h("p", {}, h("button", {type: "button", onclick: () => draw(Infinity)}, "Show all runs")) : "");
    draw(MOST);
  };

  sections.sharing = (element, panel) => charts.panel(element, panel);

  sections.curves = (element, tasks) => {
    const points = tasks.flatMap((one) => one.series.flatMap((series) => series.points));
    const axes = [["0", "updates"], ["1", "minutes"], ["2", "symbols"]].filter(([axis]) => points.some((point) => finite(point[axis])));
    const grid = h("div", {class: "grid"});
    let axis = axes[0]?.[0] ?? "0";
    const end = () => Math.max(...points.map((point) => point[axis]).filter(finite));
    if (axes.length > 1) head(element).append(page.choice("Axis", axes, axis, (value) => { axis = value; draw(); }));
    element.append(grid);
    const draw = () => grid.replaceChildren(...tasks.map((one) => {
      const place = h("div", {class: tasks.length === 1 ? "" : "half"}), unit = axes.find(([value]) => value === axis)?.[1];
      const series = one.series.map((each, place) => ({name: each.name, role: colours[place % 6], marks: each.points.length < 30,
        points: each.points.filter((point) => finite(point[axis])).map((point) => [point[axis], point[3]])})).filter((each) => each.points.length);
      if (!series.length) place.append(h("h3", {}, task(one.task)), page.missing("No validation was recorded.", "A run records it in metrics.jsonl while it trains."));
      else requestAnimationFrame(() => charts.panel(place, {kind: "lines", title: task(one.task), x: unit, rangeX: [0, end()], y: one.metric, series, note: one.left_out ? `${one.left_out} more runs are left out.` : ""}));
      return place;
    }));
    draw();
  };

  sections.times = (element, tasks) => {
    choosing(element, tasks, (place, one) => {
      if (!one.quality) return place.append(page.missing("No run was timed.", "compare measures the time unless --no-speed is given; it needs the runs' data and weights."));
      const both = one.passes ? ["half", "half"] : ["two-thirds"], rated = one.rate.series[0].points.length;
      const grid = h("div", {class: "grid"}, [...both, ...(rated ? [one.passes ? "two-thirds" : "third"] : [])].map((width) => h("div", {class: width})));
      place.append(grid);
      [one.passes, one.quality, rated && one.rate].filter(Boolean).forEach((panel, number) => charts.panel(grid.children[number], panel));
      if (one.untimed && rated) place.append(h("p", {class: "note"}, `${one.untimed} more were not timed.`));
    });
  };

  sections.parameters = (element, panel) => charts.panel(element, panel);

  sections.tests = (element, tasks) => choosing(element, tasks, (place, one) => {
    const cell = (found) => {
      if (!found) return h("td", {}, "");
      const [difference, verdict, test] = found;
      const shown = h("td", {tabindex: 0, class: ["better", "worse"].includes(verdict) ? verdict : ""}, page.number(difference, 2, true));
      return page.tooltip(shown, `${page.number(difference, 2, true)}: ${verdict}\n${test}`);
    };
    place.append(h("p", {class: "note"}, one.metric), h("div", {class: "scroll", tabindex: 0}, h("table", {class: "tests"},
      h("tr", {}, h("th", {}, "row − column"), one.columns.map((name) => h("th", {scope: "col"}, name))),
      one.rows.map((name, row) => h("tr", {}, h("td", {}, name), one.cells[row].map(cell))))),
    h("p", {class: "key"}, h("span", {}, h("span", {class: "swatch better"}), "row is better"), h("span", {}, h("span", {class: "swatch worse"}), "row is worse"), h("span", {}, h("span", {class: "swatch", style: "background:var(--empty)"}), "not significant")));
    save.table(place.querySelector("table"));
  });

  sections.disagree = (element, tasks) => choosing(element, tasks, (place, one) => {
    for (const outputs of one.examples) {
      const [first] = outputs, drawn = one.drawing !== "text" && drawings[one.drawing] && outputs.every((output) => output.shown);
      const draw = (side, output, shown, options) => drawings[one.drawing](side, {source: output.source, shown_source: output.shown.source, reference: output.shown.reference, prediction: shown, equal: output.equal, kinds: output.kinds}, {unit: one.unit, ...options});
      place.append(h("h3", {}, first.source || first.shown?.source?.text || `row ${first.row + 1}`));
      const grid = h("div", {class: "grid outputs"});
      if (!drawn) place.append(h("p", {class: "reference"}, first.reference));
      else if (!outputs.some((output) => output.equal)) {
        grid.append(h("div", {class: "half"}, h("p", {class: "small"}, h("b", {}, "Reference"))));
        draw(grid.lastChild, {...first, shown: {...first.shown, reference: null}}, first.shown.reference, {});
      }
      for (const output of outputs) {
        const figure = output.figure === null || output.equal ? output.equal ? "right" : "wrong" : page.number(output.figure, 1);
        const side = h("div", {class: drawn ? "half" : "third"}, h("p", {class: "small"}, h("b", {}, output.run), ` · ${figure}`, output.kinds.map((kind) => ` · ${kind}`)));
        grid.append(side);
        try {
          if (drawn) draw(side, output, output.shown.prediction, {without_reference: true});
          else side.append(output.prediction === output.reference ? h("p", {class: "note"}, "equals the reference") : h("p", {}, texts.line(output.reference, output.prediction)));
        } catch (error) {
          console.warn(error);
          side.append(h("p", {}, output.prediction));
        }
      }
      place.append(grid);
      requestAnimationFrame(() => grid.classList.toggle("whole-width", [...grid.querySelectorAll(".scroll")].some((one) => one.scrollWidth > one.clientWidth)));
    }
  });
}
