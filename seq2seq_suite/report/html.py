"""The page of a run: one file without outside resources, made from the files of the run directory alone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from seq2seq_suite.files import atomic_write_text, read_json, read_rows, read_text
from seq2seq_suite.metrics.names import metric_name
from seq2seq_suite.report.curves import curve
from seq2seq_suite.report.examples import Marker, choose, example
from seq2seq_suite.report.page import render
from seq2seq_suite.report.tables import figure, is_number
from seq2seq_suite.types import DataError


def write_report(run_directory_path: Path, mark: Marker = lambda gold, predicted: None) -> Path:
    """Write `report.html` into a run directory.

    Args:
        run_directory_path: the directory; parts that are missing or cut short are left out.
        mark: how the task shows what differs between two outputs.

    Returns:
        The page's path.
    """
    directory = Path(run_directory_path)
    page = directory / "report.html"
    atomic_write_text(page, _page(directory, mark))
    return page


def _page(directory: Path, mark: Marker) -> str:
    summary, provenance = _object(directory / "summary.json"), _object(directory / "provenance.json")
    metrics = _rows(directory / "metrics.jsonl")
    metric = str(summary.get("primary_metric") or _first_metric(metrics))
    title = f"{directory.resolve().name} – {summary.get('task', 'run')}"
    higher_is_better = summary.get("higher_is_better") is not False
    sections = [_headline(summary, metric), _curves(metrics, metric),
                _predictions(directory, metric, mark, higher_is_better=higher_is_better),
                _configuration(directory / "config.yaml"), _origin(provenance)]
    return render("plain.html", title=title, parts=[section for section in sections if section])


def _headline(summary: dict[str, Any], metric: str) -> str:
    """The primary metric of each split in large type, all figures below."""
    splits = {split: figures for split, figures in _mapping(summary.get("splits")).items()
              if isinstance(figures, dict)}
    if not splits:
        return '<p class="muted">No summary yet: the run has not come to its end.</p>'
    cards = [(f"{metric_name(metric)}, {split}", figure(figures.get(metric)), _interval(summary, split, metric))
             for split, figures in splits.items()]
    cards += [(what, f"{summary[key]:,.0f}", "") for key, what in (
        ("parameters", "parameters"), ("updates", "updates"), ("best_update", "best at update"), ("seconds", "seconds"),
        ("tokens_per_second", "tokens/s")) if is_number(summary.get(key))]
    drawn = "".join(f"<div><h4>{escape(what)}</h4><b>{escape(value)}</b>{note}</div>"
                    for what, value, note in cards)
    names = list(dict.fromkeys(name for figures in splits.values() for name in figures))
    table = html_table(["metric", *splits], [
        [metric_name(name), *(figure(figures.get(name)) for figures in splits.values())] for name in names])
    return (f'<div class="cards">{drawn}</div><h2>Figures</h2>{table}'
            f'<p class="muted">{escape(str(summary.get("signature", "")))}</p>')


def _interval(summary: dict[str, Any], split: str, metric: str) -> str:
    """The 95 % interval of a figure as HTML; empty if it was not recorded."""
    bounds = _mapping(_mapping(summary.get("intervals")).get(split)).get(metric)
    if not (isinstance(bounds, list) and len(bounds) == 2 and all(map(is_number, bounds))):
        return ""
    return f'<span class="small">95 %: {figure(bounds[0])} to {figure(bounds[1])}</span>'


def _curves(metrics: Sequence[dict[str, Any]], metric: str) -> str:
    """Training loss, validation and learning rate over updates."""
    train = [row for row in metrics if row.get("split") == "train"]
    losses = list(dict.fromkeys(key for row in train for key in row if key.startswith("loss_")))
    charts = [
        curve("training loss", {name.removeprefix("loss_").replace("_", " "): _points(train, name) for name in losses},
              x_label="update", y_label="mean loss"),
        curve(f"validation {metric}", {metric: _points([row for row in metrics if row.get("split") == "validation"],
                                                       metric)}, x_label="update", y_label=metric),
        curve("learning rate", {"learning rate": _points(train, "learning_rate")}, x_label="update",
              y_label="rate")]
    drawn = "".join(f"<div>{chart}</div>" for chart in charts if chart)
    return f'<h2>Training</h2><div class="curves">{drawn}</div>' if drawn else ""


def _predictions(directory: Path, metric: str, mark: Marker, *, higher_is_better: bool) -> str:
    """For each decoded split its worst examples, some at random, and the figures by label."""
    parts = []
    for path in sorted((directory / "predictions").glob("*.jsonl")):
        rows = _rows(path)
        if not rows:
            continue
        worst, some = choose(rows, metric, higher_is_better=higher_is_better)
        judged = [row["equal"] for row in rows if isinstance(row.get("equal"), bool)]
        equal = f"{sum(judged):,} of {len(judged):,} outputs equal their reference. " if judged else ""
        parts.append(f'<h2>Outputs on {escape(path.stem)}</h2><p class="muted">{equal}'
                     'Marked: <span class="missed">only in the reference</span> '
                     '<span class="wrong">only in the prediction</span>.</p>')
        if worst:
            parts.append("<h3>Worst</h3>" + "".join(example(row, metric, mark) for row in worst))
        parts.append("<h3>At random</h3>" + "".join(example(row, metric, mark) for row in some))
        details = _object(path.with_suffix(".details.json"))
        parts.append(_labels(details.get("labels")) + _categories(details.get("categories")))
    return "".join(parts)


def _labels(labels: Any) -> str:
    """A table of counts by label, most frequent first, from label -> (gold, predicted, matched)."""
    counts = [(str(label), *three) for label, three in _mapping(labels).items()
              if isinstance(three, list) and len(three) == 3 and all(map(is_number, three))]
    if not counts:
        return ""
    rows = [[label, str(gold), str(predicted), str(matched), figure(_percent(matched, predicted)),
             figure(_percent(matched, gold)), figure(_percent(2 * matched, gold + predicted))]
            for label, gold, predicted, matched in sorted(counts, key=lambda row: (-row[1], row[0]))]
    header = ["label", "gold", "predicted", "matched", "precision", "recall", "F1"]
    return "<h3>By label</h3>" + html_table(header, rows)


def _categories(categories: Any) -> str:
    """A table of figures by category, in the given order, from category -> {figure's name: value}."""
    known = {str(name): row for name, row in _mapping(categories).items() if isinstance(row, dict)}
    columns = list(dict.fromkeys(column for row in known.values() for column in row))
    rows = [[name, *(figure(row.get(column)) for column in columns)] for name, row in known.items()]
    return "<h3>By category</h3>" + html_table(["category", *map(str, columns)], rows) if rows else ""


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else float("nan")


def _configuration(path: Path) -> str:
    try:
        text = read_text(path, errors="replace")
    except DataError:
        return ""
    return f"<h2>Configuration</h2><details><summary>config.yaml</summary><pre>{escape(text)}</pre></details>"


def _origin(provenance: dict[str, Any]) -> str:
    """Command, machine, versions and data of the last start and of those before it."""
    if not provenance:
        return ""
    earlier = provenance.get("earlier")
    earlier = [start for start in earlier if isinstance(start, dict)] if isinstance(earlier, list) else []
    starts = [{key: value for key, value in provenance.items() if key != "earlier"}, *reversed(earlier)]
    parts = ["<h2>Where it comes from</h2>"]
    for place, start in enumerate(starts):
        rows = "".join(f"<tr><td>{escape(key.replace('_', ' '))}</td><td>{escape(_fact(value))}</td></tr>"
                       for key, value in start.items())
        table = f'<div class="scroll"><table class="plain">{rows}</table></div>'
        parts.append(table if not place else f"<details><summary>earlier start, {escape(str(start.get('time', '')))}"
                                             f"</summary>{table}</details>")
    return "".join(parts)


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    if isinstance(value, list):
        return shlex.join(str(word) for word in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in ("", None) else str(value)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose text is escaped; it scrolls sideways where the page is narrow."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _points(rows: Sequence[dict[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(row["update"], row[name]) for row in rows
            if is_number(row.get("update")) and is_number(row.get(name))]


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first_metric(metrics: Sequence[dict[str, Any]]) -> str:
    """The first figure of a validation, for runs without a summary."""
    row = next((row for row in metrics if row.get("split") == "validation"), {})
    return next((name for name in row if name not in ("update", "split", "seconds")), "")


def _object(path: Path) -> dict[str, Any]:
    """A JSON object; empty if there is none."""
    try:
        return _mapping(read_json(path))
    except DataError:
        return {}


def _rows(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file with one on each line; lines that are cut short are left out."""
    try:
        return [row for _, row in read_rows(path, errors="replace") if row is not None]
    except DataError:
        return []
