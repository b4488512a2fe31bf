"""The format of a run: one number in its `config.yaml` and in the `state.json` of each checkpoint.

A user's own YAML needs no number: its keys are those of the present format.
"""

from __future__ import annotations

from functools import reduce
from operator import getitem
from typing import Any

from seq2seq_suite.types import DataError

FORMAT = 1  # increased when an older version would misread what this one writes
# (last format with the key, its dotted name, its name since then; "" if the key was removed)
RENAMED: tuple[tuple[int, str, str], ...] = ()


class FormatError(DataError):
    """A run or checkpoint has a format that this version cannot read."""


def check_format(number: Any, *, file: str) -> None:
    """Raise FormatError unless this version reads format `number`."""
    if type(number) is int and 1 <= number <= FORMAT:
        return
    if type(number) is int and number > FORMAT:
        raise FormatError(f"written by a newer seq2seq_suite: format {number}, but this version reads up to {FORMAT}",
                          file=file, remedy="upgrade: pip install --upgrade seq2seq-suite")
    raise FormatError("written by a seq2seq_suite older than 0.1.0, which can no longer be read", file=file,
                      remedy="train again")


def upgrade(given: dict[str, Any], *, file: str, of_run: bool = False) -> None:
    """Take the format number out of a configuration, and give keys of an older format their present names.

    Args:
        given: the configuration as plain data, changed in place.
        file: for messages.
        of_run: a run wrote it, so that a number is required.

    Raises:
        FormatError: this version cannot read the format.
    """
    number = given.pop("format", 0 if of_run else FORMAT)
    check_format(number, file=file)
    parts = given.get("tasks")
    for last, old, new in RENAMED:
        for part in (given, *(parts.values() if isinstance(parts, dict) else ())) if number <= last else ():
            _move(part, old, new)


def _move(part: Any, old: str, new: str) -> None:
    *sections, key = old.split(".")
    try:
        value = reduce(getitem, sections, part).pop(key)
    except (AttributeError, KeyError, TypeError):  # the part has no such key
        return
    if new:
        *sections, key = new.split(".")
        reduce(lambda section, name: section.setdefault(name, {}), sections, part)[key] = value
