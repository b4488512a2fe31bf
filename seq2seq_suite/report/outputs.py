"""What a run's page shows of its outputs: examples, kinds of errors, quality by length. Read from `predictions/`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import read_json, read_rows, read_text, to_json
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.metrics.names import metric_name
from seq2seq_suite.terminal.tables import is_number, mapping

MOST_EXAMPLES = 200  # of a split, in the page
_MOST_KINDS = 12
_BINS = 5  # of lengths
_SAMPLES = 500
_NAMES = {"compositional": "new combinations", "composed": "new combinations"}


@dataclass(frozen=True)
class Outputs:
    """The outputs on one split; what a file does not hold, or an old run did not record, is empty."""

    split: str
    rows: list[dict[str, Any]]
    details: dict[str, Any]
    shown: dict[str, Any]
    metric: str
    higher_is_better: bool

    @property
    def drawing(self) -> str:
        """Which script draws an output."""
        return str(self.details.get("drawing") or "text")

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The task's charts, and its figures by label and by category as tables."""
        given = self.details.get("panels")
        panels = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
        return [
            *panels,
            *([] if panels else _labels(self.details.get("labels"))),
            *_categories(self.details.get("categories")),
        ]

    @cached_property
    def equal(self) -> list[bool]:
        """Of each output whether it equals its reference, as the task sees it; in old runs as text."""
        return [
            row["equal"] if isinstance(row.get("equal"), bool) else row.get("reference") == row.get("prediction")
            for row in self.rows
        ]

    @property
    def is_judged(self) -> bool:
        """Whether outputs can equal their reference at all, which probabilities of a text cannot."""
        return any(self.equal) or bool(self.kinds)

    @cached_property
    def kinds(self) -> Counter[str]:
        """How many outputs have each kind of error, the most frequent first."""
        found = Counter(kind for row in self.rows for kind in _strings(row.get("kinds")))
        return Counter(dict(found.most_common()))

    def figure(self, row: int) -> float | None:
        """An output's own figure, None if it has none."""
        figures = self.rows[row].get("figures")
        figure = figures.get(self.metric) if isinstance(figures, dict) else None
        return figure if is_number(figure) else None

    @cached_property
    def worst_first(self) -> list[int]:
        """All rows, those that are wrong first, the worse the earlier."""

        def badness(row: int) -> tuple[bool, float]:
            figure = self.figure(row)
            return self.equal[row], math.inf if figure is None else figure if self.higher_is_better else -figure

        return sorted(range(len(self.rows)), key=badness)

    def example(self, place: int) -> dict[str, Any]:
        """An output as the page's script needs it."""
        row, shown = self.rows[place], self.shown.get(str(place))
        return {
            "row": place,
            **{name: str(row.get(name, "")) for name in ("source", "reference", "prediction", "origin")},
            "figure": self.figure(place),
            "equal": self.equal[place],
            "kinds": _strings(row.get("kinds")),
            "length": row["length"] if is_number(row.get("length")) else None,
            "facts": mapping(row.get("facts")),
            **({"shown": shown} if isinstance(shown, dict) else {}),
        }


def split_name(split: str) -> str:
    """A split as a reader knows it.

    >>> split_name("compositional@beam_size=4"), split_name("test-my_file")
    ('new combinations@beam_size=4', 'test-my file')
    """
    return re.sub("^[^@]+", lambda name: _NAMES.get(name[0], name[0].replace("_", " ")), split)


def read_outputs(directory: Path, splits: Sequence[str], metric: str, *, higher_is_better: bool) -> list[Outputs]:
    """The outputs of each decoded split, those of the summary first; files that cannot be read are left out."""
    paths = {path.stem: path for path in sorted((directory / "predictions").glob("*.jsonl"))}
    found = []
    for split in sorted(paths, key=lambda name: (list(splits).index(name) if name in splits else len(splits), name)):
        path = paths[split]
        rows = read_lines(path)
        if rows:
            found.append(
                Outputs(
                    split,
                    rows,
                    read_object(path.with_suffix(".details.json")),
                    read_object(path.with_suffix(".shown.json")),
                    metric,
                    higher_is_better,
                )
            )
    return found


