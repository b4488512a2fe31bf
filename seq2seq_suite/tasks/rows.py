"""Reads examples from rows, or from a user's line, for all tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from seq2seq_suite.common.errors import DataError, repr_short, truncate
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.common.text import composed
from seq2seq_suite.data.lines import BadRows, NoColumn, Row
from seq2seq_suite.data.printed import unprinted
from seq2seq_suite.data.sources import EMBEDDED, divided, files_of, is_one_file, read_rows, splits_of_embedded
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.miniworld import Miniworld

_SHOWN = 3  # places of a remark
_FILES = ("audio", "image", "file_name")  # columns with names of files, which stay as they are on the disk
_LONGEST_NAME = 4096  # characters of a path

Medium = TypeVar("Medium")


def open_split(
    data: Data,
    split: str,
    bad: BadRows,
    *,
    view: str,
    languages: tuple[str, str] | None = None,
    world: Miniworld | None = None,
) -> Iterator[Row]:
    """The rows of a split of `data.path`, or its share of train's.

    Args:
        data: the configuration's `data`.
        split: our name of the split.
        bad: collects broken rows.
        view: what a task sees of the embedded data if `data.subset` is empty.
        languages: of parallel text, which may be in a file for each.
        world: which of the embedded data, None for the plain ones.
    """
    subset = data.subset or (view if data.path == EMBEDDED else "")
    source = _source_of(data, split)
    rows = read_rows(
        data.path,
        source,
        splits=data.splits,
        subset=subset,
        format=data.format,
        languages=languages,
        size=data.size if source == "train" else 0,
        bad=bad,
        world=None if world is None else world.knobs(),
    )
    rows = in_form(data, split, bad, rows)
    return divided(rows, split, data.split, bad) if _is_cut(data, split) else rows


def in_form(data: Data, split: str, bad: BadRows, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows with their texts in the form of `data.unicode`; `bad` takes a note of how many had another one."""
    total = changed = 0
    for row in rows:
        fields = row.fields
        if data.unicode == "nfc":
            fields = {
                key: value if name in _FILES else composed(value)
                for name, value in fields.items()
                for key in (name, composed(name))
            }  # a key may name a column in either form
        total, changed = total + 1, changed + (fields != row.fields)
        yield row if fields == row.fields else replace(row, fields=fields)
    if changed:
        bad.notes.append(
            f"{split}: {changed:,} of {total:,} rows are changed to Unicode's composed form (data.unicode)"
        )


def local_files(data: Data, split: str, languages: tuple[str, str] | None = None) -> list[Path]:
    """The files that `open_split` reads; none of the embedded data and of the Hub's."""
    return (
        []
        if data.path == EMBEDDED
        else files_of(
            data.path,
            _source_of(data, split),
            splits=data.splits,
            subset=data.subset,
            format=data.format,
            languages=languages,
        )
    )


def other_data(data: Data, path: str, split: str, languages: tuple[str, str] | None = None) -> Data:
    """The same with another path, for one split: a single file is that split as a whole."""
    whole = {"splits": {split: "train"}} if is_one_file(path, data.subset, languages) else {}
    return data.model_copy(update={"path": path, "split": {}, **whole})


def splits_elsewhere(data: Data, languages: tuple[str, str] | None = None) -> list[str]:
    """The test splits that the embedded data have and `data.path`, which is another, has not."""

    def is_there(split: str) -> bool:
        try:
            return split in data.split or split in data.splits or bool(local_files(data, split, languages))
        except DataError:
            return False

    foreign = splits_of_embedded() - {"train", "validation", "test"} if data.path != EMBEDDED else set()
    return [split for split in data.test_splits if split in foreign and not is_there(split)]


def _is_cut(data: Data, split: str) -> bool:
    """Whether a split is a share of train's rows."""
    return bool(data.split) and (split == "train" or split in data.split)


def _source_of(data: Data, split: str) -> str:
    return "train" if _is_cut(data, split) else split


def place_of(origin: str) -> dict[str, Any]:
    """An example's origin as arguments of a DataError.

    >>> place_of("questions.txt:7"), place_of("")
    ({'file': 'questions.txt', 'line': 7}, {'file': '', 'line': 0})
    """
    file, _, line = origin.rpartition(":")
    return {"file": file or origin, "line": int(line) if line.isdigit() else 0}


