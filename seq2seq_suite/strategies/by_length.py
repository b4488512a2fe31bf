"""How long outputs can be whose lengths are predicted."""

from __future__ import annotations

import numpy as np
from torch import Tensor

CLASSES, MIDDLE = 256, 128  # lengths that are told apart, and which of them is the expected one


class ByLength:
    """Of options with a `length_ratio`."""

    crowded = "of a length that is never predicted"

    def room(self, sources: Tensor) -> Tensor:
        """The largest length of `LengthClassifier`."""
        return (sources * self.length_ratio).round().long() + CLASSES - 1 - MIDDLE

    def needed(self, target: np.ndarray) -> int:
        """The symbols without END."""
        return len(target) - 1

    def more_room(self, sources: Tensor, needed: Tensor) -> str:
        """The ratio."""
        return super().more_room(sources, needed + MIDDLE + 1 - CLASSES).replace("factor", "length_ratio")
