// Charts as SVG, drawn at the width they have. charts.KIND(element, panel) draws into an element; charts.panel(element, panel) adds
// heading, question and note, and takes the kind from the panel. A panel is plain data:
//
//   {title, question, kind, note,       text; kind: lines | dots | bars | scatter | matrix | strip | table
//    x, y,                              what the axes are; y with its unit and arrow, "F1 ↑"
//    series: [{name,                    "" for a single one
//              role,                    gold | predicted | wrong | missed | inserted | shared | own | s1 to s6; "" by its place
//              dashed, marks, ring,     lines: dashed (validation), a mark at each point, a ring round the point of this x
//              points: [[x, y, low, high, n, name], ...]}],   x a number or a name; low, high (95 % interval) and n may be null or
//                                       absent; scatter: a name stands beside its point where there is room
//    levels,                            scatter: [[name, y], ...] as ticks on the axis of values, with an arrow if y lies beyond it
//    log, logX, diagonal,               the axis of values, of x; a line x = y
//    range, rangeX,                     [low, high] of an axis (both may be null)
//    least,                             what the axis of values spans at least
//    height, right,                     of the plot in pixels; room for the names at the lines' ends
//    order,                             names on x in their order, where a series may lack some
//    flat, figures, bold,               dots with names on x: in rows, with their figures; the names that stand out
//    stacked, totals,                   bars: the series one after the other in one bar; totals: points of whole bars, with intervals
//    rows, columns, cells, texts}       matrix and table: names, then cells[row][column]; null is empty; texts are shown in their place;
//                                       a table without cells has them in its rows
//
// dots with names on x stand in columns, or in rows where the names are long; dots with numbers on x stand on an axis.
// strip: one bar of parts, a series each with the one point ["", value]; y is the unit, texts[0] the tooltip of each.
// Each chart takes the focus; arrow keys go from value to value and show the exact figures, as hovering does.
const charts = (() => {
  const {s, h} = page;
  const LEFT = 48, GAP = 14, LEAST_SHARE = 0.05, LEAST_RATIO = 1.5;  // what an axis spans at least: of its largest value; from end to end of a logarithmic one
  const pen = document.createElement("canvas").getContext("2d");
  const wide = (text, size = 12, weight = 400) => { pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`; return pen.measureText(text).width; };
  const finite = Number.isFinite;
  const bare = (label) => String(label ?? "").replace(/\s*[↑↓]|\s*→ \S+$/g, "");
  const colour = (series, place) => `var(--${series.role || "s" + (place % 6 + 1)})`;
  const cut = (text, width) => {
    if (wide(text) <= width) return text;
    let end = text.length;
    while (end > 1 && wide(text.slice(0, end) + "…") > width) end--;
    return text.slice(0, end) + "…";
  };

  /** A figure as exact as it helps: 1,234; 97.12; 0.0123. */
  const exact = (value) => !finite(value) ? "–" : Number.isInteger(value) ? page.number(value, 0) : Math.abs(value) >= 1 ? page.number(value) : page.short(value);
  const shown = (value) => typeof value === "number" ? exact(value) : String(value);

  /** The text of a point's tooltip. */
  function tooltip(panel, series, [x, y, low, high, n, name]) {
    const lines = name ? [`${series.name}, ${name}`, `${bare(panel.x)} ${shown(x)}`, `${bare(panel.y)} ${exact(y)}`] : [series.name ? `${series.name}, ${shown(x)}` : `${bare(panel.x)} ${shown(x)}`.trim(), `${bare(panel.y)} ${exact(y)}`.trim()];
    if (finite(low) && finite(high)) lines.push(`95 %: ${exact(low)} to ${exact(high)}`);
    if (finite(n)) lines.push(`n ${page.number(n, 0)}`);
    return lines.join("\n");
  }

  /** At most `most` round numbers in a range. */
  function ticks(low, high, log, most = 5) {
    if (low === high) return [low];
    if (log) {
      const found = [], first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
      const step = Math.max(1, Math.ceil((last - first) / most)), factors = last - first <= 2 ? [1, 2, 5] : [1];
      for (let power = first; power <= last; power += step) for (const factor of factors) found.push(factor * 10 ** power);
      const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
      return inside.length > 1 ? inside : ticks(low, high, false, most);
    }
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= rough * 0.999);
    const found = [];
    for (let place = Math.ceil(low / step - 1e-6); place * step <= high + step * 1e-6; place++) found.push(Number((place * step).toPrecision(12)));
    return found;
  }

  /** What stands at the ticks of an axis, [value, text], in as few digits as keep the texts apart. */
  function marked(values) {
    const text = (value, digits) => (Math.abs(value) >= 1e5 ? value.toLocaleString("en", {notation: "compact", maximumSignificantDigits: digits})
      : value && Math.abs(value) < 1e-3 ? value.toExponential(digits - 3).replace("e+", "e") : Number(value.toPrecision(digits)).toLocaleString("en", {maximumFractionDigits: 12})).replaceAll("-", "−");
    const digits = [4, 5, 6, 8, 10, 12].find((digits) => new Set(values.map((value) => text(value, digits))).size === values.length) ?? 12;
    return values.map((value) => [value, text(value, digits)]);
  }

  /** A scale from a range to pixels. */
  function scale(low, high, from, to, log) {
    const at = (value) => log ? Math.log10(Math.max(value, low / 10)) : value;
    return (value) => at(high) === at(low) ? (from + to) / 2 : from + (at(value) - at(low)) / (at(high) - at(low)) * (to - from);
  }

  /** The range of values: all points, and their intervals unless one is much wider than the points are apart. */
  function range(points, panel, zero = false) {
    const ys = points.map((point) => point[1]).filter((y) => finite(y) && (!panel.log || y > 0));
    let low = Math.min(...ys), high = Math.max(...ys);
    const apart = high - low, bounds = points.flatMap((point) => [point[2], point[3]]).filter((y) => finite(y) && (!panel.log || y > 0));
    if (bounds.length) {
      const reach = apart ? 1.5 * apart : Infinity;
      [low, high] = [Math.max(low - reach, Math.min(low, ...bounds)), Math.min(high + reach, Math.max(high, ...bounds))];
    }
    if (zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
    if (!panel.log) {
      const [least, most] = widened(low, high, panel.least), room = (most - least) * 0.06;
      low = least >= 0 && least - room < 0 ? 0 : zero && least === 0 ? 0 : least - room;
      high = most <= 100 && most > 1 && most + room > 100 ? 100 : most + room;
    } else [low, high] = widened(low, high, 0, true);
    return [panel.range?.[0] ?? low, panel.range?.[1] ?? high];
  }

  /** A range that is wide beside its values, and at least so wide, so that a small difference never fills an axis. */
  function widened(low, high, least, log) {
    if (log) { const factor = Math.sqrt(Math.max(1, LEAST_RATIO * low / high)); return [low / factor, high * factor]; }
    const more = Math.max(0, (Math.max(least ?? 0, LEAST_SHARE * Math.max(Math.abs(low), Math.abs(high))) || 1) - (high - low)) / 2;
    return low >= 0 && low < more ? [0, high + 2 * more - low] : [low - more, high + more];
  }

  /** A circle, a square or a diamond; open where there is no interval although others have one. */
  function mark(x, y, size, place, style, open) {
    const fill = open ? `fill:var(--paper);stroke:${style};stroke-width:1.6` : `fill:${style}`;
    if (place % 3 === 0) return s("circle", {cx: x, cy: y, r: size, style: fill});
    const half = place % 3 === 1 ? size * 0.9 : size;
    return s("rect", {x: x - half, y: y - half, width: 2 * half, height: 2 * half, style: fill, transform: place % 3 === 2 ? `rotate(45 ${x} ${y})` : null});
  }

  /** A 95 % line, cut at the axis with an arrow where it reaches beyond. */
  function interval(svg, from, to, across, style, upright, [first, last]) {
    const [a, b] = [Math.min(from, to), Math.max(from, to)], [start, end] = [Math.max(a, first), Math.min(b, last)];
    const at = (along) => upright ? {x: across, y: along} : {x: along, y: across};
    const [p, q] = [at(start), at(end)];
    svg.append(s("line", {x1: p.x, y1: p.y, x2: q.x, y2: q.y, style: `stroke:${style};stroke-width:1.6`}));
    for (const [along, beyond, way] of [[start, a < first, 1], [end, b > last, -1]]) {
      if (!beyond) continue;
      const {x, y} = at(along), d = way * 5;
      svg.append(s("path", {d: upright ? `M${x - 4},${y + d}L${x},${y}L${x + 4},${y + d}` : `M${x + d},${y - 4}L${x},${y}L${x + d},${y + 4}`,
        style: `stroke:${style};fill:none;stroke-width:1.6`}));
    }
  }

  /** Names of the series with their marks, above a chart. */
  function key(panel, kind) {
    if (panel.series.length < 2) return null;
    return h("div", {class: "key"}, panel.series.map((series, place) => {
      const style = colour(series, place);
      const sign = kind === "line" ? s("line", {x1: 0, x2: 16, y1: 6, y2: 6, style: `stroke:${style};stroke-width:2;${series.dashed ? "stroke-dasharray:4 3" : ""}`})
        : kind === "bar" ? s("rect", {x: 2, y: 0, width: 12, height: 12, rx: 2, style: `fill:${style}`}) : mark(8, 6, 4.5, place, style);
      return h("span", {}, s("svg", {width: 16, height: 12, "aria-hidden": "true"}, sign), series.name);
    }));
  }

  /** Draws into an element whenever its width changes; `draw(width)` gives [svg, spots, steps in a row, key]. */
  function fitted(element, panel, draw) {
    const place = h("div", {class: "chart"}), menu = save.chart(() => place.querySelector("svg[role=img]"));
    element.append(place);
    page.fitted(place, (width) => {
      const [svg, spots, across = 1, above] = draw(width);
      place.replaceChildren(...[above, Number(svg.getAttribute("width")) > width ? h("div", {class: "scroll", tabindex: 0}, svg) : svg, menu].filter(Boolean));
      hear(svg, spots, across);
    });
    return place;
  }

  function empty(width, height, panel) {
    return s("svg", {width, height, tabindex: 0, role: "img", "aria-label": [panel.title, bare(panel.y) && `${panel.y} by ${panel.x}`].filter(Boolean).join(": ") || "chart"});
  }

  /** Shows the value nearest to the pointer, or the one that the arrow keys have reached; spots are {x, y, text}. */
  function hear(svg, spots, across) {
    if (!spots.length) return;
    const ring = s("circle", {r: 8, style: "fill:none;stroke:var(--ink);stroke-width:1.4;visibility:hidden"});
    svg.append(ring);
    let now = -1;
    const show = (place) => {
      now = place;
      const spot = spots[place], box = svg.getBoundingClientRect();
      ring.style.visibility = spot ? "visible" : "hidden";
      if (!spot) return page.tip();
      ring.setAttribute("cx", spot.x);
      ring.setAttribute("cy", spot.y);
      page.tip(spot.text, box.x + spot.x, box.y + spot.y);
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), x = event.clientX - box.x, y = event.clientY - box.y;
      let best = -1, least = 40 ** 2;
      spots.forEach((spot, place) => {
        const far = (spot.x - x) ** 2 + (spot.y - y) ** 2;
        if (far < least) [best, least] = [place, far];
      });
      show(best);
    });
    svg.addEventListener("pointerleave", () => show(-1));
    svg.addEventListener("blur", () => show(-1));
    svg.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across}[event.key];
      if (!step) return;
      event.preventDefault();
      show(now < 0 ? 0 : Math.min(Math.max(now + step, 0), spots.length - 1));
    });
  }

  const label = (x, y, text, attributes) => s("text", {x, y, ...attributes}, text);

  function gridlines(svg, marks, y, left, right) {
    for (const [value, text] of marked(marks)) {
      svg.append(s("line", {class: "rule", x1: left, x2: right, y1: y(value), y2: y(value)}),
        label(left - 8, y(value) + 4, text, {"text-anchor": "end"}));
    }
  }

  /** Numbers against numbers: lines, clouds and dots on an axis. */
  function plane(element, panel, kind) {
    const all = panel.series.map((series) => ({...series, points: series.points.filter(([x, y]) => finite(x) && finite(y)
      && (!panel.log || y > 0) && (!panel.logX || x > 0))}));
    const points = all.flatMap((series) => series.points);
    if (!points.length) return noValues(element);
    return fitted(element, panel, (width) => {
      const line = kind === "lines", ended = line && width >= 420 && (panel.series.length > 1 || panel.right) && panel.series.length <= 8;
      const right = ended ? panel.right ?? Math.max(...all.map((series) => wide(series.name))) + 16 : 12;
      const top = panel.y ? 26 : 10, tall = panel.height ?? (kind === "scatter" ? Math.min(280, Math.max(180, width * 0.6)) : 190), bottom = top + tall;
      const svg = empty(width, bottom + (panel.x ? 40 : 22), panel), spots = [];
      const xs = points.map((point) => point[0]);
      let [low, high] = range(points, panel), [first, last] = [panel.rangeX?.[0] ?? Math.min(...xs), panel.rangeX?.[1] ?? Math.max(...xs)];
      if (!panel.rangeX && !(line && first < last)) [first, last] = widened(first, last, 0, panel.logX);
      if (!line && !panel.logX && !panel.rangeX) { const room = (last - first || 1) * 0.05; first = first >= 0 ? Math.max(0, first - room) : first - room; last += room; }
      if (panel.diagonal) [low, high] = [Math.min(low, first), Math.max(high, last)];
      const x = scale(first, last, LEFT, width - right, panel.logX), y = scale(low, high, bottom, top, panel.log);
      if (panel.y) svg.append(label(0, 12, panel.y));
      gridlines(svg, ticks(low, high, panel.log, tall < 120 ? 3 : 5), y, LEFT, width - right);
      svg.append(s("line", {class: "base", x1: LEFT, x2: width - right, y1: bottom, y2: bottom}));
      for (const [value, text] of marked(ticks(first, last, panel.logX, Math.max(2, Math.min(6, Math.floor((width - right - LEFT) / 70)))))) {
        svg.append(label(x(value), bottom + 17, text, {"text-anchor": x(value) > width - 20 ? "end" : "middle"}));
      }
      if (panel.x) svg.append(label(width - right, bottom + 34, panel.x, {"text-anchor": "end"}));
      if (panel.diagonal) {
        const [a, b] = [Math.max(low, first), Math.min(high, last)];
        svg.append(s("line", {x1: x(a), y1: y(a), x2: x(b), y2: y(b), style: "stroke:var(--rule-2)"}));
      }
      const most = Math.max(1, ...points.map((point) => point[4]).filter(finite)), bounded = points.some((point) => finite(point[2]));
      const names = [], marks = [], bounds = [];
      const there = points.map((point) => { const a = x(point[0]), ends = [point[2], point[3]].map((end) => y(finite(end) ? end : point[1])); return [a - 4, ends[1] - 4, a + 4, ends[0] + 4]; });
      for (const [name, value] of panel.levels ?? []) {
        const at = y(Math.min(Math.max(value, low), high)), text = `${name} ${exact(value)}${value < low ? " ↓" : value > high ? " ↑" : ""}`, long = wide(text, 11) + 1;
        const boxes = [width - right - long, LEFT].flatMap((from) => [at - 16, at + 3].filter((up) => up >= top - 14 && up + 13 <= bottom).map((up) => [from, up, from + long, up + 13]));
        const box = boxes.find((box) => ![...marks, ...there].some((other) => meets(box, other))) ?? boxes[0], side = box[0] === LEFT ? LEFT : width - right - 24;
        svg.append(s("line", {x1: side, x2: side + 24, y1: at, y2: at, style: "stroke:var(--soft);stroke-width:2"}), label(box[0], box[3] - 3, text, {class: "tiny"}));
        marks.push(box);
      }
      all.forEach((series, place) => {
        const style = colour(series, place), at = series.points.map((point) => [x(point[0]), y(point[1])]);
        if (line && at.length) {
          const bounds = series.points.filter((point) => finite(point[2]) && finite(point[3]));
          if (bounds.length > 1 && !series.marks) {
            const edge = (side) => bounds.map((point) => `${x(point[0]).toFixed(1)},${y(Math.min(Math.max(point[side], low), high)).toFixed(1)}`);
            svg.append(s("polygon", {points: [...edge(3), ...edge(2).reverse()].join(" "), style: `fill:${style};opacity:.14`}));
          }
          svg.append(s("polyline", {points: at.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" "),
            style: `fill:none;stroke:${style};stroke-width:1.8;stroke-linejoin:round;${series.dashed ? "stroke-dasharray:5 3" : ""}`}));
          if (ended) names.push({y: at.at(-1)[1], name: series.name, style});
        }
        series.points.forEach((point, number) => {
          const [a, b] = at[number], n = point[4];
          spots.push({x: a, y: b, text: tooltip(panel, series, point)});
          if (finite(point[2]) && finite(point[3]) && (!line || series.marks)) interval(svg, y(point[2]), y(point[3]), a, style, true, [top, bottom]);
          if (!line || series.marks || at.length === 1) {
            const size = kind === "scatter" && finite(n) && most > 1 ? 1.6 + 6 * Math.sqrt(n / most) : 3.6;
            const drawn = mark(a, b, size, kind === "scatter" && all.length === 1 ? 0 : place, style, line ? series.dashed : bounded && !finite(point[2]));
            if (kind === "scatter") drawn.style.opacity = 0.75;
            svg.append(drawn);
            marks.push([a - size, b - size, a + size, b + size]);
            if (finite(point[2]) && finite(point[3])) bounds.push([a - 1, y(point[3]), a + 1, y(point[2])]);
            if (point[5]) names.push({a, b, size, style, name: point[5]});
          }
          if (series.ring !== undefined && series.ring === point[0]) svg.append(s("circle", {cx: a, cy: b, r: 7, style: `fill:none;stroke:${style};stroke-width:1.4`}));
        });
      });
      if (line) spread(names, top, bottom).forEach((one) => svg.append(label(width - right + 12, one.y + 4, one.name, {style: `fill:${one.style}`})));
      else named(svg, names, marks, bounds, [LEFT, top - 8, width - right + 12, bottom + 4]);
      return [svg, spots, 1, ended ? null : key(panel, line ? "line" : "mark")];
    });
  }

  const meets = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

  /** Names beside their points, where they lie on nothing that is taken or, if that can be, on what is to be spared; boxes are [left, top, right, bottom]. */
  function named(svg, names, taken, spared, area) {
    for (const rest of [spared, []]) for (const one of names) {
      const {a, b, size, style, name} = one, long = wide(name, 11) + 1;
      const places = [[a + size + 4, b + 4], [a - size - 4 - long, b + 4], [a - long / 2, b - size - 4], [a - long / 2, b + size + 12]].map(([x, y]) => [x, y - 9, x + long, y + 2]);
      const box = one.done ? null : places.find((box) => box[0] >= area[0] && box[1] >= area[1] && box[2] <= area[2] && box[3] <= area[3] && ![...taken, ...rest].some((other) => meets(box, other)));
      if (!box) continue;
      one.done = taken.push(box);
      svg.append(label(box[0], box[3] - 2, name, {class: "tiny", style: `fill:${style}`}));
    }
  }

  /** Names moved apart so that none lies on another. */
  function spread(names, top, bottom) {
    names.sort((a, b) => a.y - b.y);
    names.forEach((one, place) => { if (place) one.y = Math.max(one.y, names[place - 1].y + GAP); });
    for (let place = names.length - 1; place >= 0; place--) {
      names[place].y = Math.min(names[place].y, place === names.length - 1 ? bottom : names[place + 1].y - GAP);
    }
    return names;
  }

  function noValues(element) {
    const note = h("p", {class: "note"}, "There are no values to draw.");
    element.append(note);
    return note;
  }

  /** The names on x of all series, in order, each with its points: [name, [[series, point], ...]]. */
  function groups(panel) {
    const found = new Map();
    panel.series.forEach((series, place) => {
      for (const point of series.points) {
        if (!finite(point[1]) || (panel.log && point[1] <= 0)) continue;
        if (!found.has(point[0])) found.set(point[0], []);
        found.get(point[0]).push([place, point]);
      }
    });
    return panel.order ? [...found].sort(([a], [b]) => panel.order.indexOf(a) - panel.order.indexOf(b)) : [...found];
  }

  /** The n of each group if all its points agree, else none at all. */
  function sizes(found) {
    const all = found.map(([, members]) => [...new Set(members.map(([, point]) => point[4]))]);
    return all.every((some) => some.length === 1 && finite(some[0])) ? all.map((some) => page.number(some[0], 0)) : null;
  }

  function dots(element, panel) {
    const found = groups(panel);
    if (!found.length) return noValues(element);
    if (found.every(([name]) => typeof name === "number")) return plane(element, panel, "dots");
    const points = found.flatMap(([, members]) => members.map(([, point]) => point));
    const [low, high] = range(points, panel), counts = sizes(found), bounded = points.some((point) => finite(point[2]));
    return fitted(element, panel, (width) => {
      const step = (width - LEFT) / found.length, longest = Math.max(...found.map(([name]) => wide(String(name))), ...(counts ?? []).map((n) => wide("n " + n, 11)));
      return longest + 6 <= step && found.length <= 12 && !panel.flat ? columns(width, step) : rows(width);
    });

    function columns(width, step) {
      const top = panel.y ? 26 : 10, bottom = top + (panel.height ?? 170);
      const svg = empty(width, bottom + (counts ? 36 : 22) + (panel.x ? 18 : 0), panel), spots = [];
      const y = scale(low, high, bottom, top, panel.log), centre = (place) => LEFT + step * (place + 0.5);
      const apart = Math.min(14, step / (panel.series.length + 1));
      if (panel.y) svg.append(label(0, 12, panel.y));
      gridlines(svg, ticks(low, high, panel.log), y, LEFT, width);
      svg.append(s("line", {class: "base", x1: LEFT, x2: width, y1: bottom, y2: bottom}));
      const paths = panel.series.map(() => []);
      found.forEach(([, members], place) => members.forEach(([number, point]) => {
        paths[number].push([centre(place) + (number - (panel.series.length - 1) / 2) * apart, y(point[1])]);
      }));
      if (panel.series.length === 1 && panel.joined !== false) svg.append(s("polyline", {points: paths[0].map((at) => at.join(",")).join(" "), style: "fill:none;stroke:var(--rule-2)"}));
      found.forEach(([name, members], place) => {
        svg.append(label(centre(place), bottom + 17, String(name), {"text-anchor": "middle", class: "ink"}));
        if (counts) svg.append(label(centre(place), bottom + 32, place ? counts[place] : `n ${counts[place]}`, {"text-anchor": "middle", class: "tiny"}));
        for (const [number, point] of members) {
          const style = colour(panel.series[number], number), x = centre(place) + (number - (panel.series.length - 1) / 2) * apart;
          if (finite(point[2]) && finite(point[3])) interval(svg, y(point[2]), y(point[3]), x, style, true, [top, bottom]);
          svg.append(mark(x, y(point[1]), 4, number, style, bounded && !finite(point[2])));
          spots.push({x, y: y(point[1]), text: tooltip(panel, panel.series[number], point)});
        }
      });
      if (panel.x) svg.append(label(width, bottom + (counts ? 50 : 35), panel.x, {"text-anchor": "end"}));
      return [svg, spots, 1, key(panel, "mark")];
    }

    function rows(width) {
      const beside = panel.figures ? found.map(([, [[, point]]]) => page.number(point[1])) : counts, room = beside ? Math.max(24, ...beside.map((n) => wide(n))) + 12 : 0;
      const names = Math.min(Math.max(...found.map(([name]) => wide(String(name), 12, panel.bold ? 650 : 400))), width * 0.36), left = names + room + 14;
      const tall = Math.max(22, 9 * panel.series.length + 8), top = counts ? 22 : 6, bottom = top + found.length * tall;
      const svg = empty(width, bottom + 38, panel), spots = [], x = scale(low, high, left, width - 16, panel.log);
      if (counts) svg.append(label(names + room, 12, "n", {"text-anchor": "end", class: "tiny"}));
      for (const [value, text] of marked(ticks(low, high, panel.log, Math.max(2, Math.min(5, Math.floor((width - left) / 60)))))) {
        svg.append(s("line", {class: "rule", x1: x(value), x2: x(value), y1: top, y2: bottom}),
          label(x(value), bottom + 16, text, {"text-anchor": "middle"}));
      }
      if (panel.y) svg.append(label(width, bottom + 33, panel.y, {"text-anchor": "end"}));
      found.forEach(([name, members], place) => {
        const middle = top + tall * (place + 0.5);
        svg.append(label(names, middle + 4, cut(String(name), names), {"text-anchor": "end", class: panel.bold?.includes(name) ? "ink bold" : "ink"}));
        if (beside) svg.append(label(names + room, middle + 4, beside[place], {"text-anchor": "end", class: panel.figures ? "ink" : "tiny"}));
        for (const [number, point] of members) {
          const style = colour(panel.series[number], number), y = middle + (number - (panel.series.length - 1) / 2) * 9;
          if (finite(point[2]) && finite(point[3])) interval(svg, x(point[2]), x(point[3]), y, style, false, [left, width - 10]);
          svg.append(mark(x(point[1]), y, 4, number, style, bounded && !finite(point[2])));
          spots.push({x: x(point[1]), y, text: tooltip(panel, panel.series[number], point)});
        }
      });
      return [svg, spots, 1, key(panel, "mark")];
    }
  }

  function bars(element, panel) {
    const found = groups(panel);
    if (!found.length) return noValues(element);
    const totals = new Map((panel.totals ?? []).map((point) => [point[0], point]));
    return fitted(element, panel, (width) => {
      const sum = (members) => members.reduce((total, [, point]) => total + point[1], 0);
      const ends = found.flatMap(([, members]) => panel.stacked ? [sum(members)] : members.map(([, point]) => point[1]));
      const low = panel.range?.[0] ?? Math.min(0, ...ends), high = panel.range?.[1] ?? Math.max(0, ...ends, ...[...found.flatMap(([, members]) => members.map(([, point]) => point)), ...totals.values()].map((point) => point[3]).filter(finite));
      const names = Math.min(Math.max(...found.map(([name]) => wide(String(name)))), width * 0.4), left = names + 12;
      const figure = (value) => page.number(value, ends.every(Number.isInteger) ? 0 : Math.max(...ends) < 10 ? 2 : 1);
      const right = Math.max(...ends.map((end) => wide(figure(end)))) + 12, thick = panel.stacked || panel.series.length === 1 ? 14 : 10;
      const lanes = panel.stacked ? 1 : panel.series.length, tall = thick * lanes + 8;
      const svg = empty(width, 4 + found.length * tall + (panel.y ? 20 : 0), panel), spots = [], x = scale(low, high || 1, left, width - right);
      found.forEach(([name, members], place) => {
        const top = 4 + place * tall;
        let start = 0;
        svg.append(label(names, top + tall / 2, cut(String(name), names), {"text-anchor": "end", class: "ink"}));
        for (const [number, point] of members) {
          const series = panel.series[number], style = colour(series, number), y = top + (panel.stacked ? 0 : number * thick);
          const [from, to] = [x(start), x(start + point[1])];
          svg.append(s("rect", {x: Math.min(from, to), y, width: Math.max(Math.abs(to - from), 1), height: thick - 2, style: `fill:${style}`}));
          if (finite(point[2]) && finite(point[3])) interval(svg, x(point[2]), x(point[3]), y + thick / 2 - 1, "var(--ink)", false, [left, width - right]);
          spots.push({x: (from + to) / 2, y: y + thick / 2 - 1, text: tooltip(panel, series, point)});
          if (panel.stacked) start += point[1];
          else svg.append(label(Math.max(from, to, finite(point[3]) ? x(point[3]) : 0) + 6, y + thick - 4, figure(point[1]), {class: "tiny"}));
        }
        const [, , from, to] = totals.get(name) ?? [];
        if (finite(from) && finite(to)) interval(svg, x(from), x(to), top + thick / 2 - 1, "var(--ink)", false, [left, width - right]);
        if (totals.has(name)) spots.push({x: x(start), y: top + thick / 2 - 1, text: tooltip(panel, {}, totals.get(name))});
        if (panel.stacked) svg.append(label(Math.max(x(start), finite(to) ? x(to) : 0) + 6, top + thick - 3, figure(sum(members)), {class: "tiny"}));
      });
      svg.append(s("line", {class: "base", x1: x(0), x2: x(0), y1: 0, y2: 4 + found.length * tall - 4}));
      if (panel.y) svg.append(label(left, 4 + found.length * tall + 12, panel.y));
      return [svg, spots, 1, key(panel, "bar")];
    });
  }

  function matrix(element, panel) {
    const values = panel.cells.flat().filter(finite), most = Math.max(1e-9, ...values.map(Math.abs));
    if (!panel.rows.length || !panel.columns.length) return noValues(element);
    return fitted(element, panel, (width) => {
      const names = Math.min(Math.max(...panel.rows.map((name) => wide(String(name))), panel.y ? wide(panel.y) : 0), width * 0.34), left = names + 10;
      const heads = panel.columns.map((name) => cut(String(name), 110)), tilt = Math.max(...heads.map((name) => wide(name)));
      const side = Math.max(16, Math.min(56, (width - left - 0.71 * tilt) / panel.columns.length)), flat = tilt <= side - 6;
      const top = flat ? 36 : tilt * 0.71 + 30, tall = Math.min(side, 28);
      const svg = empty(Math.max(width, left + side * panel.columns.length + (flat ? 8 : 0.71 * tilt)), top + tall * panel.rows.length + 4, panel), spots = [];
      if (panel.x) svg.append(label(left, 12, panel.x));
      if (panel.y) svg.append(label(names, top - 6, panel.y, {"text-anchor": "end"}));
      heads.forEach((name, column) => {
        const x = left + side * (column + 0.5);
        svg.append(label(x, top - 6, name, flat ? {"text-anchor": "middle"} : {transform: `rotate(-45 ${x} ${top - 6})`}));
      });
      panel.rows.forEach((row, place) => {
        const y = top + tall * place;
        svg.append(label(names, y + tall / 2 + 4, cut(String(row), names), {"text-anchor": "end", class: "ink"}));
        panel.columns.forEach((column, number) => {
          const value = panel.cells[place]?.[number], share = finite(value) ? Math.round(100 * Math.sqrt(Math.abs(value) / most)) : 0;
          const text = panel.texts?.[place]?.[number] ?? (finite(value) && value !== 0 ? exact(value) : ""), x = left + side * number;
          svg.append(s("rect", {x, y, width: side - 1, height: tall - 1,
            style: `fill:color-mix(in srgb, var(--${value < 0 ? "wrong" : "predicted"}) ${share}%, var(--empty))`}));
          if (text && wide(text, 11) <= side - 4 && tall >= 14) {
            svg.append(label(x + side / 2 - 0.5, y + tall / 2 + 4, text, {"text-anchor": "middle", class: "tiny", style: `fill:${share > 78 ? "var(--paper)" : share > 50 ? "light-dark(var(--ink), var(--paper))" : "var(--ink)"}`}));
          }
          spots.push({x: x + side / 2, y: y + tall / 2, text: `${[panel.y, row].filter(Boolean).join(" ")}\n${[panel.x, column].filter(Boolean).join(" ")}\n${panel.texts?.[place]?.[number] ?? exact(value)}`});
        });
      });
      return [svg, spots, panel.columns.length];
    });
  }

  function strip(element, panel) {
    const parts = panel.series.map((series, place) => ({name: series.name, value: series.points[0]?.[1], style: colour(series, place)})).filter((part) => part.value > 0);
    const sum = parts.reduce((total, part) => total + part.value, 0);
    if (!sum) return noValues(element);
    const text = (part) => `${part.name} ${part.text ?? exact(part.value)}${panel.y ? " " + panel.y : ""}`;
    parts.forEach((part) => { part.text = panel.texts?.[0]?.[panel.series.findIndex((series) => series.name === part.name)]; });
    return fitted(element, panel, (width) => {
      const svg = empty(width, 14, panel), spots = [];
      let x = 0;
      for (const part of parts) {
        const long = part.value / sum * width;
        svg.append(s("rect", {x, y: 0, width: Math.max(long - 1, 1), height: 14, style: `fill:${part.style}`}));
        spots.push({x: x + long / 2, y: 7, text: `${text(part)}\n${page.number(100 * part.value / sum, 1)} %`});
        x += long;
      }
      return [svg, spots, 1, h("div", {class: "key"}, parts.map((part) => h("span", {}, h("span", {class: "swatch", style: `background:${part.style}`}), text(part))))];
    });
  }

  function table(element, given) {
    const panel = given.cells ? given : {...given, rows: null, cells: given.rows ?? []};
    const head = panel.columns?.length ? h("tr", {}, [...(panel.rows ? [panel.y ?? ""] : []), ...panel.columns].map((name, column) => h("th", {scope: "col", class: panel.cells[0] && typeof [...(panel.rows ? [""] : []), ...panel.cells[0]][column] === "string" ? "words" : null}, name))) : null;
    const body = panel.cells.map((cells, place) => h("tr", {}, panel.rows ? h("td", {}, String(panel.rows[place])) : null,
      cells.map((cell) => h("td", {class: typeof cell === "string" && !/^[\d–]/.test(cell) ? "words" : null}, cell === null || cell === undefined ? "–" : shown(cell)))));
    const place = h("div", {class: "scroll", tabindex: 0}, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
    element.append(place);
    save.table(place.firstChild);
    return place;
  }

  const kinds = {lines: (element, panel) => plane(element, panel, "lines"), scatter: (element, panel) => plane(element, panel, "scatter"),
    dots, bars, matrix, strip, table};

  /** Heading, question, chart and note of a panel; one of a kind that is not known says so. */
  function panel(element, one) {
    const place = h("div", {class: "panel"}, one.title ? h("h3", {}, one.title) : null, one.question ? h("p", {class: "note"}, one.question) : null);
    element.append(place);
    if (Object.hasOwn(kinds, one.kind)) kinds[one.kind](place, one);
    else place.append(page.missing("Unknown kind of chart.", `Its kind is “${one.kind}”.`));
    if (one.note) place.append(h("p", {class: "note"}, one.note));
    return place;
  }

  return {...kinds, panel, exact, key, ticks};
})();
