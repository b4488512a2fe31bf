"""A training split larger than memory: rows stay in their files, encoded examples in a memory-mapped file."""

from __future__ import annotations

import hashlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import seq2seq_suite
from seq2seq_suite import __version__
from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.files import atomic_write_text, cache_root, read_json, to_json
from seq2seq_suite.common.shapes import TokenShape
from seq2seq_suite.common.user_code import is_code
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data import cache
from seq2seq_suite.data.drawn import OnDemand
from seq2seq_suite.data.formats import BadRows, Row
from seq2seq_suite.data.lines import count_lines, kind
from seq2seq_suite.data.workers import cores, in_processes
from seq2seq_suite.experiments.resuming import content
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.rows import local_files

if TYPE_CHECKING:
    from seq2seq_suite.data.mapped import Mapped

_ROWS, _LETTERS = 2000, 2**22  # that a process encodes at a time, at most and about
_PACKED = 4  # a text's size divided by that of its archive, about
_WHOLE = (".json", ".parquet", ".arrow")  # formats that are not read line by line
_EXAMPLES, _FACTS = "examples.arrow", "facts.json"
_NOT_OF_ROWS = {"test_splits", "share", "cache", "in_memory_megabytes", "vocabulary_rows"}  # of `data`


def large(config: Config, task: Task, choose: Callable[[int], Sequence[int]]) -> Corpus | None:
    """The training split as a corpus, if its files are larger than `data.in_memory_megabytes`; see `Corpus`."""
    streams = task.streams and not task.varies and "train" not in config.data.test_splits
    files = local_files(config.data, "train", task.languages) if streams else []
    if any(kind(file) in _WHOLE for file in files):
        return None
    size = sum(file.stat().st_size * (_PACKED if file.suffix == ".gz" else 1) for file in files)
    return Corpus(config, task, files, choose) if size > config.data.in_memory_megabytes * 2**20 else None


@dataclass
class _Rows:
    """Rows that are encoded together, with those that could not be read, in order, and the error that ended reading."""

    items: list[tuple[dict[str, Any], str, int] | DataError] = field(default_factory=list)  # of a row its fields
    fatal: DataError | None = None


@dataclass
class _Packed:
    """Encoded rows: Arrow's bytes, the bytes of the digest, the number of examples, and the errors."""

    batch: bytes
    content: bytes
    count: int
    bad: list[DataError]
    fatal: DataError | None


