"""What the page of a comparison says, from the rows and pairs of a comparison and the files of its runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import truncate
from seq2seq_suite.common.files import to_json
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.metrics.names import metric_name
from seq2seq_suite.metrics.significance import scale_of, t_interval
from seq2seq_suite.report.curves import curve
from seq2seq_suite.report.outputs import Outputs, read_lines, read_outputs
from seq2seq_suite.report.variants import Row, by_names, by_task, is_apart, units
from seq2seq_suite.terminal.tables import NONE, chance, span

MOST_LINES, MOST_COLUMNS = 6, 12  # runs in one chart of lines; side by side in a table
_AS_TRAINED = {("search.block", "0"): "as trained"}  # values that name themselves badly
_MOST_EXAMPLES, _MOST_OUTPUTS, _ROOM = 6, 4, 1_500_000  # of a task; of an example; characters of JSON for all
_PARTS = {
    "encoder": "encoder",
    "decoder": "decoder",
    "frontend": "front-end",
    "embedding": "embeddings",
    "output": "output",
}


def figures(rows: Sequence[Row], pairs: Sequence[Row], grouped: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """A chart of each task's runs, the best first: figures with their intervals, on an axis of their own.

    Bold: the best run and those not significantly worse, if any run or variant is significantly worse.
    """
    tested, found, compared = by_names(pairs), [], units(rows, grouped)
    for task, some in by_task(rows).items():
        first, *others = compared[task]
        behind = {name for name in others if is_apart(tested.get(frozenset((first, name))))}
        level = {name for name in others if frozenset((first, name)) in tested} - behind | {first}
        found.append(
            {
                "kind": "dots",
                "flat": True,
                "figures": True,
                "title": task.replace("_", " "),
                "x": "run",
                "y": metric_name(some[0]["metric"]),
                "least": float(some[0].get("higher_is_better", True)),
                "bold": sorted({row["run"] for name in level if behind for row in compared[task][name]}),
                "series": [
                    {
                        "name": "",
                        "role": "s1",
                        "points": [
                            [row["run"], *(_known(row[key]) for key in ("figure", "low", "high"))] for row in some
                        ],
                    }
                ],
            }
        )
    return found


def curves(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The primary metric on validation of each task's best runs, over the course of their training."""
    found = []
    for task, some in by_task(rows).items():
        series = [
            {"name": row["run"], "points": curve(_metrics(row), "validation", key)}
            for row in some[:MOST_LINES]
            for key in [
                next(
                    (
                        key
                        for key in (row["metric"], f"{Path(row['directory']).name}/{row['metric']}")
                        if curve(_metrics(row), "validation", key)
                    ),
                    row["metric"],
                )
            ]
        ]
        found.append(
            {
                "task": task,
                "metric": metric_name(some[0]["metric"]),
                "left_out": len(some[MOST_LINES:]),
                "series": [one for one in series if one["points"]],
            }
        )
    return found


