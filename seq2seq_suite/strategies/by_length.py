"""How long outputs can be whose lengths are predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from torch import Tensor

from seq2seq_suite.strategies.base import StrategyOptions

CLASSES, MIDDLE = 256, 128  # number of length classes, and the class of the expected length


class ByLength(StrategyOptions):
    """Of options with a `length_ratio`."""

    if TYPE_CHECKING:
        length_ratio: float

    crowded: ClassVar[str] = "of a length that is never predicted"

    def room(self, sources: Tensor) -> Tensor:
        """The largest length of `LengthClassifier`."""
        return (sources * self.length_ratio).round().long() + CLASSES - 1 - MIDDLE

    def needed(self, target: np.ndarray) -> int:
        """The symbols without END."""
        return len(target) - 1

    def more_room(self, sources: Tensor, needed: Tensor) -> str:
        """The ratio."""
        return super().more_room(sources, needed + MIDDLE + 1 - CLASSES).replace("factor", "length_ratio")
