"""Examples that are made on demand: all of them would not fit into memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

from seq2seq_suite.common.examples import Encoded

Made = TypeVar("Made")


class OnDemand(Sequence[Made], Generic[Made]):
    """A sequence whose items are made when they are asked for.

    Args:
        make: index -> item, the same one each time.
        count: how many there are.
    """

    def __init__(self, make: Callable[[int], Made], count: int):
        self.make, self._size = make, count

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self.make(index) for index in range(*place.indices(self._size))]
        return self.make(range(self._size)[place])


def chained(parts: Sequence[Sequence[Made]]) -> Sequence[Made]:
    """The items of several sequences, one after the other.

    >>> list(chained(["ab", "", "c"]))
    ['a', 'b', 'c']
    """
    ends = list(accumulate(map(len, parts)))

    def make(index: int) -> Made:
        part = bisect_right(ends, index)
        return parts[part][index - (ends[part - 1] if part else 0)]

    return OnDemand(make, ends[-1])


class Drawn(OnDemand[Encoded]):
    """Examples that are made on demand; their lengths are known in advance.

    Args:
        make: index -> example, the same one each time.
        source_lengths, target_lengths: (examples,) integers.
        digest: a hash of all of them, if it is known.
    """

    def __init__(
        self,
        make: Callable[[int], Encoded],
        *,
        source_lengths: Sequence[int] | np.ndarray,
        target_lengths: Sequence[int] | np.ndarray,
        digest: str = "",
    ):
        super().__init__(make, len(target_lengths))
        self.source_lengths, self.target_lengths = np.asarray(source_lengths), np.asarray(target_lengths)
        self.digest = digest
