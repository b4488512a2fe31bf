"""Labels in users' formats: lists of names or numbers, or text with commas; and sets of labels on one line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from seq2seq_suite.common.errors import DataError, repr_short
from seq2seq_suite.common.files import read_lines
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.printed import BEGINNINGS, read_printed
from seq2seq_suite.data.sources import local
from seq2seq_suite.tasks.rows import value_in

FILE = "labels.txt"
INVALID = "(invalid)"
_DIGITS = 10  # most digits of a label's number


def read_names(path: str, subset: str = "") -> tuple[str, ...]:
    """The names in the `labels.txt` of a local data set, one a line in the order of their numbers; empty without it."""
    place = local(path, subset)
    folders = (place / subset, place) if place.is_dir() else (place.parent,) if place.is_file() else ()
    for folder in folders:
        if (folder / FILE).is_file():
            return tuple(line.strip() for line in read_lines(folder / FILE) if line.strip())
    return ()


def read_labels(row: Row, names: tuple[str, ...], column: str = "labels", *, allow_empty: bool) -> tuple[str, ...]:
    """The labels of a row.

    Args:
        row: with the column: a list of names or numbers, printed or not, or text of either with commas between, or
            else with semicolons or `|`.
        names: of the data set, by number; empty if there are none, and numbers then are names themselves.
        column: its name.
        allow_empty: whether a row may have no label.

    Raises:
        DataError: no such column, a value of another kind, an unknown label, a repeated one, or none.

    >>> read_labels(Row({"labels": [1, 0]}, "train.jsonl", 1), ("joy", "fear"), allow_empty=False)
    ('fear', 'joy')
    >>> read_labels(Row({"labels": 'joy, "fear, or dread"'}, "train.csv", 2), (), allow_empty=False)
    ('joy', 'fear, or dread')
    >>> read_labels(Row({"labels": "[0 1]"}, "train.csv", 2), ("joy", "fear"), allow_empty=False)
    ('joy', 'fear')
    """
    place = row.place
    value = value_in(row, column, "multilabel.labels_column")
    if isinstance(value, str):
        value = [value] if value.strip() in names else _split(value, place)
    if not isinstance(value, list | tuple):
        raise DataError(
            f"labels are {repr_short(value)}",
            **place,
            expected="a list of names or numbers",
            remedy="write a list, also for a single label",
        )
    labels = tuple(_name(one, names, place) for one in value)
    if len(set(labels)) < len(labels):
        raise DataError(
            f"a label is given twice: {repr_short(to_line(labels))}",
            **place,
            expected="each label once",
            remedy="remove the repetition",
        )
    if not labels and not allow_empty:
        raise DataError(
            "the text has no label",
            **place,
            expected="at least one label",
            remedy="set multilabel.allow_empty=true if texts may have no label",
        )
    return labels


def _name(value: Any, names: tuple[str, ...], place: dict[str, Any]) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if text in names if names else text and not set(text) & set("\r\n"):
        return text
    number = int(text) if text.isdecimal() and len(text) < _DIGITS else value
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        if not names:
            return str(number)
        if number < len(names):
            return names[number]
    near = get_close_matches(repr_short(value), names, n=1)
    raise DataError(
        f"unknown label {repr_short(value)}",
        **place,
        expected=f"a name in {FILE} or a number below {len(names)}" if names else "a name or a number",
        remedy=f"did you mean {near[0]}?" if near else f"correct the row, or add the name to {FILE}",
    )


def _split(text: str, place: dict[str, Any]) -> list[Any]:
    """The labels in a text: of a printed list its items, otherwise what commas separate, or else semicolons or `|`.

    >>> _split("joy;fear", {}), _split("joy | fear", {}), _split('"joy;fear"', {}), _split('["joy"]', {})
    (['joy', 'fear'], ['joy', 'fear'], ['joy;fear'], ['joy'])
    """
    text = text.strip()
    if text[:1] in ("[", "{", "("):
        try:
            return read_printed(text)
        except ValueError:
            if text[-1] in "]}" or text.startswith(BEGINNINGS):
                raise DataError(
                    f"the labels {repr_short(text)} begin as a list that cannot be read",
                    **place,
                    expected="names with commas between, or a printed list as a whole, its names in quotes",
                    remedy="write the labels with commas between, or the rows as .jsonl",
                ) from None
    unquoted = [sign for sign in ",;|" if sign in re.sub(r'"[^"]*"', "", text)]
    if len(unquoted) > 1:
        raise DataError(
            f"labels with {' and '.join(map(repr, unquoted))} between: {repr_short(text)}",
            **place,
            expected="one sign between all labels",
            remedy='write commas between labels, and a label with such a sign in quotes, as in "a;b", c',
        )
    return from_line(text, **place, between=unquoted[0] if unquoted else ",")


def to_line(labels: Iterable[str]) -> str:
    """Labels with commas between, those with a comma of their own in quotes.

    >>> to_line(["class 9", "class 7", "a, b"])
    'class 9, class 7, "a, b"'
    """
    return ", ".join('"' + label.replace('"', '""') + '"' if set(label) & {",", '"'} else label for label in labels)


def from_line(text: str, *, file: str = "", line: int = 0, between: str = ",") -> list[str]:
    """The inverse of `to_line`, perhaps with another sign between; raises DataError for what is no such text.

    >>> from_line('class 9, class 7, "a, b"'), from_line("")
    (['class 9', 'class 7', 'a, b'], [])
    """
    try:
        cells = next(csv.reader([text.strip()], skipinitialspace=True, delimiter=between), [])
    except csv.Error as problem:  # a label of more than 128 KB, or an end of a line in the middle
        raise DataError(
            f"no labels: {problem}",
            file=file,
            line=line,
            expected="labels with commas between",
            remedy="correct the line",
        ) from None
    return [cell.strip() for cell in cells if cell.strip()]
