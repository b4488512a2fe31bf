"""The formats that rows are read from: JSON, text, tables, brackets, and what Hugging Face `datasets` reads."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import re
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from seq2seq_suite.data.class_labels import with_names
from seq2seq_suite.files import parse_json
from seq2seq_suite.trees import read_trees
from seq2seq_suite.types import DataError, brief, shown

_UNPACKED, _EXPANSION = 2**22, 200  # bytes that any archive may unpack to; a larger one's largest ratio
_BLANK = 1_000_000  # empty lines in a row
_REMEDY = "correct the row, or convert the file to UTF-8 if it has another encoding"


@dataclass(frozen=True)
class Row:
    """One row as it was read.

    Args:
        fields: column name -> value.
        file: the file's path, or the name of a data set of the Hub.
        line: the line where the row begins, from 1; for JSON, Parquet, Arrow and Hub data the number of the row.
    """

    fields: dict[str, Any]
    file: str
    line: int

    @property
    def place(self) -> dict[str, Any]:
        """File and line, as a DataError takes them."""
        return {"file": self.file, "line": self.line}

    @property
    def origin(self) -> str:
        """The same as `Example.origin`."""
        return f"{self.file}:{self.line}"


class BadRows:
    """Collects rows that could not be read, up to a limit.

    Args:
        limit: how many are tolerated, `data.max_bad_rows`.
        longest: bytes of the longest line or cell that is read, `data.max_row_megabytes`.

    >>> bad = BadRows(1)
    >>> bad.add(DataError("invalid JSON", file="train.jsonl", line=3, remedy="correct the line"))
    >>> bad.report()
    ['train.jsonl:3: invalid JSON']
    """

    def __init__(self, limit: int, *, longest: int = 2**26):
        self.limit, self.longest = limit, longest
        self._errors: list[DataError] = []

    def add(self, error: DataError) -> None:
        """Note a broken row; raises DataError, naming the first few, once there are more than the limit."""
        self._errors.append(error)
        if len(self._errors) <= self.limit:
            return
        first = self._errors[0]
        listed = "\n    ".join(["", *self.report()[:5], *["..."] * (len(self._errors) > 5)])
        many = f"{len(self._errors)} broken row{'s' * (len(self._errors) > 1)}"
        raise DataError(f"{many}, but data.max_bad_rows allows {self.limit}:{listed}",
                        file=first.file, line=first.line, expected=first.expected,
                        remedy=f"{first.remedy or 'correct the rows'}; or raise data.max_bad_rows to leave them out")

    def report(self) -> list[str]:
        """One line for each broken row: place and reason."""
        return [str(error).partition("\n")[0] for error in self._errors]


def kind(file: Path) -> str:
    """The extension that determines the format: `.jsonl` for train.jsonl.gz."""
    return Path(file.name.removesuffix(".gz")).suffix.lower()


class Lines:
    """The lines of a text file, plain or gzip; `number` is that of the last line given. Lines that are not UTF-8 come
    with replacement characters and are remembered for `check`.

    Args:
        file: to read.
        longest: bytes of the longest line that is read.

    Raises:
        DataError: the file cannot be read, a line is longer, there are too many empty lines, or an archive
            unpacks to many times its size.
    """

    def __init__(self, file: Path, longest: int):
        self.file, self.longest, self.number = file, longest, 0
        self.undecodable: list[int] = []

    def __iter__(self) -> Iterator[str]:
        try:
            # Buffers gzip, whose own `readline` takes ten times as long.
            with io.BufferedReader(gzip.GzipFile(self.file) if self.file.suffix == ".gz" else io.FileIO(self.file)) \
                    as stream:
                yield from self._bounded(stream)
        except (OSError, EOFError, zlib.error) as problem:
            raise DataError(f"the file cannot be read: {problem}", file=str(self.file), line=self.number,
                            remedy="check its permissions, or download or unpack it again") from None

    def _bounded(self, stream: io.BufferedReader) -> Iterator[str]:
        size, most, blank = 0, max(_UNPACKED, _EXPANSION * self.file.stat().st_size), 0
        while raw := stream.readline(self.longest + 1):
            self.number, size, blank = self.number + 1, size + len(raw), blank + 1 if raw.isspace() else 0
            if len(raw) > self.longest:
                raise DataError(f"a line of more than {self.longest / 2**20:g} megabytes", file=str(self.file),
                                line=self.number, expected=f"at most {self.longest / 2**20:g} (data.max_row_megabytes)",
                                remedy="break the line, or raise data.max_row_megabytes")
            if blank > _BLANK:
                raise DataError(f"more than {_BLANK:,} empty lines one after another", file=str(self.file),
                                line=self.number, expected="text", remedy="remove them")
            if size > most:
                raise DataError(f"the archive unpacks to more than {_EXPANSION} times its size", file=str(self.file),
                                line=self.number, expected="text", remedy="check it, and unpack it if it is right")
            line = raw.decode("utf-8", errors="replace")
            if "\ufffd" in line and line.encode("utf-8") != raw:
                self.undecodable.append(self.number)
            yield line.removeprefix("\ufeff") if self.number == 1 else line

    def check(self, first: int, last: int) -> None:
        """Raises ValueError if one of these lines could not be decoded."""
        place = bisect_left(self.undecodable, first)
        if self.undecodable[place : place + 1] and self.undecodable[place] <= last:
            raise ValueError("the text is not UTF-8")


def _broken(problem: Exception, file: Path, line: int, *, expected: str) -> DataError:
    large = "field larger than" in str(problem)  # as `csv` says it
    remedy = "cut the cell, or raise data.max_row_megabytes" if large else _REMEDY
    return DataError(str(problem), file=str(file), line=line, expected=expected, remedy=remedy)


def _read_lines(file: Path, bad: BadRows) -> Iterator[Row]:
    """A row for each line that is not blank: a JSON object, or in `.txt` the line itself under `text`."""
    lines, plain = Lines(file, bad.longest), kind(file) == ".txt"
    expected = "text in UTF-8" if plain else 'an object such as {"text": "..."} on each line, in UTF-8'
    for line in lines:
        if not line.strip():
            continue
        try:
            lines.check(lines.number, lines.number)
            fields = {"text": line.rstrip("\r\n")} if plain else parse_json(
                line.rstrip(), file=str(file), line=lines.number, expected=expected, remedy=_REMEDY)
            if not isinstance(fields, dict):
                raise ValueError(f"a JSON value of type {type(fields).__name__}, not an object")
        except DataError as problem:
            bad.add(problem)
        except ValueError as problem:
            bad.add(_broken(problem, file, lines.number, expected=expected))
        else:
            yield Row(fields, str(file), lines.number)


def _read_table(file: Path, bad: BadRows) -> Iterator[Row]:
    """CSV with the usual quotes; in TSV, quotes are ordinary characters."""
    lines = Lines(file, bad.longest)
    csv.field_size_limit(bad.longest)  # its default limit is 128 KB; the setting is global
    options = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if kind(file) == ".tsv" else {"strict": True}
    table = csv.reader(lines, **options)  # type: ignore[arg-type]
    try:
        columns = next(table, ["no line"])
    except csv.Error:
        columns = []
    if len(set(columns)) < len(columns) or not any(columns) or lines.undecodable:
        raise DataError(f"the first line does not name the columns: {shown(columns)}", file=str(file), line=1,
                        expected="different column names, in UTF-8", remedy="put a line of column names on top")
    expected = f"{len(columns)} columns: {brief(', '.join(columns))}, in UTF-8"
    while True:
        start = lines.number + 1
        try:
            cells = next(table, None)
            lines.check(start, lines.number)
            if cells and len(cells) != len(columns):
                raise ValueError(f"{len(cells)} columns")
        except (csv.Error, ValueError) as problem:
            broken = _broken(problem, file, start, expected=expected)
            if "end of data" in broken.got or "larger" in broken.got:  # an unclosed quote: the rest is lost
                raise broken from None
            bad.add(broken)
            continue
        if cells is None:
            return
        if cells:
            yield Row(dict(zip(columns, cells, strict=True)), str(file), start)


def _read_treebank(file: Path, bad: BadRows) -> Iterator[Row]:
    """A row for each tree, as written in the file."""
    lines = Lines(file, bad.longest)
    text = "".join(lines)
    trees = _split_trees(text)
    if trees is None and lines.undecodable:  # the trees cannot be split by lines
        raise _broken(ValueError("the text is not UTF-8"), file, lines.undecodable[0], expected="brackets in UTF-8")
    for line, tree in _recover_trees(text, str(file), bad) if trees is None else trees:
        try:
            lines.check(line, line + tree.count("\n"))
        except ValueError as problem:
            bad.add(_broken(problem, file, line, expected="brackets in UTF-8"))
        else:
            yield Row({"tree": tree}, str(file), line)


def _split_trees(text: str) -> list[tuple[int, str]] | None:
    """(line, brackets) of each tree; None if brackets do not match or there are words outside."""
    trees, depth, begin, end, line = [], 0, 0, 0, 1
    for match in re.finditer(r"[()]", text):
        opening = match.group() == "("
        if opening and depth == 0:
            begin = match.start()
            if text[end:begin].strip():
                return None
            line += text.count("\n", end, begin)
        depth += 1 if opening else -1
        if depth < 0:
            return None
        if depth == 0:
            end = match.end()
            trees.append((line, text[begin:end]))
            line += text.count("\n", begin, end)
    return None if depth or text[end:].strip() else trees


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


def _read_columns(file: Path, bad: BadRows) -> Iterator[Row]:
    """A row for each sentence of a file with a word on each line, its tag last, blank lines between sentences.

    In CoNLL-U the words are the second column, the tags `upos` and `xpos` the fourth and fifth.
    """
    lines, conllu, cells, start = Lines(file, bad.longest), kind(file) == ".conllu", [], 1
    for line in chain(lines, ["\n"]):
        text = line.rstrip("\r\n")
        if text.strip() and not (conllu and text.startswith("#")):
            start = start if cells else lines.number
            found = text.split("\t") if "\t" in text else text.split()
            if not (conllu and not found[0].isdigit()):  # multiword tokens and empty nodes
                cells.append(found)
        elif not text.strip() and cells:
            try:
                lines.check(start, lines.number)
                if any(len(found) < (5 if conllu else 2) for found in cells):
                    raise ValueError("a line has too few columns")
            except ValueError as problem:
                bad.add(_broken(problem, file, start, expected="a word and its tag on each line, in UTF-8"))
            else:
                columns = {"words": 1, "upos": 3, "xpos": 4} if conllu else {"words": 0, "tags": -1}
                yield Row({name: [found[place] for found in cells] for name, place in columns.items()}, str(file),
                          start)
            cells = []


def _read_with_datasets(file: Path, bad: BadRows) -> Iterator[Row]:
    if kind(file) == ".parquet":
        _refuse_unpacking(file)
    return load_rows(str(file), kind(file).removeprefix("."), data_files=str(file), split="train",
                      remedy="write the file again, or convert it to .jsonl")


def _refuse_unpacking(file: Path) -> None:
    """Raises DataError if a Parquet file's metadata says that it unpacks to many times its size."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_metadata

    try:
        found = read_metadata(file)
        size = sum(found.row_group(number).total_byte_size for number in range(found.num_row_groups))
    except (ArrowException, OSError):  # reading it reports the error
        return
    if size > max(_UNPACKED, _EXPANSION * file.stat().st_size):
        raise DataError(f"the archive unpacks to more than {_EXPANSION} times its size", file=str(file),
                        expected="rows as they are", remedy="check it, and convert it to .jsonl if it is right")


