"""Which runs of a comparison belong together, and which are tested against each other."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from seq2seq_suite.common.groups import grouped
from seq2seq_suite.report.outputs import read_config, read_object
from seq2seq_suite.terminal.tables import mapping

Row = Mapping[str, Any]

_NOT_SETTINGS = ("seed", "format", "search.batch_sentences")  # which changes no output


def by_task(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each task, the best first."""
    return {
        task: sorted(some, key=lambda row: -row["figure"] if row.get("higher_is_better", True) else row["figure"])
        for task, some in grouped((row["task"], row) for row in rows).items()
    }


def groups(rows: Sequence[Row], given: Mapping[str, Mapping[str, str]]) -> dict[str, list[Row]]:
    """Runs that differ in nothing but their seed, under the name that they share.

    >>> rows = [{"run": name, "task": "qa", "seed": seed} for seed, name in enumerate(["rope-1", "rope-2", "wide"])]
    >>> [(name, len(some)) for name, some in groups(rows, {row["run"]: {"x": row["run"][0]} for row in rows}).items()]
    [('rope', 2), ('wide', 1)]
    """
    alike = grouped(
        ((row["task"], tuple(sorted(given.get(row["run"], {}).items())) or row["run"]), row) for row in rows
    )
    found: dict[str, list[Row]] = {}
    for some in alike.values():
        names = [row["run"] for row in some]
        if len({row["seed"] for row in some}) < len(some):  # the same work twice is no second seed
            found |= {name: [row] for name, row in zip(names, some, strict=True)}
            continue
        name = _shared_name(names)
        found[name if name and name not in found else f"{names[0]} and {len(names) - 1} more"] = some
    return found


def _shared_name(names: Sequence[str]) -> str:
    """The names without their seed, if they agree then, else what all begin with; of one name all of it.

    >>> _shared_name(["seed=1-kind=ctc", "seed=2-kind=ctc"]), _shared_name(["wide-seed1", "wide-seed2"])
    ('kind=ctc', 'wide')
    """
    without = {re.sub(r"(^|[-_.])seed[=_-]?\d+(?=[-_.]|$)", "", name).lstrip("-_.") for name in names}
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    beginning = "".join(letters[0] for letters in same).rstrip("-_./ ")
    return names[0] if len(names) == 1 else without.pop() if len(without) == 1 else beginning


def units(rows: Sequence[Row], grouped: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, list[Row]]]:
    """What is compared of each task, that of the best mean first, with its rows.

    Variants that share two seeds or more, each with its runs of those seeds in their order; else single runs.
    """
    found = {}
    for task, some in by_task(rows).items():
        variants = {
            name: {row["seed"]: row for row in runs} for name, runs in grouped.items() if runs[0]["task"] == task
        }
        seeds = sorted(set.intersection(*map(set, variants.values())))
        alike = len(variants) > 1 and len(seeds) > 1
        of_task = (
            {name: [of_seed[seed] for seed in seeds] for name, of_seed in variants.items()}
            if alike
            else {row["run"]: [row] for row in some}
        )
        found[task] = dict(
            sorted(of_task.items(), key=lambda one: mean(one[1]), reverse=some[0].get("higher_is_better", True))
        )
    return found


def mean(rows: Sequence[Row]) -> float:
    """Of their figures."""
    return statistics.fmean(row["figure"] for row in rows)


def by_names(pairs: Sequence[Row]) -> dict[frozenset[str], Row]:
    """Each tested pair by its two names."""
    return {frozenset((pair["first"], pair["second"])): pair for pair in pairs}


def is_apart(pair: Row | None) -> bool:
    """Whether a test shows the two to differ."""
    return pair is not None and pair["verdict"] in ("better", "worse")


def settings(rows: Sequence[Row]) -> dict[str, dict[str, str]]:
    """Of each run its keys and their values, nested keys with dots, without seed.

    Keys of the search are those by which its split was decoded, which `evaluate` may have changed.
    """
    found = {}
    for row in rows:
        directory = Path(row["directory"])
        config = read_config(directory)
        searched = mapping(mapping(read_object(directory / "summary.json").get("search")).get(row["split"]))
        config |= {"search": mapping(config.get("search")) | searched}
        found[row["run"]] = {key: value for key, value in _flat(config) if key not in _NOT_SETTINGS}
    return found


def _flat(section: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in section.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, default=str)
