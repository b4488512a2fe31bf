"""Examples that are made on demand: a whole epoch of them would not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seq2seq_suite.types import Encoded


class Drawn(Sequence[Encoded]):
    """Examples that are made on demand; their lengths are known in advance.

    Args:
        make: index -> example, the same one each time.
        source_lengths, target_lengths: (examples,) int64.
    """

    def __init__(self, make: Callable[[int], Encoded], *, source_lengths: Sequence[int], target_lengths: Sequence[int]):
        self.make = make
        self.source_lengths, self.target_lengths = np.array(source_lengths), np.array(target_lengths)

    def __len__(self) -> int:
        return len(self.target_lengths)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self.make(index) for index in range(*place.indices(len(self)))]
        return self.make(range(len(self))[place])