def load_rows(file: str, path: str, *, remedy: str, **options: str | None) -> Iterator[Row]:
    """Rows from `datasets.load_dataset`, with images and sound as they are stored."""
    try:
        import datasets  # here, because importing it takes seconds
        data = datasets.load_dataset(path, **options)
    except Exception as problem:  # the library raises its dependencies' errors, too
        cause = problem.__cause__ or problem
        reason = f"{type(cause).__name__}: {cause}".partition("\n")[0]
        raise DataError(f"cannot be loaded with Hugging Face datasets: {reason}", file=file, remedy=remedy) from problem
    for name, feature in data.features.items():
        if getattr(feature, "decode", False) is True:
            data = data.cast_column(name, dataclasses.replace(feature, decode=False))
    for number, fields in enumerate(data, start=1):
        yield Row(with_names(fields, data.features), file, number)


READERS: dict[str, Callable[[Path, BadRows], Iterator[Row]]] = {
    **dict.fromkeys((".jsonl", ".txt"), _read_lines),
    **dict.fromkeys((".csv", ".tsv"), _read_table),
    **dict.fromkeys((".mrg", ".ptb", ".bracket", ".trees", ".parse"), _read_treebank),
    **dict.fromkeys((".conllu", ".conll", ".bio", ".iob"), _read_columns),
    **dict.fromkeys((".json", ".parquet", ".arrow"), _read_with_datasets),
}