def times(rows: Sequence[Row], given: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Quality against passes through the decoder and against the time for one input, a series for each run.

    Times are those that `compare` measured, or without any those of `evaluate`. Passes are drawn where two rows differ.
    """
    found = []
    for task, some in by_task(rows).items():
        timed = [row for row in some if row["latency_ms"] == row["latency_ms"]]
        passed = [row for row in some if _known(row.get("passes_per_symbol")) is not None]
        differ = len({row["passes_per_symbol"] for row in passed}) > 1
        recorded = [row for row in passed if differ and not timed]
        found.append(
            {
                "task": task,
                "untimed": len(some) - len(timed),
                "passes": _plane(passed, given, "passes_per_symbol", "passes for each symbol ↓") if differ else None,
                "quality": _plane(timed, given, "latency_ms", "milliseconds for one input ↓")
                or _plane(recorded, given, "milliseconds", "milliseconds a sentence, as recorded ↓"),
                "rate": {
                    "kind": "bars",
                    "title": "Outputs a second, in batches of 64",
                    "x": "run",
                    "y": "",
                    "series": [
                        {
                            "name": "",
                            "role": "s5",
                            "points": [[row["run"], row["sentences_per_second"]] for row in timed],
                        }
                    ],
                },
            }
        )
    return found


def _plane(rows: Sequence[Row], given: Mapping[str, Mapping[str, str]], key: str, x: str) -> dict[str, Any] | None:
    """Quality against what `key` has; points of a run that was decoded in several ways say how."""
    if not rows:
        return None
    series, notes = [], []
    for run, some in grouped((row["run"].partition("@")[0], row) for row in rows).items():
        searches = [{name: one for name, one in given.get(row["run"], {}).items() if "search." in name} for row in some]
        keys = [name for name in searches[0] if len({one.get(name) for one in searches}) > 1]
        notes += [(run, " · ".join(name.removeprefix("search.") for name in keys))] if keys else []
        points = [
            [
                row[key],
                row["figure"],
                _known(row["low"]),
                _known(row["high"]),
                None,
                " · ".join(_AS_TRAINED.get((name, one[name]), one[name]) for name in keys if name in one)
                if "@" in row["run"]
                else "as run" * bool(keys),
            ]
            for row, one in zip(some, searches, strict=True)
        ]
        series.append({"name": run, "points": sorted(points, key=lambda point: point[0])})
    alike = len({said for _, said in notes}) == 1
    values = notes[0][1] if alike else "; ".join(f"{run}: {said}" for run, said in notes)
    return {
        "kind": "scatter",
        "x": x,
        "logX": "milliseconds" in x,
        "y": metric_name(rows[0]["metric"]),
        "series": series,
        "levels": [[name, rows[0][name]] for name in ("baseline", "ceiling") if _known(rows[0].get(name)) is not None],
        "title": "",
        "note": f"At the points, values of the search: {values}." if notes else "",
    }


def parameters(grouped: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """Weights by part, in millions: the core that tasks can share first."""
    parts = {name: _parts(some[0]) for name, some in grouped.items() if some[0]["updates"]}
    names = [name for name in (*dict.fromkeys(_PARTS.values()), "heads") if any(name in one for one in parts.values())]
    roles = {"encoder": "shared", "decoder": "s1", "front-end": "s2", "embeddings": "s4", "output": "s6", "heads": "s5"}
    return {
        "kind": "bars",
        "title": "",
        "stacked": True,
        "x": "run",
        "y": "million weights",
        "series": [
            {
                "name": name,
                "role": roles[name],
                "points": [[run, one[name] / 1e6] for run, one in parts.items() if one.get(name)],
            }
            for name in names
        ],
    }


def _parts(row: Row) -> dict[str, int]:
    """Weights by part; without a checkpoint those of the core and all others."""
    from safetensors import SafetensorError, safe_open

    file = Path(row["directory"]) / "checkpoints" / "best" / "model.safetensors"
    found: dict[str, int] = {}
    try:
        with safe_open(file, framework="np") as weights:
            for name in weights.keys():  # noqa: SIM118 (no mapping)
                part = _PARTS.get(name.removeprefix("model.").partition(".")[0], "heads")
                found[part] = found.get(part, 0) + math.prod(weights.get_slice(name).get_shape())
    except (OSError, SafetensorError):
        return {"encoder": row["core_parameters"], "heads": row["own_parameters"]}
    return found


def differences(given: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The keys whose values are not the same in all runs; apart those that only some runs have.

    >>> found = differences({"a": {"x": "1", "y": "2", "z": "0"}, "b": {"x": "1", "y": "3"}})
    >>> found["rows"], found["some"] == [("z", "0", NONE)], found["equal"]
    ([('y', '2', '3')], True, 1)
    """
    runs = list(given)[:MOST_COLUMNS]
    keys = list(dict.fromkeys(key for run in runs for key in given[run]))
    by_key = [(key, [given[run].get(key) for run in runs]) for key in keys]
    unlike = [
        (key, *(NONE if value is None else truncate(value) for value in values))
        for key, values in by_key
        if len(set(values)) > 1
    ]
    partly = {key for key, values in by_key if None in values}
    return {
        "runs": runs,
        "left_out": len(given) - len(runs),
        "equal": len(keys) - len(unlike),
        "rows": [row for row in unlike if row[0] not in partly],
        "some": [row for row in unlike if row[0] in partly],
    }


def seeds(grouped: Mapping[str, Sequence[Row]]) -> list[tuple[str, ...]]:
    """Mean and Student's 95 % interval of the figures of runs that differ in their seed alone."""
    found = []
    for name, some in grouped.items():
        if len(some) > 1:
            values = [row["figure"] for row in some]
            scale = scale_of(values, higher_is_better=some[0].get("higher_is_better", True))
            found.append(
                (
                    name,
                    some[0]["task"],
                    metric_name(some[0]["metric"]),
                    ", ".join(str(row["seed"]) for row in some),
                    f"{statistics.fmean(values):.2f}",
                    span(*t_interval(values, scale)),
                )
            )
    return found


def sharing(rows: Sequence[Row]) -> dict[str, Any] | None:
    """What each task gains by being trained with others: joint minus alone, runs paired by task and seed."""
    joint = {(row["task"], row["seed"]): row for row in rows if Path(row["directory"]).parent.name == "tasks"}
    alone = {(row["task"], row["seed"]): row for row in rows if Path(row["directory"]).parent.name != "tasks"}
    gains: dict[str, list[float]] = {}
    for key in joint.keys() & alone.keys():
        sign = 1.0 if joint[key].get("higher_is_better", True) else -1.0
        gains.setdefault(key[0], []).append(sign * (joint[key]["figure"] - alone[key]["figure"]))
    points = [
        [task, statistics.fmean(some), *(_known(end) for end in t_interval(some)), len(some)]
        for task, some in sorted(gains.items(), key=lambda one: -statistics.fmean(one[1]))
    ]
    return (
        {
            "kind": "dots",
            "title": "",
            "x": "task",
            "y": "points gained by training together",
            "series": [{"name": "", "role": "shared", "points": points}],
            "joined": False,
        }
        if points
        else None
    )


def tests(rows: Sequence[Row], pairs: Sequence[Row], grouped: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """Row minus column for each task: the difference and what the test says of it, None where it was not tested."""
    tested, found = by_names(pairs), []
    for task, of_task in units(rows, grouped).items():
        names, some = list(of_task), next(iter(of_task.values()))
        columns = names if len(names) <= MOST_COLUMNS else names[:1]
        cells = [[_cell(tested.get(frozenset((name, column))), name) for column in columns] for name in names]
        if any(cell for line in cells for cell in line):
            found.append(
                {
                    "task": task,
                    "metric": metric_name(some[0]["metric"]),
                    "rows": names,
                    "columns": columns,
                    "cells": cells,
                }
            )
    return found


def _cell(pair: Row | None, name: str) -> tuple[float, str, str] | None:
    """A pair as its member of that name sees it."""
    if pair is None or pair["first"] == pair["second"]:
        return None
    turned, verdict = pair["first"] == name, str(pair["verdict"])
    return (
        -pair["difference"] if turned else pair["difference"],
        {"better": "worse", "worse": "better"}.get(verdict, verdict) if turned else verdict,
        f"p {chance(pair['holm_p'])}, {pair['test']}",
    )


def disagreements(rows: Sequence[Row]) -> tuple[list[dict[str, Any]], list[str]]:
    """Examples of each task on which its runs disagree most, and the drawings that they need."""
    found, names, room = [], [], _ROOM
    for task, some in by_task(rows).items():
        outputs = [
            (row["run"], one)
            for row in some[:_MOST_OUTPUTS]
            for one in read_outputs(
                Path(row["directory"]),
                [row["split"]],
                row["metric"],
                higher_is_better=row.get("higher_is_better", True),
            )
            if one.split == row["split"]
        ]
        if len(outputs) < 2:
            continue
        examples = []
        for place in _unlike([one for _, one in outputs]):
            texts = _alike([{"run": run, **one.example(place)} for run, one in outputs])
            room -= len(to_json(texts))
            if room < 0:
                break
            examples.append(texts)
        if examples:
            names.append(outputs[0][1].drawing)
            found.append(
                {
                    "task": task,
                    "drawing": outputs[0][1].drawing,
                    "metric": metric_name(some[0]["metric"]),
                    "unit": str(outputs[0][1].details.get("length_unit") or "words"),
                    "examples": examples,
                }
            )
    return found, names


def _alike(outputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for runs that wrote the same, under all their names."""
    found: dict[str, dict[str, Any]] = {}
    for one in outputs:
        first = found.setdefault(to_json(one["prediction"]), one)
        if first is not one:
            first["run"] += f", {one['run']}"
    return list(found.values())


def _unlike(outputs: Sequence[Outputs]) -> list[int]:
    """Rows that all have, of which some outputs are right and others wrong; then those whose figures are far apart."""
    first = outputs[0].rows
    joined = [
        place
        for place in range(min(len(one.rows) for one in outputs))
        if all(one.rows[place].get("source") == first[place].get("source") for one in outputs)
    ]

    def apart(place: int) -> tuple[bool, float]:
        some = [one.figure(place) for one in outputs]
        known = [figure for figure in some if figure is not None]
        return len({one.equal[place] for one in outputs}) > 1, max(known, default=0.0) - min(known, default=0.0)

    with_drawing = [place for place in joined if all(str(place) in one.shown for one in outputs)] or joined
    ranked = sorted(with_drawing, key=lambda place: (*apart(place), -place), reverse=True)
    return [place for place in ranked[:_MOST_EXAMPLES] if apart(place) > (False, 0.0)]


def _metrics(row: Row) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl; a joint run's task has them in the whole run's directory."""
    directory = Path(row["directory"])
    return read_lines(directory / "metrics.jsonl") or read_lines(directory.parent.parent / "metrics.jsonl")


def _known(value: float | None) -> float | None:
    return value if value == value else None