class Corpus:
    """The training split of a task that `streams`. Iterating gives the examples that vocabularies are built from.

    Args:
        config: of the task.
        task: needs its vocabularies only for `encoded`.
        files: of the split.
        choose: number of examples -> the numbers of those that are used, ascending.
    """

    def __init__(self, config: Config, task: Task, files: list[Path], choose: Callable[[int], Sequence[int]]):
        self.config, self.task, self.files, self.choose = config, task, files, choose
        data = config.data
        self.folder = Path(data.cache).expanduser() if data.cache else cache_root() / cache.CORPORA
        self._bad = BadRows(data.max_bad_rows, longest=data.max_row_megabytes * 2**20)

    # -- vocabularies -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Example]:
        """The examples of about `data.vocabulary_rows` rows, evenly spread, or of as many that are used."""
        if self.config.data.share == 1.0:
            yield from self._examples(min(1.0, self.config.data.vocabulary_rows / max(1, self._lines)))
            return
        used = np.array(self.choose(sum(1 for _ in self._examples(1.0))))
        most = self.config.data.vocabulary_rows
        wanted = set(used[np.linspace(0, len(used) - 1, most).astype(int)] if len(used) > most else used)
        yield from (example for number, example in enumerate(self._examples(1.0)) if number in wanted)

    def _examples(self, share: float) -> Iterator[Example]:
        """The examples in a share of the rows, evenly spread."""
        bad = BadRows(self._bad.limit, longest=self._bad.longest)
        rows = (
            row
            for number, row in enumerate(self.task.open("train", bad))
            if int((number + 1) * share) > int(number * share)
        )
        return self.task.examples_of(rows, bad)

    @cached_property
    def _lines(self) -> int:
        """Lines of the files that have rows, at least one for each row."""
        return sum(map(count_lines, self.files[:1] if self.task.languages else self.files))

    def fit(self) -> None:
        """Give the task its vocabularies, learned or from the cache."""
        if self.task.pieces_from:
            self.task.fit(self)
            return

        def make(folder: Path) -> None:
            began = time.monotonic()
            print(
                f"train: building vocabularies from at most {self.config.data.vocabulary_rows:,} of {self._lines:,} "
                "rows (data.vocabulary_rows)",
                flush=True,
            )
            self.task.fit(self)
            self.task.save(folder)
            print(f"train: vocabularies built in {time.monotonic() - began:.0f} s", flush=True)

        data = self.config.data
        name = self._fingerprint(
            "vocabulary", rows=data.vocabulary_rows, share=data.share, seed=self.config.seed if data.share < 1.0 else 0
        )
        self.task.load(cache.entry(self.folder, name, make))

    # -- other splits -------------------------------------------------------------------------------------------

    def read(self, split: str) -> list[Example]:
        """The examples of another split; if it is cut off these files, its rows are looked for once, and kept."""
        if split not in self.config.data.split:
            return self.task.read(split)

        def make(folder: Path) -> None:
            bad = BadRows(self._bad.limit, longest=self._bad.longest)
            rows = [(row.fields, row.file, row.line) for row in self.task.open(split, bad)]
            atomic_write_text(folder / _FACTS, to_json({"rows": rows, "notes": [*bad.notes, *bad.report()]}))

        facts = read_json(cache.entry(self.folder, self._fingerprint("rows", split=split), make) / _FACTS)

        def rows(bad: BadRows) -> Iterator[Row]:
            bad.notes += facts["notes"]
            return (Row(*row) for row in facts["rows"])

        return self.task.read_rows(split, rows)

    # -- numbers ------------------------------------------------------------------------------------------------

    def encoded(self) -> Mapped:
        """The examples as numbers, from the cache or encoded by all cores.

        Raises:
            DataError: a row is broken, and `data.max_bad_rows` are; there is none; a text has too many pieces.
            RunError: a process was killed.
            OSError: the disk is full.
        """
        from pyarrow import ArrowException

        from seq2seq_suite.data.mapped import Mapped

        name = self._fingerprint("examples", vocabulary=self._vocabulary())
        folder = cache.entry(self.folder, name, self._encode)
        self._used = cache.used(folder)
        try:
            facts = read_json(folder / _FACTS)
            rows, digest, notes = self.choose(facts["examples"]), facts["digest"], facts["notes"]
            used = None if len(rows) == facts["examples"] else np.array(rows)
            if used is not None:
                digest = hashlib.sha256(digest.encode() + used.tobytes()).hexdigest()
            self._mapped = Mapped(folder / _EXAMPLES, digest=digest, rows=used)
            if self._mapped.size != facts["examples"]:
                raise ValueError
        except (ArrowException, DataError, OSError, LookupError, TypeError, ValueError):
            raise DataError(
                "the encoded corpus is damaged",
                file=str(folder),
                expected="what this program wrote",
                remedy="delete the folder: it is made again",
            ) from None
        for line in notes:
            print(line)
        return self._mapped

    def origins(self) -> Sequence[str]:
        """Where each example came from, after `encoded`."""

        def origin(index: int) -> str:
            file, line = self._mapped.place(index)
            return f"{self.files[file]}:{line}"

        return OnDemand(origin, len(self._mapped))

    def _encode(self, folder: Path) -> None:
        """Write the examples of all rows."""
        import pyarrow as pa

        began, count, digest, bad, before = time.monotonic(), 0, hashlib.sha256(), self._bad, self._stats()
        print(f"train: encoding {', '.join(map(str, self.files))} by {cores()} processes", flush=True)
        with (folder / _EXAMPLES).open("wb") as file, ExitStack() as opened:
            writer = None
            for packed in in_processes(self._pack, self._rows(), cores()):
                bad.usable |= packed.count > 0
                for error in packed.bad:
                    bad.add(error)
                if packed.fatal is not None:
                    raise packed.fatal
                if packed.count:
                    batch = pa.ipc.open_stream(packed.batch).read_next_batch()
                    writer = writer or opened.enter_context(pa.ipc.new_file(file, batch.schema))
                    writer.write_batch(batch)
                digest.update(packed.content)
                count += packed.count
        if not count:
            raise DataError(
                f"the split 'train' has no usable {self.task.item}",
                file=self.config.data.path,
                expected=self.task.expected,
                remedy="check data.path and data.splits",
            )
        if self._stats() != before:
            raise DataError(
                "a file has changed while it was read",
                file=self.config.data.path,
                expected="files that stay as they are",
                remedy="start again when they are complete",
            )
        atomic_write_text(
            folder / _FACTS,
            to_json(
                {
                    "examples": count,
                    "digest": digest.hexdigest(),
                    "notes": [*dict.fromkeys(bad.notes), *bad.report()],
                    "files": list(map(str, self.files)),
                }
            ),
        )
        seconds, mine, whole = time.monotonic() - began, cache.size_of(folder) / 1e6, cache.size_of(self.folder) / 1e6
        print(
            f"train: {count:,} examples encoded in {seconds:.0f} s ({count / seconds:,.0f} a second): {mine:,.0f} MB "
            f"of {whole:,.0f} in {self.folder}, which the verb `cache` lists and clears",
            flush=True,
        )

    def _rows(self) -> Iterator[_Rows]:
        """The rows of the files in parts, and in their places the rows that cannot be read."""
        rows, letters = _Rows(), 0
        reader = _Told(lambda error: rows.items.append(error), self._bad)
        try:
            for row in self.task.open("train", reader):
                rows.items.append((row.fields, row.file, row.line))  # which is sent in a quarter of the time
                letters += sum(len(text) for text in row.fields.values() if isinstance(text, str))
                if len(rows.items) >= _ROWS or letters >= _LETTERS:
                    yield rows
                    rows, letters = _Rows(), 0
        except DataError as error:
            rows.fatal = error
        self._bad.notes += reader.notes
        yield rows

    def _pack(self, rows: _Rows) -> _Packed:
        """Encode rows; in a process of its own."""
        import pyarrow as pa

        from seq2seq_suite.data.mapped import pack

        numbers = {str(file): number for number, file in enumerate(self.files)}
        examples, places, bad = [], [], []
        for item in rows.items:
            try:
                if isinstance(item, DataError):
                    raise item
                fields, file, line = item
                made = self.task.examples(Row(fields, file, line))
            except DataError as error:
                bad.append(error)
            else:
                examples += made
                places += [(numbers[file], line)] * len(made)
        try:
            encoded = self.task.encode(examples)
        except DataError as error:
            return _Packed(b"", b"", 0, bad, error)
        if not encoded:
            return _Packed(b"", b"", 0, bad, rows.fatal)
        batch, buffer = pack(encoded, places, self._kinds()), io.BytesIO()
        with pa.ipc.new_stream(buffer, batch.schema) as stream:
            stream.write_batch(batch)
        return _Packed(buffer.getvalue(), b"".join(map(content, encoded)), len(encoded), bad, rows.fatal)

    def _kinds(self) -> dict[str, np.dtype]:
        """The smallest integer types for the ids of symbols."""
        shape = self.task.shape()
        found = {"target": np.min_scalar_type(shape.target.symbols)}
        if isinstance(shape.source, TokenShape) and not shape.source.segments:
            found["source"] = np.min_scalar_type(shape.source.symbols)
        return found

    # -- names in the cache -------------------------------------------------------------------------------------

    def _fingerprint(self, what: str, **more: Any) -> str:
        """A name that depends on data, options, code and the given values."""
        config = self.config
        facts = {
            "what": what,
            "task": config.task,
            "version": __version__,
            "sentencepiece": version("sentencepiece"),
            "data": config.data.model_dump(exclude=_NOT_OF_ROWS),
            "code": _code(config),
            "options": {name: getattr(config, name).model_dump() for name in config.own_sections},
            "files": self._stats(),
            **more,
        }
        return f"{what}-{hashlib.sha256(to_json(facts).encode()).hexdigest()[:24]}"

    def _stats(self) -> list[tuple[str | int, ...]]:
        """Path, size, times and inode of each file: tools that copy restore size and time alone."""
        return [
            (str(file.resolve()), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            for file in self.files
            if (found := file.stat())
        ]

    def _vocabulary(self) -> str:
        """A hash of the task's vocabularies."""
        with tempfile.TemporaryDirectory() as folder:
            self.task.save(Path(folder))
            return _hash(sorted(Path(folder).iterdir()))


class _Told(BadRows):
    """Passes on the rows that cannot be read."""

    def __init__(self, pass_on: Callable[[DataError], None], like: BadRows):
        super().__init__(like.limit, longest=like.longest)
        self.pass_on = pass_on

    def add(self, error: DataError) -> None:
        self.pass_on(error)


def _code(config: Config) -> str:
    """A hash of the code that reads and encodes, a user's own task and format included."""
    package = Path(seq2seq_suite.__file__).parent
    own = [Path(one.rpartition(":")[0]) for one in (config.task, config.data.format) if is_code(one)]
    return _hash([*own, *sorted(file for part in ("data", "tasks") for file in (package / part).rglob("*.py"))])


def _hash(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
