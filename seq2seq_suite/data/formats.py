"""The formats that rows are read from, by the extensions of their files: `READERS` is the table.

`data.format` names another row of it for files of any extension, or a function of the user's own.
"""

from __future__ import annotations

import dataclasses
import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import parse_json, read_text
from seq2seq_suite.common.text import BLANKS
from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.common.user_code import is_code, load_code
from seq2seq_suite.data.column_files import read_columns
from seq2seq_suite.data.kaldi import read_recordings
from seq2seq_suite.data.lines import EXPANSION, REMEDY, UNPACKED, BadRows, Lines, Row, broken, kind, sound_beside
from seq2seq_suite.data.nested import read_nested
from seq2seq_suite.data.tables import read_table


def _read_lines(file: Path, bad: BadRows) -> Iterator[Row]:
    """A row for each line that is not blank: a JSON object, or in `.txt` the line itself under `text`.

    A text beside a recording of the same name is one row.
    """
    sound = sound_beside(file) if kind(file) == ".txt" else None
    if sound:
        yield Row({"audio": sound.name, "text": " ".join(read_text(file).split())}, str(file), 1)
        return
    lines, plain = Lines(file, bad.longest), kind(file) == ".txt"
    expected = "text in UTF-8" if plain else 'an object such as {"text": "..."} on each line, in UTF-8'
    for line in filter(str.strip, lines):
        with bad.row(file, lines.number, expected=expected):
            lines.check(lines.number, lines.number)
            fields = (
                {"text": line.rstrip("\r\n")}
                if plain
                else parse_json(line.rstrip(), file=str(file), line=lines.number, expected=expected, remedy=REMEDY)
            )
            if not isinstance(fields, dict):
                raise ValueError(f"a JSON value of type {type(fields).__name__}, not an object")
            yield Row(fields, str(file), lines.number)


def _read_treebank(file: Path, bad: BadRows) -> Iterator[Row]:
    """A row for each tree, as written in the file."""
    lines = Lines(file, bad.longest)
    text = "".join(lines)
    trees = _split_trees(text)
    if trees is None and lines.undecodable:  # the trees cannot be split by lines
        raise broken(ValueError("the text is not UTF-8"), file, lines.undecodable[0], expected="brackets in UTF-8")
    for line, tree in _recover_trees(text, str(file), bad) if trees is None else trees:
        with bad.row(file, line, expected="brackets in UTF-8"):
            lines.check(line, line + tree.count("\n"))
            yield Row({"tree": tree}, str(file), line)


def _split_trees(text: str) -> list[tuple[int, str]] | None:
    """(line, brackets) of each tree; None if brackets do not match or there are words outside."""
    trees, depth, begin, end, line = [], 0, 0, 0, 1
    for match in re.finditer(r"[()]", text):
        opening = match.group() == "("
        if opening and depth == 0:
            begin = match.start()
            if text[end:begin].strip(BLANKS):
                return None
            line += text.count("\n", end, begin)
        depth += 1 if opening else -1
        if depth < 0:
            return None
        if depth == 0:
            end = match.end()
            trees.append((line, text[begin:end]))
            line += text.count("\n", begin, end)
    return None if depth or text[end:].strip(BLANKS) else trees


def _recover_trees(text: str, file: str, bad: BadRows) -> Iterator[tuple[int, str]]:
    """The trees of a file that has broken ones, split at brackets that begin a line."""
    line, unclosed = 1, None
    for block in re.split(r"^(?=\()", text, flags=re.MULTILINE):
        try:
            for start, tree in read_trees(block, file=file, first_line=line):
                yield start, str(tree)
        except DataError as problem:
            if unclosed and block.count(")") > block.count("("):  # perhaps one tree over lines without indents
                raise unclosed from None
            unclosed = problem if block.count("(") > block.count(")") else unclosed
            bad.add(problem)
        line += block.count("\n")


def _read_json(file: Path, bad: BadRows) -> Iterator[Row]:
    """Objects that hold all rows, see `read_nested`, and whatever else `datasets` reads."""
    with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8-sig", errors="replace") as stream:
        found = read_nested(stream.read(), file)
    if found is None:
        yield from _read_with_datasets(file, bad)
        return
    for number, row in found:
        if isinstance(row, DataError):
            bad.add(row)
        else:
            yield Row(row, str(file), number)


