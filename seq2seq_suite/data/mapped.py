"""Encoded examples in an Arrow file that is mapped into memory: any number of processes share it, none holds it."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seq2seq_suite.data.drawn import Drawn
from seq2seq_suite.types import Encoded

_WIDTH = ".width"  # after an array's name: the column of its second dimension
_READ = 1000  # examples, after which the pages that they are in are given back


def pack(items: Sequence[Encoded], places: Sequence[tuple[int, int]], kinds: Mapping[str, np.dtype]) -> pa.RecordBatch:
    """Examples as rows of a table: a list for each array, and where the example came from.

    Args:
        items: all with arrays of the same names and dimensions.
        places: the number of the file and the line of each.
        kinds: the type to store an array with, by its name; int32 for others.
    """
    columns: dict[str, Any] = {"file": pa.array([file for file, _ in places], pa.int32()),
                               "line": pa.array([line for _, line in places], pa.int64())}
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
    return {"source": item.source, "target": item.target, **given,
            **{f".{name}": array for name, array in item.auxiliary.items()}}


class Mapped(Drawn):
    """The examples of a file that `pack` made, each read when it is asked for.

    Pages that were read stay in the system's cache of files, and belong to this process only for a while: examples
    from all over a file would otherwise make it as large as the file.

    Args:
        path: an Arrow file.
        digest: a hash of the examples.
        rows: the numbers of those that are used, in their order; None for all.
    """

    def __init__(self, path: Path, *, digest: str, rows: np.ndarray | None = None):
        self.rows = rows
        with path.open("rb") as opened:
            self._map, self._read = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), 0
        file = pa.ipc.open_file(pa.py_buffer(self._map))
        batches = [file.get_batch(number) for number in range(file.num_record_batches)]
        self._ends = np.cumsum([batch.num_rows for batch in batches]).tolist()
        self.size = self._ends[-1]  # with those that are not used
        self._columns = {name: [_views(batch.column(name)) for batch in batches] for name in batches[0].schema.names}
        self._names = [name for name in self._columns if name not in ("file", "line") and not name.endswith(_WIDTH)]
        super().__init__(self._example, source_lengths=self._lengths("source"), target_lengths=self._lengths("target"),
                         digest=digest)
        self._give_back()

    def place(self, index: int) -> tuple[int, int]:
        """The number of an example's file, and its line."""
        batch, row = self._find(index)
        file, line = (int(self._columns[name][batch][0][row]) for name in ("file", "line"))
        return file, line

    def _example(self, index: int) -> Encoded:
        self._read += 1
        if self._read % _READ == 0:
            self._give_back()
        batch, row = self._find(index)
        arrays = {name: self._array(name, batch, row) for name in self._names}
        return Encoded(arrays.pop("source"), arrays.pop("target"), index, arrays.pop("given", None),
                       {name[1:]: array for name, array in arrays.items()})

    def _give_back(self) -> None:
        if hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _find(self, index: int) -> tuple[int, int]:
        """The batch that an example is in, and its row there."""
        place = index if self.rows is None else int(self.rows[index])
        batch = bisect_right(self._ends, place)
        return batch, place - (self._ends[batch - 1] if batch else 0)

    def _array(self, name: str, batch: int, row: int) -> np.ndarray:
        ends, values = self._columns[name][batch]
        found = values[ends[row] : ends[row + 1]].astype(bool if name == "given" else np.int64)
        widths = self._columns.get(name + _WIDTH)
        return found if widths is None else found.reshape(-1, int(widths[batch][0][row]))

    def _lengths(self, name: str) -> np.ndarray:
        """(examples,) int32, along the first dimension."""
        sizes = np.concatenate([np.diff(ends) for ends, _ in self._columns[name]])
        if name + _WIDTH in self._columns:
            sizes //= np.concatenate([widths for widths, in self._columns[name + _WIDTH]])
        return sizes if self.rows is None else sizes[self.rows]


def _views(column: pa.Array) -> tuple[np.ndarray, ...]:
    """A column's numbers without a copy; of lists, where they end and the numbers in them."""
    parts = (column.offsets, column.values) if pa.types.is_list(column.type) else (column,)
    return tuple(part.to_numpy(zero_copy_only=True) for part in parts)