def remarks_of(split: str, item: str, examples: Sequence[Example]) -> list[str]:
    """A line for each kind of remark about the examples of a split: how many have it, and the first few.

    >>> remarks_of("train", "picture", [Example(0, origin="a:1", remarks=("one colour",)), Example(0)])
    ['train: one colour in 1 of 2 pictures: a:1']
    """
    places = grouped((remark, example.origin) for example in examples for remark in example.remarks)
    return [
        f"{split}: {remark} in {len(found):,} of {len(examples):,} {item}s: {', '.join(found[:_SHOWN])}"
        f"{', ...' * (len(found) > _SHOWN)}"
        for remark, found in places.items()
    ]


def columns(row: Row) -> str:
    """The names of a row's columns, for a message."""
    return f"the columns are {truncate(', '.join(map(str, row.fields)))}"


def value_in(row: Row, column: str, key: str = "", *, remedy: str = "name the column so") -> Any:
    """The value in a column of a row; raises NoColumn without it, `key` being the option that names the column."""
    if column not in row.fields:
        raise NoColumn(
            f"no column {column}; {columns(row)}",
            **row.place,
            expected=f"a column '{column}'",
            remedy=remedy + (f", or set {key}" if key else ""),
        )
    return row.fields[column]


def text_in(row: Row, column: str, key: str = "", *, remedy: str = "") -> str:
    """The text in a column of a row; raises DataError, `key` being the option that names the column."""
    text = value_in(row, column, key, remedy=remedy or "name the column so")
    if not isinstance(text, str) or not text.strip():
        raise DataError(
            f"no text in column '{column}': it is {named(text)}",
            **row.place,
            expected=f"a text in '{column}'",
            remedy=remedy or "correct the row, or remove it; in .jsonl a text may look like a list",
        )
    return text


def named(value: Any) -> str:
    """A value as its format calls it, for a message.

    >>> named(None), named(True), named(5), named(" "), named(["a"])
    ('null', 'true', 'the number 5', 'empty', "a list: ['a']")
    """
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return f"the number {repr_short(value)}"
    if isinstance(value, str):
        return f"the text {repr_short(value)}" if value.strip() else "empty"
    return f"{'an object' if isinstance(value, Mapping) else 'a list'}: {repr_short(value)}"


def file_of(row: Row, column: str) -> tuple[str, bytes] | None:
    """The file that a row describes: its name, and its bytes if the row has them; None if there is none.

    A path in `column`, what the Hub keeps there (bytes and path), or `file_name` beside the file of rows.

    Raises:
        DataError: the column has something else.
    """
    value = unprinted(row.fields.get(column, row.fields.get("file_name")))
    if isinstance(value, Mapping) and isinstance(value.get("bytes"), bytes) and value["bytes"]:
        return str(value.get("path") or row.origin), value["bytes"]
    name = value.get("path") if isinstance(value, Mapping) and not value.get("bytes") else value
    if name is None:
        return None
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise DataError(
            f"{column} is {repr_short(value)}",
            **row.place,
            remedy="correct the row",
            expected="the name of a file, or an object with its bytes",
        )
    return str(Path(row.file).parent / name), b""


def of_file(error: DataError, name: str, place: Mapping[str, Any]) -> DataError:
    """An error in a file that a row names, with that name, at the row's place."""
    return DataError(f"{name}: {error.got}", **place, expected=error.expected, remedy=error.remedy)


def medium_in(row: Row, column: str, kind: type[Medium], make: Callable[[str, bytes], Medium]) -> Medium | None:
    """The object in a column: one of that kind, as embedded data have, or one made of a file and its bytes."""
    if isinstance(row.fields.get(column), kind):
        return row.fields[column]
    found = file_of(row, column)
    return None if found is None else make(*found)


def required_medium(
    row: Row, column: str, kind: type[Medium], make: Callable[[str, bytes], Medium], *, key: str = ""
) -> Medium:
    """The same; raises DataError where there is none, `key` being the option that names the column."""
    medium = medium_in(row, column, kind, make)
    if medium is None:
        held = value_in(
            row,
            "file_name" if "file_name" in row.fields else column,
            key,
            remedy="name a column so, or file_name with paths beside the file of rows",
        )
        raise DataError(
            f"'{column}' is {named(held)}",
            **row.place,
            expected="the path of a file",
            remedy="correct the row, or remove it",
        )
    return medium
