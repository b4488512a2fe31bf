"""The losses that the next row of metrics.jsonl is the mean of."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_suite.prediction.predictor import defined_means
from seq2seq_suite.training.checkpoint import Progress

_UPDATES = "updates of "  # before a loss's name: how many updates had it


class Interval:
    """Sums of losses since `training.log_every` was reached last, and where it began."""

    def __init__(self, progress: Progress):
        kept = progress.since_logged
        self.tokens, self.seconds = kept.get("tokens", progress.tokens), kept.get("seconds", progress.seconds)
        self._updates = {
            name.removeprefix(_UPDATES): value for name, value in kept.items() if name.startswith(_UPDATES)
        }
        self._sums: dict[str, float | Tensor] = {name: torch.tensor(kept[name]) for name in self._updates}

    def add(self, losses: dict[str, Tensor]) -> None:
        """The mean losses of an update."""
        for name, loss in losses.items():  # of a joint run an update holds the losses of some tasks
            self._updates[name] = self._updates.get(name, 0.0) + 1.0
            self._sums[name] = self._sums.get(name, 0.0) + loss

    def means(self) -> dict[str, float]:
        """Of each loss over the updates that had it."""
        return defined_means({name: float(total) / self._updates[name] for name, total in self._sums.items()})

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps of it."""
        return {
            "tokens": self.tokens,
            "seconds": self.seconds,
            **{_UPDATES + name: count for name, count in self._updates.items()},
            **{name: float(total) for name, total in self._sums.items()},
        }
