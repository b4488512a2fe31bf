"""Encoded examples in an Arrow file, read as they are needed: any number of processes share it, none holds it."""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seq2seq_suite.common.errors import RunError
from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.data.drawn import Drawn

_WIDTH = ".width"  # after an array's name: the column of its second dimension
_READ = 100  # examples, after which the file is looked at for changes
_Numbers = tuple[int, np.dtype]  # where in the file they begin, and their type


def pack(items: Sequence[Encoded], places: Sequence[tuple[int, int]], kinds: Mapping[str, np.dtype]) -> pa.RecordBatch:
    """Examples as rows of a table: a list for each array, and where the example came from.

    Args:
        items: all with arrays of the same names and dimensions.
        places: the number of the file and the line of each.
        kinds: the type to store an array with, by its name; int32 for others.
    """
    columns: dict[str, Any] = {
        "file": pa.array([file for file, _ in places], pa.int32()),
        "line": pa.array([line for _, line in places], pa.int64()),
    }
    rows = [_arrays(item) for item in items]
    for name in rows[0]:
        arrays = [row[name] for row in rows]
        flat = np.concatenate([array.reshape(-1) for array in arrays])
        kind = np.dtype(np.uint8 if flat.dtype == bool else kinds.get(name, np.int32))
        assert not flat.size or np.iinfo(kind).min <= flat.min() <= flat.max() <= np.iinfo(kind).max, name
        ends = np.cumsum([0, *(array.size for array in arrays)], dtype=np.int32)
        columns[name] = pa.ListArray.from_arrays(pa.array(ends), pa.array(flat.astype(kind)))
        if arrays[0].ndim > 1:
            columns[name + _WIDTH] = pa.array([array.shape[1] for array in arrays], pa.int32())
    return pa.RecordBatch.from_pydict(columns)


def _arrays(item: Encoded) -> dict[str, np.ndarray]:
    """An example's arrays by name; names of other labels begin with a dot."""
    given = {} if item.given is None else {"given": item.given}
    return {
        "source": item.source,
        "target": item.target,
        **given,
        **{f".{name}": array for name, array in item.auxiliary.items()},
    }


class Mapped(Drawn):
    """The examples of a file that `pack` made, each read when it is asked for.

    They stay in the system's cache of files, and are read from there: where a file is cut or changed meanwhile, a
    mapping of it would kill the process.

    Args:
        path: an Arrow file.
        digest: a hash of the examples.
        rows: the numbers of those that are used, in their order; None for all.
    """

    def __init__(self, path: Path, *, digest: str, rows: np.ndarray | None = None):
        self.rows = rows
        self._file, self._read = path.open("rb", buffering=0), 0
        self._number = self._file.fileno()
        self._as_it_was = self._version()
        with mmap.mmap(self._number, 0, access=mmap.ACCESS_READ) as mapped:
            rows_of, self._columns = _layout(mapped)
        self._ends = np.cumsum(rows_of).tolist()
        self.size = self._ends[-1]  # with those that are not used
        # Where lists end is held: asking the system for it as well takes as long as asking for the numbers.
        self._bounds = {
            name: [self._numbers(one[0], 0, size + 1) for one, size in zip(found, rows_of, strict=True)]
            for name, found in self._columns.items()
            if len(found[0]) == 2
        }
        self._names = [name for name in self._columns if name not in ("file", "line") and not name.endswith(_WIDTH)]
        super().__init__(
            self._example, source_lengths=self._lengths("source"), target_lengths=self._lengths("target"), digest=digest
        )

    def place(self, index: int) -> tuple[int, int]:
        """The number of an example's file, and its line."""
        batch, row = self._find(index)
        file, line = (self._numbers(self._columns[name][batch][0], row, row + 1) for name in ("file", "line"))
        return int(file[0]), int(line[0])

    def _example(self, index: int) -> Encoded:
        self._read += 1
        if self._read % _READ == 0 and self._version() != self._as_it_was:
            raise self._changed()
        batch, row = self._find(index)
        arrays = {name: self._array(name, batch, row) for name in self._names}
        return Encoded(
            arrays.pop("source"),
            arrays.pop("target"),
            index,
            arrays.pop("given", None),
            {name[1:]: array for name, array in arrays.items()},
        )

    def _version(self) -> tuple[int, int]:
        found = os.fstat(self._number)
        return found.st_size, found.st_mtime_ns

    def _changed(self) -> RunError:
        return RunError(
            f"{self._file.name}: the encoded corpus has changed while it was read; start again, with "
            "--resume if the run has begun: the corpus is made again"
        )

    def _numbers(self, place: _Numbers, first: int, end: int) -> np.ndarray:
        """Some of a column; raises RunError if the file has become too short."""
        begin, kind = place
        return np.frombuffer(self._bytes(begin + first * kind.itemsize, (end - first) * kind.itemsize), kind)

    def _bytes(self, begin: int, size: int) -> bytes:
        content = os.pread(self._number, size, begin)
        if len(content) < size:
            raise self._changed()
        return content

    def _find(self, index: int) -> tuple[int, int]:
        """The batch that an example is in, and its row there."""
        place = index if self.rows is None else int(self.rows[index])
        batch = bisect_right(self._ends, place)
        return batch, place - (self._ends[batch - 1] if batch else 0)

    def _array(self, name: str, batch: int, row: int) -> np.ndarray:
        bounds, (begin, kind) = self._bounds[name][batch], self._columns[name][batch][1]
        first, size = int(bounds[row]), kind.itemsize
        content = self._bytes(begin + first * size, (int(bounds[row + 1]) - first) * size)
        found = np.frombuffer(content, kind).astype(bool if name == "given" else np.int64)
        widths = self._columns.get(name + _WIDTH)
        return found if widths is None else found.reshape(-1, int(self._numbers(widths[batch][0], row, row + 1)[0]))

    def _lengths(self, name: str) -> np.ndarray:
        """(examples,) int32, along the first dimension."""
        sizes = np.concatenate([np.diff(bounds) for bounds in self._bounds[name]])
        if name + _WIDTH in self._columns:
            sizes //= np.concatenate(
                [
                    self._numbers(widths, 0, int(count))
                    for (widths,), count in zip(self._columns[name + _WIDTH], np.diff([0, *self._ends]), strict=True)
                ]
            )
        return sizes if self.rows is None else sizes[self.rows]


def _layout(mapped: mmap.mmap) -> tuple[list[int], dict[str, list[tuple[_Numbers, ...]]]]:
    """The rows of each batch, and where each column's numbers are; of lists, where they end and the numbers in them."""
    file, start = pa.ipc.open_file(pa.py_buffer(mapped)), np.frombuffer(mapped, np.uint8).ctypes.data
    batches = [file.get_batch(number) for number in range(file.num_record_batches)]

    def places(column: pa.Array) -> tuple[_Numbers, ...]:
        parts = (column.offsets, column.values) if pa.types.is_list(column.type) else (column,)
        arrays = [part.to_numpy(zero_copy_only=True) for part in parts]
        return tuple((array.ctypes.data - start if array.size else 0, array.dtype) for array in arrays)

    return [batch.num_rows for batch in batches], {
        name: [places(batch.column(name)) for batch in batches] for name in batches[0].schema.names
    }
