"""The page of a run: one file without outside resources, made from the files of the run directory alone."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import atomic_write_text, read_text, to_json
from seq2seq_suite.metrics.names import metric_name
from seq2seq_suite.report.curves import curve
from seq2seq_suite.report.outputs import (
    Outputs,
    by_kind,
    by_length,
    examples,
    read_config,
    read_lines,
    read_object,
    read_outputs,
    split_name,
)
from seq2seq_suite.report.page import drawings, render
from seq2seq_suite.report.sentences import lede, on_end, on_training
from seq2seq_suite.terminal.tables import NONE, beside, figure, is_number, mapping, span

_ROOM = 2_300_000  # characters for examples and inspected examples: a page stays under 3 MB
_FAILURES = {
    "invalid": "invalid: output could not be parsed",
    "empty": "empty output",
    "repeated": "repeated: a block of symbols three times in a row, more often than in the reference",
    "truncated": "cut off at the length limit",
}
_FREE_TEXT = ("text", "sound", "surprise")  # drawings of outputs that no rules shape
_HEADINGS = {"asr": "Speech recognition", "qa": "Question answering", "multilabel": "Labels of texts"}
_PHASES = {"data": "reading data", "train": "training", "validation": "validation", "test": "test"}


def write_report(run_directory_path: Path) -> Path:
    """Write `report.html` into a run directory, and into those of a joint run's tasks.

    Args:
        run_directory_path: the directory; parts that are missing or cut short are left out.

    Returns:
        The page's path.
    """
    directory = Path(run_directory_path)
    parts = [path for path in sorted((directory / "tasks").glob("*")) if (path / "config.yaml").is_file()]
    for part in parts:
        write_report(part)
    page = directory / "report.html"
    atomic_write_text(page, report_page(directory, parts))
    return page


def report_page(directory: Path, parts: Sequence[Path] = ()) -> str:
    """The page as text, with links to those of a joint run's tasks."""
    summary, provenance = read_object(directory / "summary.json"), read_object(directory / "provenance.json")
    metrics = read_lines(directory / "metrics.jsonl")
    metric = str(summary.get("primary_metric") or _first_metric(metrics))
    splits = {
        str(split): figures for split, figures in mapping(summary.get("splits")).items() if isinstance(figures, dict)
    }
    outputs = read_outputs(
        directory, list(splits), metric, higher_is_better=summary.get("higher_is_better") is not False
    )
    lengths = by_length(outputs, str(summary.get("formula") or ""))
    training = _training(metrics, metric, summary, directory)
    inspected = _inspected(directory, list(splits))
    name = directory.resolve().name
    task = str(summary.get("task") or "run")
    command = f"python -m seq2seq_suite evaluate {shlex.quote(str(directory))}"
    config = read_config(directory)
    decoder = str(mapping(config.get("strategy")).get("kind") or "")
    data = {"training": training, "errors": {**_errors(outputs, lengths, summary, decoder), "command": command}}
    if inspected:
        data["inside"] = inspected
    data["examples"] = examples(outputs, max(100_000, _ROOM - len(to_json(inspected)) - len(to_json(data["errors"]))))
    scripts = [*drawings(one.drawing for one in outputs), *(["inspection.js"] if inspected else []), "run.js"]
    cards = _cards(summary, splits, metric, outputs)
    said = f"The {cards[0]['name']} is {cards[0]['value']}{' %' if cards[0]['unit'] else ''}." if cards else ""
    return render(
        "run.html",
        title=f"{name} – {task}" if name != task else name,
        scripts=["charts.js", *scripts],
        data=data,
        name=name,
        heading=_HEADINGS.get(task, task.replace("_", " ").capitalize()),
        lede=lede([one for one in outputs if "@" not in one.split], lengths, said),
        cards=cards[:4],
        status=on_end(
            summary,
            mapping(config.get("training")),
            training["losses"],
            max((row["update"] for row in metrics if is_number(row.get("update"))), default=None),
        ),
        splits=list(map(split_name, splits)),
        rows=_table(summary, splits),
        facts=_facts(summary, provenance),
        crossing=any("average_crossing" in figures for figures in splits.values()),
        signature=str(summary.get("signature") or ""),
        configuration=_configuration(directory / "config.yaml"),
        starts=_starts(provenance),
        parts=[part.name for part in parts],
        whole=directory.resolve().parent.name == "tasks",
        has_outputs=bool(outputs),
        inspected=bool(inspected),
        command=command,
    )


