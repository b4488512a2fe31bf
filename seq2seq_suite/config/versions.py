"""The format of a run: one number in its `config.yaml` and in the `state.json` of each checkpoint.

A user's own YAML needs no number: its keys are those of the present format.
"""

from __future__ import annotations

from functools import reduce
from operator import getitem
from typing import Any

from seq2seq_suite.common.errors import ConfigError, DataError, truncate

FORMAT = 1  # increased when an older version would misread what this one writes
# (last format with the key, its dotted name, its name since then; "" if the key was removed)
RENAMED: tuple[tuple[int, str, str], ...] = ()
# Keys that are gone, and the value that the code now has for each: a configuration may still say so.
FIXED = {
    "parsing.max_unary": 3,
    "strategy.end_weight": 0.1,
    "strategy.link_heads": 4,
    "asr.composed_parts": (3, 7),
    "multilabel.threshold": 0.5,
    "multilabel.tune_threshold": True,
    "multilabel.lower_case": True,
    "multilabel.max_characters": 20,
    "search.lookahead": True,
}

# What runs did before there was a key whose default is something else.
BEFORE = {("data", "unicode"): "none"}


class FormatError(DataError):
    """A run or checkpoint has a format that this version cannot read."""


def check_format(number: Any, *, file: str) -> None:
    """Raise FormatError unless this version reads format `number`."""
    whole = type(number) is int
    if whole and number > FORMAT:
        raise FormatError(
            f"written by a newer seq2seq_suite: format {number}, but this version reads up to {FORMAT}",
            file=file,
            remedy="upgrade: pip install --upgrade seq2seq-suite",
        )
    if not whole or number < 1:
        raise FormatError(
            "written by a seq2seq_suite older than 0.1.0, which can no longer be read", file=file, remedy="train again"
        )


def upgrade(given: dict[str, Any], *, file: str, of_run: bool = False) -> None:
    """Remove the format number and obsolete keys from a configuration; rename keys of older formats.

    Args:
        given: the configuration as plain data, changed in place.
        file: for messages.
        of_run: a run wrote it, so that a number is required.

    Raises:
        FormatError: this version cannot read the format.
        ConfigError: a key that is gone has another value than the code.
    """
    number = given.pop("format", 0 if of_run else FORMAT)
    check_format(number, file=file)
    parts = given.get("tasks")
    for part in (parts.values() if isinstance(parts, dict) and parts else (given,)) if of_run else ():
        for (section, key), value in BEFORE.items():
            if isinstance(part, dict) and isinstance(part.setdefault(section, {}), dict):
                part[section].setdefault(key, value)
    for part in (given, *(parts.values() if isinstance(parts, dict) else ())):
        for last, old, new in RENAMED:
            if number <= last and (value := _taken(part, old)) is not None and new:
                *sections, key = new.split(".")
                reduce(lambda section, name: section.setdefault(name, {}), sections, part)[key] = value
        for key, only in FIXED.items():
            if (value := _taken(part, key)) not in (None, only):
                raise ConfigError(
                    f"{key} {truncate(str(value))}: this key is gone",
                    file=file,
                    expected=f"what the code does now: {only}",
                    remedy="remove it, or use seq2seq_suite 0.1.0",
                )


def _taken(part: Any, dotted: str) -> Any:
    """The value of a key, which is removed; None where there is none."""
    *sections, key = dotted.split(".")
    try:
        return reduce(getitem, sections, part).pop(key)
    except (AttributeError, KeyError, TypeError):
        return None
