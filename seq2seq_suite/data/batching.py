"""From encoded examples to batches of similar length, in an order that depends on seed and epoch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.common.types import Batch
from seq2seq_suite.data.drawn import Drawn


def collate(items: Sequence[Encoded], task: str, *, round_lengths: bool = False) -> Batch:
    """Pad examples to a batch; padding is 0, and -1 in labels and focus. `round_lengths` pads lengths to `on_grid`."""
    items = list(items)  # those of `Drawn` are made once
    grid = on_grid if round_lengths else int
    source_lengths, target_lengths = map(torch.from_numpy, lengths(items))
    is_picture = items[0].source.ndim == 3  # of one size already
    source_width = (int if is_picture else grid)(int(source_lengths.max()))
    target_width = grid(int(target_lengths.max()))
    return Batch(
        source=_pad([item.source for item in items], 0, source_width),
        source_mask=torch.arange(source_width) < source_lengths.unsqueeze(1),
        target=_pad([item.target for item in items], 0, target_width),
        target_mask=torch.arange(target_width) < target_lengths.unsqueeze(1),
        given=_pad([np.zeros(0, bool) if item.given is None else item.given for item in items], False, target_width),
        task=task,
        indices=tuple(item.index for item in items),
        auxiliary={
            name: _pad_auxiliary(
                name, [item.auxiliary[name] for item in items], target_width, None if is_picture else source_width
            )
            for name in items[0].auxiliary
            if all(name in item.auxiliary for item in items)
        },
    )


def _pad_auxiliary(name: str, arrays: list[np.ndarray], target_width: int, source_width: int | None) -> Tensor:
    """Padded to the length of the target, of the source if its positions are known, or of the longest."""
    known = {"focus": target_width, "context": target_width, "ctc": None, "begin": None, "spans": None}
    width = known.get(name, source_width) or max(map(len, arrays))
    return _pad(arrays, 0 if name in ("context", "ctc", "begin") else -1, width)


def _pad(arrays: Sequence[np.ndarray], value: int, width: int) -> Tensor:
    inner = tuple(max(array.shape[axis] for array in arrays) for axis in range(1, arrays[0].ndim))
    padded = np.full((len(arrays), width, *inner), value, dtype=arrays[0].dtype)
    if inner:
        for row, array in enumerate(arrays):
            padded[(row, *(slice(0, size) for size in array.shape))] = array
    else:  # all rows at once: a GPU's batch has thousands, which it would wait for
        padded[np.arange(width) < np.array([[len(array)] for array in arrays])] = np.concatenate(arrays)
    return torch.from_numpy(padded)


def lengths(items: Sequence[Encoded]) -> tuple[np.ndarray, np.ndarray]:
    """(examples,) int32 twice: of sources and of targets."""
    if isinstance(items, Drawn):
        return items.source_lengths.astype(np.int32, copy=False), items.target_lengths.astype(np.int32, copy=False)
    return (
        np.array([len(item.source) for item in items], dtype=np.int32),
        np.array([len(item.target) for item in items], dtype=np.int32),
    )


def indices(items: Sequence[Encoded]) -> Sequence[int]:
    """`Encoded.index` of each; of examples made on demand it is their place."""
    return range(len(items)) if isinstance(items, Drawn) else [item.index for item in items]


class Bucketed:
    """Batches of examples of similar length, for training.

    Examples are sorted by their longer side, then by source length with a little noise, cut into batches of at most
    `batch_tokens` padded target symbols, and the batches shuffled: an epoch's order is a function of (seed, epoch),
    so that a position in it is all a checkpoint needs.

    Args:
        items: encoded examples.
        task: the task's name.
        batch_tokens: most padded target symbols (or source positions, where they are more) in a batch.
        seed: of the order.
        round_lengths: pad lengths to a coarse grid and fill batches to one size for each length, so that a few dozen
            shapes recur. Worth its padding where a kernel is compiled for each new shape: oneDNN's bfloat16 on a
            CPU spent more time on compiling than on multiplying.
        encode_epoch: gives the examples as an epoch reads them, where that differs from epoch to epoch (`Task.varies`).
            The new lengths of all examples are needed first, because batches are formed by length; the examples are
            made batch by batch.
    """

    def __init__(
        self,
        items: Sequence[Encoded],
        task: str,
        *,
        batch_tokens: int,
        seed: int,
        round_lengths: bool = False,
        encode_epoch: Callable[[int], Sequence[Encoded]] | None = None,
    ):
        self.items, self.task, self.batch_tokens, self.seed = items, task, batch_tokens, seed
        self.round_lengths, self.encode_epoch = round_lengths, encode_epoch
        self._source_lengths, target_lengths = lengths(items)
        self._widths = np.maximum(self._source_lengths, target_lengths)
        if round_lengths:
            grid = [on_grid(width) for width in range(self._widths.max() + 1)]
            self._widths = np.array(grid, dtype=np.int32)[self._widths]

    @cached_property
    def _by_width(self) -> tuple[np.ndarray, np.ndarray]:
        """The examples by ascending width, and where in this order each width from 0 on ends."""
        ends = np.bincount(self._widths).cumsum()
        small = self._widths.astype(np.min_scalar_type(len(ends)))  # of 16 bits, which are sorted digit by digit
        return np.argsort(small, kind="stable").astype(np.int32), ends

    @cached_property
    def _starts(self) -> np.ndarray:
        """Where the batches begin among the examples by ascending width: the same places in every epoch."""
        starts, begin = [0], 0
        for width, end in enumerate(self._by_width[1].tolist()):
            room = max(1, self.batch_tokens // width) if width else end
            while (start := max(begin, starts[-1] + room)) < end:
                starts.append(start)
            begin = end
        return np.array(starts)

    def __len__(self) -> int:
        """Batches in an epoch, where all epochs read the same examples."""
        return len(self._starts)

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch as indices into `items`, in their order."""
        random = self._random(epoch, skip=len(self.items))  # past the numbers that decide between equals
        # Within a width, sort by source length, so that neither side is padded much; a little noise mixes neighbours.
        noisy = random.uniform(-1, 1, len(self.items))
        noisy += self._source_lengths
        order, ends = self._by_width
        order, begin = order.copy(), 0
        for end in np.unique(ends).tolist():
            rows = order[begin:end]
            decided = np.argsort(noisy[rows])  # several times as fast as a sort by two keys
            if (np.diff(noisy[rows][decided]) == 0).any():
                decided = np.lexsort((self._random(epoch).random(len(self.items))[rows], noisy[rows]))
            order[begin:end] = rows[decided]
            begin = end
        places = [*pairwise(self._starts.tolist()), (int(self._starts[-1]), len(order))]
        return [order[slice(*places[index])] for index in random.permutation(len(places))]

    def _random(self, epoch: int, *, skip: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.seed, epoch]).advance(skip))

    def place_of(self, number: int) -> tuple[int, int]:
        """(epoch, position) after the first `number` batches."""
        if self.encode_epoch is None:
            return divmod(number, len(self))
        epoch = 0
        while number >= (length := len(self._read(epoch))):
            epoch, number = epoch + 1, number - length
        return epoch, number

    def _read(self, epoch: int) -> Bucketed:
        """The examples as this epoch reads them."""
        if self.encode_epoch is None:
            return self
        return Bucketed(
            self.encode_epoch(epoch),
            self.task,
            batch_tokens=self.batch_tokens,
            seed=self.seed,
            round_lengths=self.round_lengths,
        )

    def batches(self, epoch: int, position: int = 0) -> Iterator[tuple[int, int, Batch]]:
        """Endless batches from a position in an epoch: (epoch, position after this batch, batch)."""
        while True:
            current = self._read(epoch)
            order = current.epoch(epoch)
            for place in range(position, len(order)):
                items = [current.items[index] for index in order[place]]
                yield epoch, place + 1, collate(items, self.task, round_lengths=self.round_lengths)
            epoch, position = epoch + 1, 0


def on_grid(length: int) -> int:
    """The next length of a coarse grid, whose steps grow with the length.

    >>> [on_grid(length) for length in (3, 17, 33, 97, 200)]
    [4, 18, 36, 104, 208]
    """
    step = 2 if length <= 32 else 4 if length <= 96 else 8 if length <= 192 else 16
    return -(-length // step) * step


def in_sorted_batches(items: Sequence[Encoded], task: str, size: int) -> Iterator[Batch]:
    """Batches of at most `size` examples, longest sources first, for decoding; `Batch.indices` gives the order."""
    order = np.argsort(-lengths(items)[0], kind="stable").tolist()
    for first in range(0, len(order), size):
        yield collate([items[index] for index in order[first : first + size]], task)
