"""Scores files of predictions of any system against references in a task's format."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from seq2seq_suite.tasks.base import Task
from seq2seq_suite.types import SPECIALS, DataError, Score

_UNKNOWN = re.compile("|".join(map(re.escape, ("<unk>", *SPECIALS))))  # names of specials, which no text has


def score_files(task: Task, references: Path, predictions: Path) -> Score:
    """The score of a file of predictions, with notes on what is odd in the files.

    Raises:
        DataError: a file cannot be read, is empty or has something missing in it, or their numbers of entries differ.
    """
    right, given = task.read_references(references), task.read_references(predictions)
    if len(right) != len(given):
        raise DataError(f"{len(given)} predictions for {len(right)} references in {references}", file=str(predictions),
                        expected=f"{len(right)} predictions, in the order of the references",
                        remedy="give an output for every reference, and nothing else")
    if not right:
        raise DataError("there is no reference", file=str(references), expected="at least one", remedy="fill the file")
    if None in right:
        raise DataError(f"reference {right.index(None) + 1} is empty, or a prediction that failed",
                        file=str(references), expected="a right answer in each place", remedy="fill it in")
    found = [(number, match.group()) for number, text in enumerate(map(task.to_text, right), 1)
             if (match := _UNKNOWN.search(text))]
    warning = f"{references}: '{found[0][1]}' is in reference {found[0][0]}" \
              f"{f' and the like in {len(found) - 1} others' if found[1:] else ''}: references should be what people " \
              "wrote, not decoded by a vocabulary" if found else ""
    score = task.score(given, right)
    return replace(score, notes=(*filter(None, [warning]), *score.notes))
