"""Rows, and the lines of text that they are read from."""

from __future__ import annotations

import gzip
import io
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from seq2seq_suite.common.errors import DataError

UNPACKED, EXPANSION = 2**22, 200  # bytes that any archive may unpack to; a larger one's largest ratio
SOUNDS = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".sph")
_VARYING = (".jsonl", ".json")  # formats whose rows may differ in their columns
_BLANK = 1_000_000  # empty lines in a row
REMEDY = "correct the row, or convert the file to UTF-8 if it has another encoding"


class NoColumn(DataError):
    """A row lacks a column that the task reads; perhaps all rows do."""


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
        self.notes: list[str] = []  # what a reader decided by itself, for `check`
        self.usable = False  # whether an example was made of any row

    def add(self, error: DataError) -> None:
        """Note a broken row; raises DataError, naming the first few, once there are more than the limit.

        A column that a table has not, or none of the rows so far, is missing once, not in each row.
        """
        self._errors.append(error)
        first, missing = self._errors[0], isinstance(error, NoColumn)
        if missing and kind(Path(error.file)) not in _VARYING:
            raise error
        if len(self._errors) <= self.limit:
            return
        if missing and not self.usable:
            raise first
        listed = "\n    ".join(["", *self.report()[:5], *["..."] * (len(self._errors) > 5)])
        many = f"{len(self._errors)} broken row{'s' * (len(self._errors) > 1)}"
        raise DataError(
            f"{many}, but data.max_bad_rows allows {self.limit}:{listed}",
            file=first.file,
            line=first.line,
            expected=first.expected,
            remedy=f"{first.remedy or 'correct the rows'}; or raise data.max_bad_rows to leave them out",
        )

    @contextmanager
    def row(self, file: Path, line: int, *, expected: str) -> Iterator[None]:
        """Note what a ValueError or DataError within says of the row at this line, and go on behind the block."""
        try:
            yield
        except DataError as problem:
            self.add(problem)
        except ValueError as problem:
            self.add(broken(problem, file, line, expected=expected))

    def report(self) -> list[str]:
        """One line for each broken row: place and reason."""
        return [str(error).partition("\n")[0] for error in self._errors]


def kind(file: Path) -> str:
    """The extension that determines the format: `.jsonl` for train.jsonl.gz."""
    return Path(file.name.removesuffix(".gz")).suffix.lower()


def count_lines(file: Path) -> int:
    """Line feeds of a file, plain or gzip; 0 if it cannot be read."""
    with suppress(OSError, EOFError, zlib.error), (gzip.open if file.suffix == ".gz" else open)(file, "rb") as stream:
        return sum(part.count(b"\n") for part in iter(partial(stream.read, 2**20), b""))
    return 0


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
            with io.BufferedReader(
                gzip.GzipFile(self.file) if self.file.suffix == ".gz" else io.FileIO(self.file)
            ) as stream:
                yield from self._bounded(stream)
        except (OSError, EOFError, zlib.error) as problem:
            raise DataError(
                f"the file cannot be read: {problem}",
                file=str(self.file),
                line=self.number,
                remedy="check its permissions, or download or unpack it again",
            ) from None

    def _bounded(self, stream: BinaryIO) -> Iterator[str]:
        size, most, blank = 0, max(UNPACKED, EXPANSION * self.file.stat().st_size), 0
        while raw := stream.readline(self.longest + 1):
            self.number, size, blank = self.number + 1, size + len(raw), blank + 1 if raw.isspace() else 0
            if len(raw) > self.longest:
                raise DataError(
                    f"a line of more than {self.longest / 2**20:g} megabytes",
                    file=str(self.file),
                    line=self.number,
                    expected=f"at most {self.longest / 2**20:g} (data.max_row_megabytes)",
                    remedy="break the line, or raise data.max_row_megabytes",
                )
            if blank > _BLANK:
                raise DataError(
                    f"more than {_BLANK:,} empty lines one after another",
                    file=str(self.file),
                    line=self.number,
                    expected="text",
                    remedy="remove them",
                )
            if size > most:
                raise DataError(
                    f"the archive unpacks to more than {EXPANSION} times its size",
                    file=str(self.file),
                    line=self.number,
                    expected="text",
                    remedy="check it, and unpack it if it is right",
                )
            line = raw.decode("utf-8", errors="replace")
            if "\ufffd" in line and line.encode("utf-8") != raw:
                self.undecodable.append(self.number)
            yield line.removeprefix("\ufeff") if self.number == 1 else line

    def check(self, first: int, last: int) -> None:
        """Raises ValueError if one of these lines could not be decoded."""
        place = bisect_left(self.undecodable, first)
        if self.undecodable[place : place + 1] and self.undecodable[place] <= last:
            raise ValueError("the text is not UTF-8")


def broken(problem: Exception, file: Path, line: int, *, expected: str) -> DataError:
    large = "field larger than" in str(problem)  # as `csv` says it
    remedy = "cut the cell, or raise data.max_row_megabytes" if large else REMEDY
    return DataError(str(problem), file=str(file), line=line, expected=expected, remedy=remedy)


def sound_beside(file: Path) -> Path | None:
    """The recording whose text a file is: a.wav of a.txt."""
    return next((sound for ending in SOUNDS if (sound := file.with_suffix(ending)).is_file()), None)


def without_text(files: Sequence[Path], bad: BadRows) -> Iterator[Row]:
    """No row; a broken one for each recording without a text, where others beside it have one."""
    for folder in dict.fromkeys(file.parent for file in files if sound_beside(file)):
        for sound in sorted(folder.iterdir()):
            if sound.suffix in SOUNDS and not sound.with_suffix(".txt").is_file():
                bad.add(
                    DataError(
                        f"{sound.name} has no text",
                        file=str(sound),
                        expected=sound.with_suffix(".txt").name,
                        remedy="add its text, or remove the recording",
                    )
                )
    yield from ()
