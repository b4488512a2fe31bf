"""Scores files of predictions of any system against references in a task's format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Score
from seq2seq_suite.common.types import SPECIALS
from seq2seq_suite.metrics.names import numbered
from seq2seq_suite.tasks.base import Task

_UNKNOWN = re.compile("|".join(map(re.escape, ("<unk>", *SPECIALS))))  # names of specials, which no text has


def with_metrics(task: Task, score: Score, predictions: Sequence[Any | None], references: Sequence[Any]) -> Score:
    """The task's score, with the figures of the metrics that the configuration names beside its own.

    Args:
        task: with its `metrics`.
        score: its own.
        predictions: one for each example; None where it is malformed.
        references: in the same order.
    """
    if not task.metrics:
        return score
    outputs = [None if one is None else task.to_text(one) for one in predictions]
    right = list(map(task.to_text, references))
    figures = dict(score.figures)
    for metric in task.metrics:
        found = metric(outputs, right)
        for name, value in (found.figures if isinstance(found, Score) else found).items():
            figures.setdefault(name, float(value))
    return replace(score, figures=figures)


def score_files(task: Task, references: Sequence[Path], predictions: Path) -> Score:
    """The score of a file of predictions, with notes on oddities in the files.

    Blank lines at a file's end, or between trees, are left out where the other file has nothing in their place.

    Args:
        task: says what the files hold.
        references: one file, or several with further references of each output.
        predictions: in the same order.

    Raises:
        ConfigError: the task's outputs have one reference each.
        DataError: a file cannot be read, is empty or has something missing in it, or their numbers of entries differ.
    """
    if len(references) > 1 and not task.several_references:
        raise ConfigError(
            f"{len(references)} files of references, but outputs of task {task.name} have one each",
            expected="a task that writes free text, such as translation",
            remedy="leave out --reference",
        )
    notes: list[str] = []
    several: list[list[Any]] = []
    read = [task.read_references(file) for file in (*references, predictions)]
    given = read.pop()
    for file, right in zip(references, read, strict=True):
        notes += _without_blanks(right, len(given), file, task, inside=True)
        notes += [] if several else _without_blanks(given, len(right), predictions, task)
        several.append(right)
        notes += _check(task, right, given, file, predictions)
    score = with_metrics(task, task.score(given, *several), given, several[0])
    return replace(score, notes=(*notes, *score.notes))


def _check(task: Task, right: Sequence[Any], given: Sequence[Any], file: Path, predictions: Path) -> list[str]:
    """Raises DataError where the references do not fit; a note on implausible references."""
    if len(right) != len(given):
        blank = [place for place, one in enumerate(given) if _blank(one, task)]
        raise DataError(
            f"{len(given)} predictions for {len(right)} references in {file}"
            + (f"; blank are {numbered(blank)}" if blank else ""),
            file=str(predictions),
            expected=f"{len(right)} predictions, in the order of the references",
            remedy="give an output for every reference, and nothing else",
        )
    if not right:
        raise DataError("there is no reference", file=str(file), expected="at least one", remedy="fill the file")
    if None in right:
        raise DataError(
            f"reference {right.index(None) + 1} is empty, or a prediction that failed",
            file=str(file),
            expected="a right answer in each place",
            remedy="fill it in",
        )
    found = [
        (place, match.group())
        for place, text in enumerate(map(task.to_text, right))
        if (match := _UNKNOWN.search(text))
    ]
    more = f" and the like in {len(found) - 1} others" if found[1:] else ""
    return (
        [
            f"{file}: '{found[0][1]}' is in reference {found[0][0] + 1}{more}: references should be what people wrote, "
            "not decoded by a vocabulary"
        ]
        if found
        else []
    )


def _without_blanks(entries: list[Any], others: int, file: Path, task: Task, *, inside: bool = False) -> list[str]:
    """Remove blank entries that the other file, of `others` entries, has none for: at the end, or all of them.

    Returns:
        A note on what was left out.
    """
    count = len(entries)
    while len(entries) > others and _blank(entries[-1], task):
        entries.pop()
    filled = [one for one in entries if not _blank(one, task)]
    if inside and len(filled) == others:
        entries[:] = filled
    left_out = count - len(entries)
    return [f"{file}: {left_out} blank line{'s' * (left_out > 1)} left out"] if left_out else []


def _blank(entry: Any, task: Task) -> bool:
    return entry is None or not task.to_text(entry)