def _cards(
    summary: dict[str, Any], splits: dict[str, dict[str, Any]], metric: str, outputs: Sequence[Outputs]
) -> list[dict[str, Any]]:
    """The headline figures: the primary metric of each split, then others of the first; each with its interval."""
    judged = {one.split: one for one in outputs}
    wanted = [(split, metric) for split in splits if split != "validation"] + [
        (split, metric) for split in splits if split == "validation"
    ]
    wanted += [(next(iter(splits)), other) for other in next(iter(splits.values()), {}) if other != metric]
    cards: list[dict[str, Any]] = []
    for split, one in wanted:
        value = splits[split].get(one)
        if not is_number(value):
            continue
        name, unit, arrow = named(one)
        bounds = _bounds(summary, split, one)
        notes = [f"95 %: {figure(float(bounds[0]))} to {figure(float(bounds[1]))}"] if bounds else []
        if split in judged and one == metric:
            notes.append(f"n {len(judged[split].rows):,}")
            notes += [f"{sum(judged[split].equal):,} equal"] if judged[split].is_judged else []
        if split == "validation" and one == metric:
            notes.append("chooses the checkpoint")
        trivial = mapping(mapping(summary.get("baselines")).get(split.partition("@")[0])) if one == metric else {}
        best = mapping(summary.get("ceiling")).get(split.partition("@")[0]) if one == metric else None
        trivial = {str(of): found for of, found in trivial.items() if is_number(found)}
        known = [
            f"without learning: {' · '.join(f'{of} {figure(float(found))}' for of, found in trivial.items())}"
        ] * bool(trivial)
        if is_number(best):
            trivial["best possible"] = best
            known.append(f"best possible: {figure(float(best))}")
        cards.append(
            {
                "name": name,
                "unit": unit,
                "arrow": arrow,
                "split": split_name(split),
                "number": value,
                "value": figure(float(value)),
                "bounds": bounds,
                "notes": " · ".join(notes),
                "metric": one,
                "axis": None,
                "trivial": trivial,
                "without": "; ".join(known),
            }
        )
    main = [card for card in cards[:4] if card["metric"] == metric]
    ends = [end for card in main for end in (*(card["bounds"] or [card["number"]]), *card["trivial"].values())]
    if any(card["bounds"] or card["trivial"] for card in main):
        low, high = _around(min(ends), max(ends))

        def place(value: float) -> float:
            return round(100 * (value - low) / (high - low), 2)

        for card in main:
            at, first, last = map(place, (card["number"], *(card["bounds"] or [card["number"]] * 2)))
            card["axis"] = {
                "low": f"{low:g}",
                "high": f"{high:g}",
                "at": at,
                "from": first,
                "to": last,
                "ticks": [(of, place(found)) for of, found in card["trivial"].items()],
            }
    return cards


def _around(low: float, high: float) -> tuple[float, float]:
    """Round ends of an axis around a range.

    >>> _around(93.1, 97.6), _around(2.47, 2.49), _around(100.0, 100.0), _around(0.0, 0.0)
    ((92.0, 98.0), (2.46, 2.5), (99.5, 100.0), (0.0, 1.5))
    """
    high = high or 1.0 + low  # an axis from 0 to 0.005 would make a difference of nothing
    step = 10.0 ** math.floor(math.log10(max(high - low, 0.02 * abs(high), 0.01)))
    step = next(part * step for part in (0.5, 1, 2, 5, 10) if (high - low) / (part * step) <= 4)
    first, last = math.floor(low / step) * step, math.ceil(high / step) * step
    first, last = first - step * (first == low > 0), last + step * (last == high and high != 100.0)
    return round(max(first, 0.0) if low >= 0 else first, 6), round(last, 6)


