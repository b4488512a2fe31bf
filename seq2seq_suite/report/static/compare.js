// Sections of the page of a comparison; `report/compared.py` makes their data.
{
  const {h, s} = page, MOST = 12;
  const colours = ["s1", "s2", "s3", "s4", "s5", "s6"];
  const head = (element) => element.parentElement.querySelector("header");
  const pen = document.createElement("canvas").getContext("2d");
  const wide = (text, size = 12) => { pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`; return pen.measureText(text).width; };
  const cut = (text, width) => { let end = text.length; while (end > 1 && wide(text.slice(0, end)) > width) end--; return end < text.length ? text.slice(0, end - 1) + "…" : text; };
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

  /** Every run of every task on one axis: what is left to perfect, the less the farther right. */
  sections.figures = (element, tasks) => {
    const place = h("div", {class: "chart"}), folded = tasks.some((one) => one.rows.length > MOST);
    let most = MOST;
    element.append(place);
    if (folded) element.append(h("p", {}, h("button", {type: "button", onclick() { most = Infinity; this.remove(); draw(place.clientWidth); }}, "Show all runs")));
    page.fitted(place, (width) => draw(width));

    function draw(width) {
      const rows = tasks.flatMap((one) => [{heading: one}, ...one.rows.slice(0, most).map((row) => ({row, one}))]);
      const known = rows.flatMap(({row}) => row ? [row.miss, ...row.ends] : []).filter(finite);
      const names = Math.min(Math.max(60, ...rows.map(({row}) => row ? wide(row.run) : 0)) + 12, width * 0.4);
      const left = names + 64, right = width - 10, tall = 22;
      const low = Math.min(...known) * 0.85, high = Math.max(...known) * 1.2;
      const x = (miss) => left + (Math.log(high) - Math.log(Math.max(miss, low))) / (Math.log(high) - Math.log(low) || 1) * (right - left);
      const bottom = 20 + rows.reduce((sum, {heading}) => sum + (heading ? tall + 8 : tall), 0);
      const svg = s("svg", {width, height: bottom + 26, role: "img", "aria-label": "Figures of all runs: points left to perfect"});
      svg.append(s("text", {x: right, y: 12, "text-anchor": "end"}, width < 520 ? "left to perfect (log)" : "points left to perfect (log), better to the right"));
      for (const value of charts.ticks(low, high, true, Math.max(2, Math.floor((right - left) / 90)))) {
        svg.append(s("line", {class: "rule", x1: x(value), x2: x(value), y1: 20, y2: bottom}), s("text", {x: x(value), y: bottom + 18, "text-anchor": "middle"}, String(value)));
      }
      let y = 20;
      for (const {heading, row, one} of rows) {
        if (heading) {
          y += tall + 8;
          svg.append(s("text", {x: 0, y: y - 6, class: "ink bold"}, task(heading.task), s("tspan", {style: "font-weight:400;fill:var(--soft)"}, `  ${heading.metric}`)));
          continue;
        }
        const middle = y + tall / 2, style = `var(--${row.leads ? "s1" : "s5"})`, [a, b] = row.ends;
        const marks = finite(a) && finite(b) ? [s("line", {x1: x(a), x2: x(b), y1: middle, y2: middle, style: `stroke:${style};stroke-width:1.6`})] : [];
        const dot = finite(row.miss) ? s("circle", {cx: x(row.miss), cy: middle, r: 4, style: marks.length ? `fill:${style}` : `fill:var(--paper);stroke:${style};stroke-width:1.6`}) : null;
        const bold = row.leads ? " bold" : "";
        const told = [row.run, `${one.metric.replace(/ [↑↓]$/, "")} ${page.number(row.figure)}`, finite(row.low) ? `95 %: ${page.number(row.low)} to ${page.number(row.high)}` : "no interval"].join("\n");
        svg.append(page.tells(s("g", {tabindex: 0, "aria-label": told}, s("rect", {x: 0, y, width, height: tall, fill: "transparent"}),
          s("text", {x: 0, y: middle + 4, class: "ink" + bold}, cut(row.run, names - 8)), s("text", {x: names + 48, y: middle + 4, "text-anchor": "end", class: "ink" + bold}, page.number(row.figure)), marks, dot), told));
        y += tall;
      }
      place.replaceChildren(svg);
    }
  };

  sections.sharing = (element, panel) => charts.panel(element, panel);

  sections.curves = (element, tasks) => {
    const points = tasks.flatMap((one) => one.series.flatMap((series) => series.points));
    const axes = [["0", "updates"], ["1", "minutes"], ["2", "symbols"]].filter(([axis]) => points.some((point) => finite(point[axis])));
    const grid = h("div", {class: "grid"});
    let axis = axes[0]?.[0] ?? "0";
    if (axes.length > 1) head(element).append(page.choice("Axis", axes, axis, (value) => { axis = value; draw(); }));
    element.append(grid);
    const draw = () => grid.replaceChildren(...tasks.map((one) => {
      const place = h("div", {class: tasks.length === 1 ? "" : "half"}), unit = axes.find(([value]) => value === axis)?.[1];
      const series = one.series.map((each, place) => ({name: each.name, role: colours[place % 6], marks: each.points.length < 30,
        points: each.points.filter((point) => finite(point[axis])).map((point) => [point[axis], point[3]])})).filter((each) => each.points.length);
      if (!series.length) place.append(h("h3", {}, task(one.task)), page.missing("No validation was recorded.", "Runs write it to metrics.jsonl while they train."));
      else requestAnimationFrame(() => charts.panel(place, {kind: "lines", title: task(one.task), x: unit, y: one.metric, series, note: one.left_out ? `${one.left_out} more runs are left out.` : ""}));
      return place;
    }));
    draw();
  };

  sections.times = (element, tasks) => {
    choosing(element, tasks, (place, one) => {
      if (!one.quality.series.length) return place.append(page.missing("No run was timed.", "It is measured unless --no-speed is given, where the runs' data and weights are there."));
      const grid = h("div", {class: "grid"}, h("div", {class: "two-thirds"}), h("div", {class: "third"}));
      place.append(grid);
      charts.panel(grid.firstChild, one.quality);
      charts.panel(grid.lastChild, one.rate);
      if (one.untimed) place.append(h("p", {class: "note"}, `${one.untimed} more were not timed.`));
    });
  };

  sections.parameters = (element, panel) => charts.panel(element, panel);

  sections.tests = (element, tasks) => choosing(element, tasks, (place, one) => {
    const cell = (found) => {
      if (!found) return h("td", {}, "");
      const [difference, verdict, test] = found;
      const shown = h("td", {tabindex: 0, class: ["better", "worse"].includes(verdict) ? verdict : ""}, page.number(difference, 2, true));
      return page.tells(shown, `${page.number(difference, 2, true)}: ${verdict}\n${test}`);
    };
    place.append(h("p", {class: "note"}, one.metric), h("div", {class: "scroll", tabindex: 0}, h("table", {class: "tests"},
      h("tr", {}, h("th", {}, "row − column"), one.columns.map((name) => h("th", {scope: "col"}, name))),
      one.rows.map((name, row) => h("tr", {}, h("td", {}, name), one.cells[row].map(cell))))),
    h("p", {class: "key"}, h("span", {}, h("span", {class: "swatch better"}), "row is better"), h("span", {}, h("span", {class: "swatch worse"}), "row is worse"), h("span", {}, h("span", {class: "swatch", style: "background:var(--empty)"}), "no test shows a difference")));
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
