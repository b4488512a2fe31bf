"""Learning-rate schedules: what `training.schedule` names, and the factor on the peak rate of each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2seq_suite.options.training import Training


def inverse_sqrt(options: Training, update: int, fraction: float) -> float:
    """sqrt(warmup / (update + 1)) from the end of the warm-up; Vaswani et al. 2017, eq. 3 up to scale."""
    warmup = max(options.warmup_updates, 1)
    return math.sqrt(warmup / max(update + 1, warmup))


def cosine(options: Training, update: int, fraction: float) -> float:
    """(1 + cos(pi * fraction)) / 2; Loshchilov & Hutter 2017, eq. 5."""
    return 0.5 * (1.0 + math.cos(math.pi * fraction))


def power(options: Training, update: int, fraction: float) -> float:
    """(1 - fraction)^decay_power."""
    return (1.0 - fraction) ** options.decay_power


def constant(options: Training, update: int, fraction: float) -> float:
    """1."""
    return 1.0


# The list of all; each is called with the section `training`, the updates done, and the share of the run that is done,
# in [0, 1].
SCHEDULES: dict[str, Callable[[Training, int, float], float]] = {
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "power": power,
    "constant": constant,
}
