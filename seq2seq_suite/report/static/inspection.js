// How a model produced an output: attention, probabilities, alternatives and the steps of the decoder.
// inspection.show(element, record, options) draws a record of `inspection/SPLIT.json`.
// inspection.open(split, row) chooses a record in the section `inside`, which has the files by split.
const inspection = (() => {
  const {h, s} = page;
  const PARTS = {cross: "From output to source", decoder: "Within the output", encoder: "Within the source"};
  const pen = document.createElement("canvas").getContext("2d");
  const wide = (text, size = 15) => { pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`; return pen.measureText(text).width; };
  const percent = (share) => share > 0 && share < 0.001 ? "< 0.1 %" : page.number(100 * share, 1) + " %";
  const SPECIAL = /^<(pad|begin|end|unknown)>$/;
  /** A symbol as a reader sees it. */
  const plain = (name) => SPECIAL.test(name) ? name.slice(1, -1) : name === " " ? "␣" : name.replace(/▁/g, " ").trim() || (name ? "␣" : "–");
  const unsure = (share) => `background: color-mix(in srgb, var(--gold) ${Math.round(45 * (1 - share))}%, transparent)`;

  /** Numbers of names that belong to one word: pieces begin one with ▁, characters are parted by blanks, left out or with the word before. */
  function words(names, blanks = false) {
    const pieces = names.some((name) => name.startsWith("▁")), characters = names.includes(" ");
    const found = [];
    let open = false;
    names.forEach((name, place) => {
      if (SPECIAL.test(name)) found.push({text: plain(name), places: [place], special: true});
      else if (characters && name === " ") {
        if (blanks && found.length) found[found.length - 1].places.push(place);
        open = false;
        return;
      }
      else if (open && (characters || (pieces && !name.startsWith("▁")))) {
        const last = found[found.length - 1];
        last.text += plain(name);
        last.places.push(place);
      } else found.push({text: plain(name), places: [place]});
      open = !SPECIAL.test(name);
    });
    return found;
  }

  /** weight(layer, head, row, column) of a packed part, from 0 to 1. */
  function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed.values), (one) => one.charCodeAt(0)), {heads, rows, columns} = packed;
    return (layer, head, row, column) => bytes[((layer * heads + head) * rows + row) * columns + column] / 255;
  }

  const range = (count) => Array.from({length: count}, (_, number) => number);
  const sum = (values) => values.reduce((total, value) => total + value, 0);

  /** Attention from output to source: {names, weight(layer, head, row, column)}; a decoder-only model's source is part of its prefix. */
  function sourceAttention(record) {
    const {cross, decoder} = record.attention;
    if (cross) return {packed: cross, names: record.source, weight: unpack(cross)};
    if (decoder && record.source.length && decoder.columns > decoder.rows)
      return {packed: decoder, names: decoder.names.slice(0, decoder.columns - decoder.rows), weight: unpack(decoder)};
    return null;
  }

  const outputs = (record) => record.pieces.length ? record.pieces.map(([name]) => name) : record.target;
  const places = (record) => record.pieces.length ? record.places : range(record.target.length);

  // -- alignment ---------------------------------------------------------------------------------------------------

  function alignment(element, record) {
    const found = sourceAttention(record);
    if (!found) return;
    const {layers, heads} = found.packed, source = words(found.names), at = places(record);
    const target = words(outputs(record)).filter((one) => !one.special);
    if (!target.length) return;
    const drawing = h("div", {class: "scroll"}), hint = "Hover over a word or focus it to see the words that it attends to.";
    const status = h("p", {class: "note status", role: "status"}, hint), tell = (text) => { status.textContent = text ?? hint; };
    const choices = [["mean", `layer ${layers}, mean of all heads`], ...range(layers * heads).map((number) =>
      [String(number), `layer ${Math.floor(number / heads) + 1}, head ${number % heads + 1}`])];
    let chosen = "mean";
    const share = (one, other) => {  // of the mean over a word's pieces, summed over the other's
      const of = (layer, head) => sum(one.places.map((row) => sum(other.places.map((column) => found.weight(layer, head, at[row], column))))) / one.places.length;
      return chosen === "mean" ? sum(range(heads).map((head) => of(layers - 1, head))) / heads : of(Math.floor(chosen / heads), chosen % heads);
    };
    const draw = (width) => {
      const weights = target.map((one) => source.map((other) => share(one, other)));
      drawing.replaceChildren(lines(width, source, target, weights, record, tell));
    };
    element.append(h("h3", {}, "Attention from output to source"),
      h("div", {class: "row"}, page.select("attention of", choices, chosen, (value) => { chosen = value; draw(Math.floor(drawing.getBoundingClientRect().width)); })), drawing, status);
    page.fitted(drawing, draw);
  }

  function lines(width, source, target, weights, record, tell) {
    const bare = source.length > 12 && source.every((one) => /^[\d.,]+( s)?$|^\d+, \d+$/.test(one.text));  // frames, patches
    const MARGIN = 14, inner = width - 2 * MARGIN;
    const sizes = (all, empty) => {
      const room = Math.min(28, Math.max(8, (inner - sum(all.map((one) => wide(one.text)))) / all.length));
      return all.map((one) => empty ? Math.max(9, Math.min(16, inner / all.length)) : wide(one.text) + room);
    };
    const above_sizes = sizes(source, bare), below_sizes = sizes(target);
    const most = Math.max(sum(above_sizes), sum(below_sizes)), whole = most + 2 * MARGIN, spread = most > inner;
    const placed = (all, widths) => {  // centred where both rows fit, else spread, so that a word stands above its translation
      const gap = spread ? (most - sum(widths)) / all.length : 0;
      let x = MARGIN + (spread ? 0 : (most - sum(widths)) / 2);
      return all.map((one, place) => { x += widths[place] + gap; return {...one, size: widths[place], x: x - (widths[place] + gap) / 2}; });
    };
    const above = placed(source, above_sizes), below = placed(target, below_sizes);
    const height = 176, links = s("g", {fill: "none"}), paths = [];
    const svg = s("svg", {width: whole, height, role: "group", "aria-label": "Alignment of source and output by attention"}, s("text", {x: 0, y: 12}, "source"),
      s("text", {x: 0, y: height - 6}, "output"), links);
    weights.forEach((row, number) => row.forEach((weight, column) => {
      if (weight < Math.max(0.02, Math.min(0.1, 0.4 * Math.max(...row)))) return;
      const a = above[column].x, b = below[number].x;
      const path = s("path", {d: `M${a},42C${a},90 ${b},84 ${b},132`, stroke: "var(--s5)", "stroke-width": 0.6 + 4 * weight, "stroke-opacity": 0.15 + 0.4 * weight});
      paths.push([path, column, number, 0.15 + 0.4 * weight]);
      links.append(path);
    }));
    const light = (side, place) => {
      for (const [path, column, number, opacity] of paths) {
        const on = place !== null && (side ? number : column) === place;
        path.setAttribute("stroke", on ? "var(--predicted)" : "var(--s5)");
        path.setAttribute("stroke-opacity", on ? 0.95 : place === null ? opacity : 0.08);
      }
      for (const word of svg.querySelectorAll(".word")) {
        const there = place !== null && Number(word.dataset.side) !== side && paths.some(([, column, number]) => side ? number === place && column === Number(word.dataset.place) : column === place && number === Number(word.dataset.place));
        word.classList.toggle("lit", there);
      }
    };
    const attended = (values, names) => values.map((value, place) => [value, names[place].text]).sort((a, b) => b[0] - a[0]).slice(0, 3)
      .filter(([value]) => value >= 0.01).map(([value, text]) => `${text} (${percent(value)})`).join(", ") || "no word in particular";
    const word = (one, place, side) => {
      const y = side ? 150 : 34, empty = !side && bare;
      const share = side && record.pieces.length ? one.places.reduce((product, piece) => product * record.pieces[piece][1], 1) : null;
      const group = s("g", {class: "word", tabindex: 0, role: "img", "data-side": side, "data-place": place, "aria-label": one.text},
        s("rect", {x: one.x - one.size / 2 + 1, y: y - 17, width: one.size - 2, height: 25, rx: 4, style: share === null ? null : unsure(share).replace("background", "fill")}),
        empty ? (place % 5 ? null : s("text", {x: one.x, y, "text-anchor": "middle", class: "tiny"}, one.text.replace(" s", "")))
          : s("text", {x: one.x, y, "text-anchor": "middle", class: one.special ? "word-text" : "ink word-text"}, one.text));
      const text = () => side ? `${one.text}${share === null ? "" : `, probability ${percent(share)},`} attends to ${attended(weights[place], source)}.`
        : `${one.text} is attended by ${attended(weights.map((row) => row[place]), target)}.`;
      for (const name of ["mouseenter", "focus"]) group.addEventListener(name, () => { light(side, place); tell(text()); });
      for (const name of ["mouseleave", "blur"]) group.addEventListener(name, () => { light(side, null); tell(); });
      return group;
    };
    svg.append(...above.map((one, place) => word(one, place, 0)), ...below.map((one, place) => word(one, place, 1)));
    return svg;
  }

  // -- pieces and hypotheses ---------------------------------------------------------------------------------------

  function pieces(record) {
    const piece = (place) => {
      const [name, share, others] = record.pieces[place];
      return page.tooltip(h("span", {class: "piece", tabindex: 0, style: unsure(share)}, plain(name)),
        [`${plain(name)} ${percent(share)}`, ...others.map(([other, p]) => `${plain(other)} ${percent(p)}`)].join("\n"));
    };
    const box = h("p", {class: "pieces"}, words(record.pieces.map(([name]) => name), true).map((one) => [h("span", {class: one.special ? "together soft" : "together"}, one.places.map(piece)), " "]));
    return h("div", {}, h("h3", {}, "Symbols and alternatives"),
      h("p", {class: "note"}, "Darker: lower probability. Hover over a symbol or focus it for its probability and the four most probable alternatives." +
        (record.trace?.kind === "blocks" ? " All are those of the model as one from left to right." : "")), box);
  }

  function hypotheses(record) {
    return h("details", {}, h("summary", {}, `The ${record.hypotheses.length} best outputs of a wider beam`),
      h("p", {class: "note"}, "Score of the search", record.reference === undefined ? "." : ", and differences from the reference."),
      record.reference === undefined ? null : texts.key(new Set(["wrong", "missed", "inserted"])),
      h("ol", {class: "nbest"}, record.hypotheses.map(([text, score]) => h("li", {}, h("span", {class: "small"}, page.number(score)),
        h("span", {}, record.reference === undefined ? text || "(empty)" : texts.line(record.reference, text))))));
  }

  // -- steps of the decoder -------------------------------------------------------------------------------------------

  const cell = (text, kind, tip) => {
    const one = h("span", {class: "cell " + kind, tabindex: tip ? 0 : null}, text);
    return tip ? page.tooltip(one, tip) : one;
  };
  const steps = (...rows) => h("div", {class: "steps"}, rows.map(([label, cells]) => h("div", {class: "step"}, h("span", {class: "small"}, label), h("p", {}, cells))));
  const key = (...entries) => h("p", {class: "key"}, entries.map(([kind, text]) => h("span", {}, cell("", kind + " swatch"), text)));

  /** How `search.risk` chose the output: its candidates by their utility. */
  function candidates({candidates: found, metric, sampled}) {
    const count = sum(found.map(([, , often]) => often));
    return h("div", {}, h("p", {class: "note"}, `Of ${count} ${sampled ? "samples" : "outputs of the beam"} the first agrees with all of them most. ` +
      `Utility: the mean of ${metric}, each of them in the place of the reference${sampled ? "" : ", weighted by its probability"}.`),
      h("div", {class: "scroll", tabindex: 0}, h("table", {}, h("thead", {}, h("tr", {}, ["candidate", "utility", "found"].map((name) => h("th", {scope: "col"}, name)))),
        h("tbody", {}, found.map(([text, utility, often], place) => h("tr", {}, h("td", {}, h(place ? "span" : "b", {}, text === null ? "(malformed)" : text || "(empty)")),
          h("td", {}, page.number(utility, 1)), h("td", {}, `${often}×`)))))));
  }

  function decoding(record) {
    const trace = record.trace, parts = [];
    if (!trace) return null;
    if (trace.candidates) return h("div", {}, h("h3", {}, "Candidates"), candidates(trace),
      h("p", {class: "note"}, `${page.number(trace.milliseconds, 1)} ms in all.` + (trace.sampled ? " The samples are drawn for this page: those of the whole split may have been others." : "")));
    const count = trace.passes?.length ?? 1, once = count === 1 ? "1 pass" : `${count} passes`;
    const head = (name, how) => parts.push(h("h3", {}, name), h("p", {class: "note"}, `${how} ${page.number(trace.milliseconds, 1)} ms in all.`));
    const one_by_one = trace.kind === "autoregressive" || (trace.kind === "blocks" && trace.passes?.every((one) => one.symbols.length === 1));
    if (one_by_one && trace.passes) {
      head("Left to right", `${once}, one symbol each.`);
      parts.push(steps(["symbols", trace.passes.map((one) => cell(plain(one.symbols[0]), "new", `after ${page.number(one.milliseconds, 1)} ms`))]));
    } else if (trace.kind === "blocks" && trace.passes) {
      head("Blocks", `${once} for ${trace.passes[0].symbols.length} symbols.`);
      parts.push(key(["new", "written in this pass"], ["old", "before"], ["open", "later"]), steps(...trace.passes.map((pass, number) => {
        const when = pass.symbols.map((_, place) => trace.passes.findIndex((one) => one.written[place]) - number);
        const [first, last] = [when.findIndex((one) => one >= 0), when.findLastIndex((one) => one <= 0)];
        return [`pass ${number + 1}`, range(last + 1 - first).map((place) => cell(when[first + place] > 0 ? "" : plain(pass.symbols[first + place]),
          ["old", "new", "open"][Math.sign(when[first + place]) + 1], `after ${page.number(pass.milliseconds, 1)} ms`))];
      })));
    } else if (trace.passes) {
      head("All symbols at once", count > 1 ? `${once}; the least probable symbols are predicted again.` : `${once}.`);
      if (count > 1) parts.push(key(["new", "predicted in this pass"], ["old", "kept"], ["open", "predicted again in the next pass"]));
      parts.push(steps(...trace.passes.map((one, number) => [count > 1 ? `pass ${number + 1}` : "symbols", one.symbols.map((symbol, place) => {
        const again = trace.passes[number + 1]?.written[place], kind = one.written[place] ? "new" : "old";
        return cell(plain(symbol), again ? `${kind} open` : kind);
      })])));
    } else if (trace.frames) {
      head("CTC", "1 pass; repeated symbols are merged, then blanks (–) removed.");
      parts.push(steps(["frames", trace.frames.map(([symbol, p], place) => cell(plain(symbol), !symbol ? "blank" : symbol === trace.frames[place - 1]?.[0] ? "old" : "new", `frame ${place + 1}: ${symbol ? plain(symbol) : "blank"} ${percent(p)}`))],
        ["collapsed", trace.frames.filter(([symbol], place) => symbol && symbol !== trace.frames[place - 1]?.[0]).map(([symbol]) => cell(plain(symbol), "old"))]));
    } else if (trace.graph) {
      head("Graph of words (DAG)", `1 pass; of ${trace.graph.vertices.length} vertices ${trace.graph.path.length} are on the chosen path.`);
      parts.push(graph(trace.graph));
    } else return null;
    if (trace.predicted_length !== undefined) parts.push(h("p", {class: "note"}, `Predicted length ${trace.predicted_length}` + (trace.true === undefined ? "." : `, reference ${trace.true}.`)));
    return h("div", {}, parts);
  }

  /** Vertices on a line, those on the path with their symbols, and the path's links as arcs. */
  function graph({vertices, path}) {
    const on = new Set(path), y = 56;
    let x = 4;
    const centre = vertices.map(([symbol], place) => { const size = on.has(place) ? wide(plain(symbol), 13) + 16 : 11; x += size; return [x - size / 2, size]; });
    const svg = s("svg", {width: x + 4, height: 84, role: "group", "aria-label": `Graph of ${vertices.length} vertices and the path through it`});
    path.slice(1).forEach((to, number) => {
      const [a] = centre[path[number]], [b] = centre[to], rise = Math.min(40, 6 + (b - a) / 4);
      svg.append(s("path", {d: `M${a},${y - 15}C${a},${y - 15 - rise} ${b},${y - 15 - rise} ${b},${y - 15}`, fill: "none", stroke: "var(--predicted)", "stroke-width": 1.5}));
    });
    vertices.forEach(([symbol, p], place) => {
      const [at, size] = centre[place], chosen = on.has(place);
      const group = s("g", {class: "word", tabindex: chosen ? 0 : -1, role: "img", "aria-label": `vertex ${place + 1}: ${plain(symbol)}`},
        chosen ? [s("rect", {x: at - size / 2 + 2, y: y - 15, width: size - 4, height: 22, rx: 4, style: "fill: var(--predicted-f)"}), s("text", {x: at, y, "text-anchor": "middle", class: "ink", style: "font-size: 13px"}, plain(symbol))]
          : [s("rect", {x: at - 6, y: y - 15, width: 12, height: 22, style: "fill: transparent"}), s("circle", {cx: at, cy: y - 4, r: 3, fill: "var(--rule-2)"})]);
      svg.append(page.tooltip(group, `vertex ${place + 1}, ${chosen ? "on the path" : "not on the path"}\n${plain(symbol)} ${percent(p)}`));
    });
    return h("div", {class: "scroll"}, svg);
  }

  // -- maps --------------------------------------------------------------------------------------------------------

  /** Cells as a path for each of six depths: it keeps its colours when the theme changes, and scales. */
  function picture(packed, weight, layer, head, size) {
    const {rows, columns} = packed;
    let most = 0;
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) most = Math.max(most, weight(layer, head, row, column));
    const depths = range(7).map(() => []);
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++)
      depths[Math.round(6 * weight(layer, head, row, column) / (most || 1))].push(`M${column} ${row}h1v1h-1z`);
    return {most, svg: s("svg", {class: "cells", viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true", ...size},
      depths.slice(1).map((cells, depth) => cells.length ? s("path", {d: cells.join(""), style: `fill: var(--predicted); fill-opacity: ${(depth + 1) / 6}`}) : null))};
  }

  function maps(element, record) {
    const parts = Object.keys(PARTS).filter((part) => record.attention[part]);
    if (!parts.length) return;
    element.append(h("h3", {}, "Attention of every head"),
      h("p", {class: "note"}, "Rows: querying word. Columns: attended word. The strongest colour is the head's largest weight. A click or Enter enlarges a map."));
    const room = h("div", {class: "parts"}), large = h("div", {class: "large"});
    element.append(room, large);
    for (const part of parts) {
      const packed = record.attention[part], weight = unpack(packed), {layers, heads, rows, columns} = packed;
      const rowNames = part === "encoder" ? record.source : record.target, columnNames = packed.names ?? record.source;
      const tall = Math.max(28, Math.min(96, Math.round(72 * rows / columns)));
      const open = (button, layer, head) => {
        const was = button.getAttribute("aria-pressed") === "true";
        for (const other of room.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
        large.replaceChildren();
        if (was) return;
        button.setAttribute("aria-pressed", "true");
        large.append(h("h3", {}, `${PARTS[part]}: layer ${layer + 1}, head ${head + 1}`), enlarged(packed, weight, layer, head, rowNames, columnNames));
        large.scrollIntoView({block: "nearest"});
      };
      room.append(h("div", {}, h("p", {class: "small"}, PARTS[part]), h("div", {class: "maps"}, range(layers).map((layer) => h("div", {class: "layer"}, h("span", {class: "small"}, `layer ${layer + 1}`),
        range(heads).map((head) => {
          const name = `layer ${layer + 1}, head ${head + 1}`;
          const button = h("button", {type: "button", "aria-pressed": "false", "aria-label": `${PARTS[part]}, ${name}`, onclick() { open(this, layer, head); }},
            picture(packed, weight, layer, head, {width: 72, height: tall}).svg, h("span", {class: "tiny"}, `head ${head + 1}`));
          return page.tooltip(button, name);
        }))))));
    }
  }

  function enlarged(packed, weight, layer, head, rowNames, columnNames) {
    const {rows, columns} = packed, left = Math.min(120, 12 + Math.max(...rowNames.map((name) => wide(plain(name), 11)))), top = Math.min(96, 10 + Math.max(...columnNames.map((name) => wide(plain(name), 11))));
    const box = h("div", {class: "scroll"});
    const short = (name) => { let text = plain(name); while (text.length > 1 && wide(text, 11) > 104) text = text.slice(0, -2) + "…"; return text; };
    page.fitted(box, (width) => {
      const side = Math.max(11, Math.min(22, (width - left - 8) / columns, 560 / rows));
      const {svg: cells, most} = picture(packed, weight, layer, head, {x: left, y: top, width: side * columns, height: side * rows});
      const cursor = s("rect", {width: side, height: side, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5, visibility: "hidden"});
      const svg = s("svg", {width: left + side * columns + 8, height: top + side * rows + 4, tabindex: 0, role: "img",
        "aria-label": `Weights from 0 to ${page.number(most)}, ${rows} rows, ${columns} columns; arrow keys go from cell to cell`},
        s("rect", {x: left, y: top, width: side * columns, height: side * rows, fill: "var(--empty)"}), cells, cursor,
        rowNames.slice(0, rows).map((name, row) => s("text", {x: left - 6, y: top + side * (row + 0.5) + 4, "text-anchor": "end", class: "tiny"}, short(name))),
        columnNames.slice(0, columns).map((name, column) => s("text", {class: "tiny", transform: `translate(${left + side * (column + 0.5) + 4}, ${top - 6}) rotate(-90)`}, short(name))));
      let row = 0, column = 0;
      const tell = () => {
        cursor.setAttribute("x", left + side * column); cursor.setAttribute("y", top + side * row); cursor.setAttribute("visibility", "visible");
        const box = cursor.getBoundingClientRect();
        page.tip(`${plain(rowNames[row])} → ${plain(columnNames[column])}\n${page.number(weight(layer, head, row, column))}`, box.x + box.width / 2, box.y);
      };
      const hide = () => { cursor.setAttribute("visibility", "hidden"); page.tip(); };
      svg.addEventListener("mousemove", (event) => {
        const whole = svg.getBoundingClientRect(), [across, down] = [Math.floor((event.clientX - whole.x - left) / side), Math.floor((event.clientY - whole.y - top) / side)];
        if (across < 0 || down < 0 || across >= columns || down >= rows) return hide();
        [row, column] = [down, across];
        tell();
      });
      svg.addEventListener("mouseleave", hide);
      svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) tell(); });
      svg.addEventListener("blur", hide);
      svg.addEventListener("keydown", (event) => {
        const move = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
        if (!move) return;
        event.preventDefault();
        row = Math.max(0, Math.min(rows - 1, row + move[0])); column = Math.max(0, Math.min(columns - 1, column + move[1]));
        tell();
      });
      box.replaceChildren(svg);
    });
    return box;
  }

  /** Draws a record; options.draw: draws reference and output; options.drawing: how the task draws them. */
  function show(element, given, options = {}) {
    const record = {source: [], target: [], pieces: [], places: [], hypotheses: [], attention: {}, ...given}, box = h("div", {class: "inspection"});
    element.append(box);
    const boxed = options.drawing === "boxes";  // coordinates are neither words to align nor to compare
    if (!boxed) alignment(box, record);
    if (options.draw) options.draw(box.appendChild(h("div", {})));
    const text = (name, content) => [h("h3", {}, name), h("p", {}, content.length ? content : "(empty)")];
    const beside = boxed ? [] : [record.reference === undefined || options.draw ? [] : [text("Reference", record.reference), text("Output", record.output ? texts.line(record.reference, record.output) : "")],
      record.hypotheses.length > 1 ? hypotheses(record) : []].flat(3);
    box.append(h("div", {class: "pair"}, record.pieces.length ? pieces(record) : null, beside.length ? h("div", {}, beside) : null));
    const how = decoding(record);
    if (how) box.append(how);
    maps(box, record);
  }

  const self = {show, words, candidates, open() {}};

  sections.inside = (element, data) => {
    const splits = Object.keys(data), outputs = page.data("examples") ?? {};
    let split = splits[0], number = 0;
    const bar = h("div", {class: "row"}), place = h("div", {});
    element.append(bar, place);
    const title = (record) => {
      const row = outputs[split]?.rows.find((one) => one.row === record.row);
      return `${row ? row.equal ? "= " : "≠ " : ""}${row?.shown?.source?.question || row?.source || words(record.source ?? []).map((one) => one.text).join(" ") || record.output || `row ${record.row + 1}`}`.slice(0, 90);
    };
    const draw = () => {
      const {examples} = data[split];
      bar.replaceChildren(splits.length > 1 ? page.choice("Split", splits.map((one) => [one, data[one].name ?? one]), split, (one) => { [split, number] = [one, 0]; draw(); }) : "",
        page.select("Example", examples.map((one, place) => [String(place), title(one)]), String(number), (one) => { number = Number(one); draw(); }));
      place.replaceChildren();
      const {drawing, unit, rows = []} = outputs[split] ?? {}, row = rows.find((one) => one.row === examples[number].row && one.shown);
      const own = row && !["text", "sound", "surprise"].includes(drawing) ? drawings[drawing] : null;
      show(place, examples[number], {drawing, draw: own && ((element) => own(element, {source: row.source, shown_source: row.shown.source,
        reference: row.shown.reference, prediction: row.shown.prediction, inspection: examples[number]}, {unit}))});
    };
    draw();
    self.open = (one, row) => {
      [split, number] = [one, Math.max(0, data[one].examples.findIndex((record) => record.row === row))];
      draw();
      element.closest("section").scrollIntoView();
      bar.querySelector("select").focus({preventScroll: true});
    };
  };

  return self;
})();