def _read_with_datasets(file: Path, bad: BadRows) -> Iterator[Row]:
    if kind(file) == ".parquet":
        _refuse_unpacking(file)
    return load_rows(
        str(file),
        kind(file).removeprefix("."),
        data_files=str(file),
        split="train",
        remedy="write the file again, or convert it to .jsonl",
    )


def _refuse_unpacking(file: Path) -> None:
    """Raises DataError if a Parquet file's metadata says that it unpacks to many times its size."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_metadata

    try:
        found = read_metadata(file)
        size = sum(found.row_group(number).total_byte_size for number in range(found.num_row_groups))
    except (ArrowException, OSError):  # reading it reports the error
        return
    if size > max(UNPACKED, EXPANSION * file.stat().st_size):
        raise DataError(
            f"the archive unpacks to more than {EXPANSION} times its size",
            file=str(file),
            expected="rows as they are",
            remedy="check it, and convert it to .jsonl if it is right",
        )


def load_rows(
    file: str, path: str, *, split: str, remedy: str, name: str | None = None, data_files: str | None = None
) -> Iterator[Row]:
    """Rows from `datasets.load_dataset`, with images and sound as they are stored."""
    try:
        import datasets  # here, because importing it takes seconds

        if data_files:  # of local files there is no progress to watch
            datasets.disable_progress_bars()
        data: Any = datasets.load_dataset(path, name=name, data_files=data_files, split=split)
    except Exception as problem:  # the library raises its dependencies' errors, too
        cause = problem.__cause__ or problem
        reason = f"{type(cause).__name__}: {cause}".partition("\n")[0]
        raise DataError(f"cannot be loaded with Hugging Face datasets: {reason}", file=file, remedy=remedy) from problem
    for name, feature in data.features.items():
        if getattr(feature, "decode", False) is True:
            data = data.cast_column(name, dataclasses.replace(feature, decode=False))
    for number, fields in enumerate(data, start=1):
        yield Row(with_names(fields, data.features), file, number)


Reader = Callable[[Path, BadRows], Iterator[Row]]
READERS: dict[str, Reader] = {
    **dict.fromkeys((".jsonl", ".txt"), _read_lines),
    **dict.fromkeys((".csv", ".tsv"), read_table),
    **dict.fromkeys((".mrg", ".ptb", ".bracket", ".trees", ".parse"), _read_treebank),
    **dict.fromkeys((".conllu", ".conll", ".bio", ".iob"), read_columns),
    ".json": _read_json,
    ".scp": read_recordings,
    **dict.fromkeys((".parquet", ".arrow"), _read_with_datasets),
}


def with_names(fields: dict[str, Any], features: Any) -> dict[str, Any]:
    """A row whose class labels, alone or in lists, are names; numbers without a name stay as they are.

    Args:
        fields: column -> value.
        features: `datasets.Features` of the row.

    >>> from datasets import ClassLabel, Features, Value
    >>> with_names({"text": "hi", "label": 1}, Features(text=Value("string"), label=ClassLabel(names=["bad", "good"])))
    {'text': 'hi', 'label': 'good'}
    """
    return {column: _name(value, features.get(column)) for column, value in fields.items()}


def _name(value: Any, feature: Any) -> Any:
    if isinstance(value, list):
        inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
        return [_name(one, inner) for one in value] if inner is not None else value
    names = getattr(feature, "names", None)
    return names[value] if names and isinstance(value, int) and 0 <= value < len(names) else value


def is_format(name: str) -> bool:
    """Whether `data.format` may have this value.

    >>> is_format(""), is_format("jsonl"), is_format("my_data.py:rows"), is_format("exe")
    (True, True, True, False)
    """
    return not name or f".{name}" in READERS or is_code(name)


def is_readable(file: Path, name: str = "") -> bool:
    """Whether there is a reader for a file: every file is of the format that is named."""
    return bool(name) or kind(file) in READERS


def reader_of(file: Path, name: str = "") -> Reader:
    """The reader of a file.

    Args:
        file: says the format by its extension, if `name` does not.
        name: `data.format`: an extension without its dot, or `FILE.py:NAME`, a function from a path to dictionaries.

    Raises:
        ConfigError: the user's code is not trusted, or fails.
    """
    if not is_code(name):
        return READERS[f".{name}" if name else kind(file)]
    own = load_code(name, key="data.format")
    return lambda file, bad: (Row(dict(fields), str(file), number) for number, fields in enumerate(own(file), 1))