def named(key: str) -> tuple[str, str, str]:
    """A metric's name, unit and arrow.

    >>> named("exact_match"), named("bleu"), named("my_own")
    (('exact match', '%', '↑'), ('BLEU', '', '↑'), ('my own', '', ''))
    """
    (name, unit, arrow), *_ = re.findall(r"(?s)^(.*?)(, %)?( [↑↓]| → 1)?$", metric_name(key))
    return name, unit.removeprefix(", "), arrow.strip()


def _facts(summary: dict[str, Any], provenance: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What the run cost, as (before, figure, after)."""
    known = {key: value for key, value in summary.items() if is_number(value)}
    core = f", {_millions(known['core_parameters'])} of them shared core" if "core_parameters" in known else ""
    updates = f", {known['updates']:,.0f} updates" if "updates" in known else ""
    table = [
        ("parameters", "", _millions, f" weights{core}"),
        ("seconds", "trained ", duration, updates),
        *([] if "seconds" in known else [("updates", "", "{:,.0f}".format, " updates")]),
        ("best_update", "best at update ", "{:,.0f}".format, ""),
        ("tokens_per_second", "", "{:,.0f}".format, " symbols/s"),
        ("peak_memory_mb", "memory ", lambda size: f"{size / 1000:.2f} GB", " at most, libraries included"),
        ("seed", "seed ", str, ""),
    ]
    known |= {"seed": provenance["seed"]} if is_number(provenance.get("seed")) else {}
    return [(before, show(known[key]), after) for key, before, show, after in table if key in known]


def _millions(value: float) -> str:
    return f"{value / 1e6:.2f} M" if value >= 1e5 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """A time as a reader says it.

    >>> duration(4.21), duration(99), duration(3600), duration(7384)
    ('4.2 s', '1 min 39 s', '1 h 0 min', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _training(
    metrics: Sequence[dict[str, Any]], metric: str, summary: dict[str, Any], directory: Path
) -> dict[str, Any]:
    """Curves of the losses, of the metric and of the learning rate; points are (update, minutes, symbols, value)."""
    rows = {
        split: [row for row in metrics if row.get("split") == split and is_number(row.get("update"))]
        for split in ("train", "validation")
    }

    def points(split: str, key: str) -> list[list[Any]]:
        return curve(metrics, split, key)

    names = list(
        dict.fromkeys(key for split in rows.values() for row in split for key in row if key.startswith("loss_"))
    )
    losses = [
        {
            "name": _loss_name(key, split, names),
            "loss": _loss_name(key, "", []),
            "dashed": split == "validation",
            "points": points(split, key),
        }
        for key in names
        for split in ("train", "validation")
    ]
    losses = [one for one in losses if one["points"]]
    figures = [metric]
    for part in sorted((directory / "tasks").glob("*")):
        figures.append(f"{part.name}/{read_object(part / 'summary.json').get('primary_metric')}")
    best = summary.get("best_update")
    chosen = [{"name": metric_name(key).rstrip(" ↑↓"), "points": points("validation", key)} for key in figures]
    seconds = mapping(summary.get("phase_seconds"))
    phases = [
        [name, seconds[key], duration(seconds[key])]
        for key, name in _PHASES.items()
        if is_number(seconds.get(key)) and seconds[key] >= 0
    ]
    memory = summary.get("peak_memory_mb")
    return {
        "losses": losses,
        "metric": metric_name(metric),
        "figures": [one for one in chosen if one["points"]],
        "rate": points("train", "learning_rate"),
        "best": best if is_number(best) else None,
        "phases": phases,
        "memory": memory if is_number(memory) else None,
        "notes": on_training(losses, chosen[0]["points"], best),
    }


def _loss_name(key: str, split: str, names: Sequence[str]) -> str:
    name = key.removeprefix("loss_").replace("_", " ").replace("ctc", "CTC")
    side = {"train": "training", "validation": "validation"}.get(split, "")
    return name if not side else side if len(names) == 1 else f"{name}, {side}"


def _errors(
    outputs: Sequence[Outputs], lengths: dict[str, Any] | None, summary: dict[str, Any], decoder: str
) -> dict[str, Any]:
    """The charts of what fails: those of every task, then the task's own of each split."""
    failures = {str(split): one for split, one in mapping(summary.get("failures")).items() if isinstance(one, dict)}
    possible = _possible({one.drawing for one in outputs}, decoder)
    failed = (
        {
            "title": "Outputs that fail, %",
            "kind": "table",
            "y": "",
            "rows": [_FAILURES[key] for key in possible],
            "columns": [split_name(split) for split in failures],
            "cells": [
                [f"{one[key]:.1f}" if is_number(one.get(key)) else None for one in failures.values()]
                for key in possible
            ],
        }
        if failures and possible
        else None
    )
    return {
        "kinds": by_kind(outputs),
        "lengths": lengths,
        "failures": failed,
        "splits": [{"name": split_name(one.split), "panels": one.panels} for one in outputs if one.panels],
    }


def _possible(drawings: Set[str], decoder: str) -> list[str]:
    """Failures that outputs so drawn, written by such a decoder, can have.

    >>> _possible({"text"}, "autoregressive"), _possible({"tree"}, "ctc"), _possible({"boxes"}, "slots")
    (['empty', 'repeated', 'truncated'], ['invalid', 'empty', 'truncated'], [])
    """
    free = drawings <= set(_FREE_TEXT)  # any text can be read; trees, tags and labels repeat symbols by their rules
    return [key for key in _FAILURES if key != ("invalid" if free else "repeated") and decoder != "slots"]


def _inspected(directory: Path, splits: Sequence[str]) -> dict[str, Any]:
    """What `inspection/SPLIT.json` holds, by split, those of the figures first."""
    names = [path.stem for path in sorted((directory / "inspection").glob("*.json"))]
    found = {
        split: read_object(directory / "inspection" / f"{split}.json")
        for split in dict.fromkeys([*(split for split in splits if split in names), *names])
    }
    return {
        split: {**one, "name": split_name(split)}
        for split, one in found.items()
        if isinstance(one.get("examples"), list) and one["examples"]
    }


def _table(summary: dict[str, Any], splits: dict[str, dict[str, Any]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """All figures: a metric's name with its figure on each split, and its 95 % interval where there is one.

    Below the metrics what stands `beside` them.
    """
    names = list(dict.fromkeys(name for figures in splits.values() for name in figures))
    return [
        (
            metric_name(str(name)),
            [
                (
                    figure(figures[name]).replace("-", "−") if is_number(figures.get(name)) else NONE,
                    span(*bounds) if (bounds := _bounds(summary, split, name)) else "",
                )
                for split, figures in splits.items()
            ],
        )
        for name in names
    ] + [(name, [(value or NONE, note) for value, note in cells]) for name, cells in beside(summary, list(splits))]


def _bounds(summary: dict[str, Any], split: str, name: str) -> list[float] | None:
    """The 95 % interval of a figure, if it was recorded."""
    bounds = mapping(mapping(summary.get("intervals")).get(split)).get(name)
    return bounds if isinstance(bounds, list) and len(bounds) == 2 and all(map(is_number, bounds)) else None


def _configuration(path: Path) -> str:
    with suppress(DataError):
        return read_text(path, errors="replace")
    return ""


def _starts(provenance: dict[str, Any]) -> list[dict[str, Any]]:
    """Command, machine, versions and data of the last start and of those before it, the last first."""
    earlier = provenance.get("earlier")
    earlier = [start for start in earlier if isinstance(start, dict)] if isinstance(earlier, list) else []
    starts = [{key: value for key, value in provenance.items() if key != "earlier"}, *reversed(earlier)]
    return (
        [
            {
                "time": str(start.get("time", "")),
                "facts": [(key.replace("_", " "), _fact(value)) for key, value in start.items()],
            }
            for start in starts
        ]
        if provenance
        else []
    )


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items()) or NONE
    if isinstance(value, list):
        return shlex.join(str(word) for word in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NONE if value in ("", None) else str(value)


def _first_metric(metrics: Sequence[dict[str, Any]]) -> str:
    """The first figure of a validation, for runs without a summary."""
    row = next((row for row in metrics if row.get("split") == "validation"), {})
    return next(
        (name for name in row if name not in ("update", "split", "seconds", "tokens") and not name.startswith("loss_")),
        "",
    )
