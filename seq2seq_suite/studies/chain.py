"""Variants of a study that begin from another one's run, or learn from its outputs; and searches of finished runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.config import config_file
from seq2seq_suite.experiments import distill, verbs
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.report.run import write_report
from seq2seq_suite.runs.records import read_summary
from seq2seq_suite.studies.sweep import combinations

UPDATES = "training.max_updates"
_NAMED, _SHARE = re.compile(r"\{([^{}]*)\}"), re.compile(r"[1-9]\d*/[1-9]\d*")


def named(changes: Mapping[str, Any]) -> list[str]:
    """The names in braces in the values of some settings.

    >>> named({"init_from": "{teacher}", "strategy.block": 4})
    ['teacher']
    """
    return [name for value in changes.values() if isinstance(value, str) for name in _NAMED.findall(value)]


def filled(changes: Mapping[str, Any], places: Mapping[str, Path], updates: int) -> dict[str, Any]:
    """Settings with a directory for each name in braces, and of `updates` the share that `training.max_updates` names.

    >>> filled({"init_from": "{teacher}", "training.max_updates": "1/2"}, {"teacher": Path("runs/t-1")}, 1200)
    {'init_from': 'runs/t-1', 'training.max_updates': 600}
    """
    found = {
        key: _NAMED.sub(lambda one: str(places[one[1]]), value) if isinstance(value, str) else value
        for key, value in changes.items()
    }
    if isinstance(share := changes.get(UPDATES), str) and _SHARE.fullmatch(share):
        found[UPDATES] = max(1, int(Fraction(share) * updates))
    return found


def stages(variants: Mapping[str, Mapping[str, Any]], distilled: Mapping[str, str], *, file: str) -> list[list[str]]:
    """The variants in an order in which they can run: those of a stage need runs of the stages before it alone.

    Raises:
        ConfigError: a name is of no variant, of two, or of one that needs this one first.

    >>> stages({"b": {"init_from": "{a}"}, "a": {}, "c": {"data.path": "{d}"}}, {"d": "a"}, file="s.yaml")
    [['a'], ['b', 'c']]
    """
    choices = f"one of {', '.join([*variants, *distilled])}"
    if twice := variants.keys() & distilled.keys():
        raise ConfigError(f"distilled.{min(twice)}: a variant has that name", file=file, expected="another name")
    for name, source in distilled.items():
        if source not in variants:
            raise ConfigError(
                f"distilled.{name}: there is no variant '{source}'",
                file=file,
                expected=f"one of {', '.join(variants)}",
            )
    needs: dict[str, set[str]] = {}
    for name, changes in variants.items():
        for other in named(changes):
            if other not in variants and other not in distilled:
                raise ConfigError(f"variant '{name}': there is no variant '{other}'", file=file, expected=choices)
        needs[name] = {distilled.get(other, other) for other in named(changes)}
    found, left = [], list(variants)
    while left:
        ready = [name for name in left if needs[name].isdisjoint(left)]
        if not ready:
            raise ConfigError(
                f"variant '{left[0]}' begins from one that needs it first",
                file=file,
                expected="an order without circles",
            )
        found.append(ready)
        left = [name for name in left if name not in ready]
    return found


def write_outputs(directory: Path, folder: Path) -> None:
    """The training data with a run's outputs as targets, unless they are there; an interrupted call begins anew."""
    if distill.is_distilled(str(folder)):
        return
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{folder}: outputs of {directory}", flush=True)
    distill.distill(open_run(directory, []), directory, folder, command=["distill", str(directory)])


def combined(searches: Sequence[str]) -> list[tuple[str, ...]]:
    """The overrides of every combination of each of a study's searches."""
    return [one for settings in searches for one in combinations(settings.split())]


def taken(searches: Sequence[str], yaml: Path, own: Sequence[str], *, name: str) -> list[tuple[str, ...]]:
    """Those of a study's searches that a variant takes; says how many it does not take, and why of the first."""
    why = {one: why_not(yaml, [*own, *one]) for one in combined(searches)}
    if refused := [one for one in why if why[one]]:
        print(
            f"{yaml.stem}, {name}: {len(refused)} of {len(why)} searches are left out, such as "
            f"{why[refused[0]].splitlines()[0].partition(': ')[2]}",  # behind "command line"
            flush=True,
        )
    return [one for one in why if not why[one]]


def why_not(yaml: Path, overrides: Sequence[str]) -> str:
    """Why a configuration is refused; empty if it is not."""
    try:
        config_file.load(yaml, overrides, own=True)
    except ConfigError as error:
        return str(error)
    return ""


def evaluate(directory: Path, searches: Sequence[Sequence[str]], split: str) -> dict[str, str]:
    """Decode and score what a run has not been evaluated with: rows of its summary, each with its search in short.

    A search whose outputs are those of the run's own has no row of its own.
    """
    rows = {name: one for one in searches if (name := verbs.row_name(directory, split, one)) != split}
    missing = [one for name, one in rows.items() if name not in read_summary(directory).failures]
    for one in missing:
        print(f"{directory.name}: evaluate {' '.join(one)}", flush=True)
        verbs.evaluate(directory, split=split, data=None, overrides=list(one), shown=False)
    if missing:
        write_report(directory)
    return {name: " ".join(one).replace("search.", "") for name, one in rows.items()}