def examples(outputs: Sequence[Outputs], budget: int) -> dict[str, Any]:
    """What the page carries of the examples: the worst and the longest of each split first, as many as fit.

    Args:
        outputs: of all splits.
        budget: most characters of JSON.
    """
    found: dict[str, Any] = {}
    for one in outputs:
        chosen = [row for row in one.worst_first if str(row) in one.shown] or one.worst_first
        if len(chosen) > MOST_EXAMPLES:  # an old run: the worst, and every so-many-th of the others
            half = MOST_EXAMPLES // 2
            chosen = [*chosen[:half], *chosen[half :: len(chosen[half:]) // half][:half]]
        rows, room = [], budget // len(outputs)
        for place in chosen:
            example = one.example(place)
            room -= len(to_json(example))
            if room < 0:
                break
            rows.append(example)
        found[one.split] = {
            "name": split_name(one.split),
            "n": len(one.rows),
            "drawing": one.drawing,
            "unit": str(one.details.get("length_unit") or "words"),
            "metric": metric_name(one.metric),
            "higher_is_better": one.higher_is_better,
            "rows": rows,
        }
    return found


def by_kind(outputs: Sequence[Outputs]) -> dict[str, Any] | None:
    """A chart of the kinds of errors; None where there are none."""
    total = sum((one.kinds for one in outputs), Counter[str]())
    if not total:
        return None
    names = [name for name, _ in total.most_common(_MOST_KINDS)]
    more = len(total) - len(names)
    return {
        "title": "Wrong outputs by kind of error",
        "kind": "bars",
        "x": "kind",
        "y": "outputs",
        "series": [
            {
                "name": split_name(one.split),
                "role": "",
                "points": [[name, one.kinds[name]] for name in names if one.kinds[name]],
            }
            for one in outputs
        ],
        "note": "An output can have several kinds." + (f" {more} more kinds are rarer." if more else ""),
    }


def by_length(outputs: Sequence[Outputs], formula: str) -> dict[str, Any] | None:
    """A chart of the primary metric by the length of the source, or of the outputs that are equal where the rows hold
    no counts; None where no length is recorded.

    Args:
        outputs: of all splits.
        formula: from sums of counts to the metric, as in the summary.
    """
    lengths = [
        [row["length"] if is_number(row.get("length")) and row["length"] >= 0 else None for row in one.rows]
        for one in outputs
    ]
    known = sorted(length for some in lengths for length in some if length is not None)
    if not known:
        return None
    whole = all(length == int(length) for length in known)
    step = _step(known[int(0.95 * (len(known) - 1))], whole=whole)
    names = [_bin(place, step, whole=whole) for place in range(_BINS)]
    counts = [some for one in outputs if formula and (some := _counts(one, formula)) is not None]
    name = metric_name(outputs[0].metric)
    if len(counts) < len(outputs):
        formula, counts = "mean", [[[float(same), 1.0] for same in one.equal] for one in outputs]
        name = "outputs right, % ↑"
    unit = str(outputs[0].details.get("length_unit") or "words")
    series = []
    for one, some, numbers in zip(outputs, lengths, counts, strict=True):
        bins = grouped(
            (min(_BINS - 1, max(0, math.ceil(length / step) - 1)), row)
            for length, row in zip(some, numbers, strict=True)
            if length is not None
        )
        series.append(
            {
                "name": split_name(one.split) if len(outputs) > 1 else "",
                "role": "",
                "points": [[names[place], *_figure(rows, formula), len(rows)] for place, rows in sorted(bins.items())],
            }
        )
    return {
        "title": f"By length of the source, {unit}",
        "kind": "dots",
        "x": unit,
        "y": name,
        "series": series,
        "order": names,
    }


def _bin(place: int, step: float, *, whole: bool) -> str:
    if place == _BINS - 1:
        return f"over {place * step:g}"
    first = place * step + whole
    return f"{first:g}–{(place + 1) * step:g}" if first < (place + 1) * step else f"{first:g}"


def _step(longest: float, *, whole: bool) -> float:
    """The width of a bin, a round number.

    >>> _step(17, whole=True), _step(3.1, whole=False), _step(2, whole=True)
    (4.0, 1.0, 1.0)
    """
    rough = max(longest, 1e-9) / _BINS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 4, 5, 10) if power * factor >= rough * 0.999)
    return float(max(1, math.ceil(step))) if whole else step


def _counts(one: Outputs, formula: str) -> list[list[float]] | None:
    """The counts of all rows; None if some have none, or they are not those of the formula."""
    wide = {"mean": 2, "ratio": 2, "f1": 3, "bleu": 10}.get(formula)
    rows = [
        row
        for row in (row.get("counts") for row in one.rows)
        if isinstance(row, list) and len(row) == wide and all(map(is_number, row))
    ]
    return rows if len(rows) == len(one.rows) else None


def _figure(rows: list[list[float]], formula: str) -> list[float | None]:
    """The metric over rows of counts, with its 95 % interval where there is more than one row."""
    import numpy as np

    from seq2seq_suite.metrics.significance import FORMULAS, interval

    counts = np.array(rows, dtype=float)
    if len(rows) == 1:
        return [float(FORMULAS[formula](counts)[0]), None, None]
    found = interval(counts, FORMULAS[formula], samples=_SAMPLES)
    return [found.figure, found.low, found.high]


def _labels(labels: Any) -> list[dict[str, Any]]:
    """A table of counts by label, most frequent first, from label -> (gold, predicted, matched)."""
    counts = [
        (str(label), three[0], three[1], three[2])
        for label, three in mapping(labels).items()
        if isinstance(three, list) and len(three) == 3 and all(map(is_number, three))
    ]
    counts.sort(key=lambda row: (-row[1], row[0]))
    return (
        [
            {
                "title": "By label",
                "kind": "table",
                "y": "label",
                "rows": [row[0] for row in counts],
                "columns": ["gold", "predicted", "matched", "precision", "recall", "F1"],
                "cells": [
                    [
                        gold,
                        predicted,
                        matched,
                        _percent(matched, predicted),
                        _percent(matched, gold),
                        _percent(2 * matched, gold + predicted),
                    ]
                    for _, gold, predicted, matched in counts
                ],
            }
        ]
        if counts
        else []
    )


def _categories(categories: Any) -> list[dict[str, Any]]:
    """A table of figures by category, in the given order, from category -> {figure's name: value}."""
    known = {str(name): row for name, row in mapping(categories).items() if isinstance(row, dict)}
    columns = list(dict.fromkeys(column for row in known.values() for column in row))
    return (
        [
            {
                "title": "By category",
                "kind": "table",
                "y": "category",
                "rows": list(known),
                "columns": [metric_name(str(column)) for column in columns],
                "cells": [[_cell(row.get(column)) for column in columns] for row in known.values()],
            }
        ]
        if known
        else []
    )


def _cell(value: Any) -> Any:
    return "yes" if value is True else "no" if value is False else value if is_number(value) else None


def _percent(part: float, whole: float) -> float | None:
    return 100.0 * part / whole if whole else None


def _strings(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object; empty if there is none."""
    with suppress(DataError):
        return mapping(read_json(path))
    return {}


def read_config(directory: Path) -> dict[str, Any]:
    """The configuration of a run; empty if it cannot be read."""
    import yaml

    with suppress(DataError, yaml.YAMLError, ValueError, RecursionError):
        return mapping(yaml.safe_load(read_text(directory / "config.yaml", errors="replace")))
    return {}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file with one on each line; lines that are cut short are left out."""
    with suppress(DataError):
        return [row for _, row in read_rows(path, errors="replace") if row is not None]
    return []
