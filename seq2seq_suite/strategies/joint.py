"""Several tasks at once: each batch is learned as its own task's strategy says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from torch import nn

from seq2seq_suite.model.joint import JointModel
from seq2seq_suite.strategies.base import Strategy
from seq2seq_suite.types import Batch, Loss

_Value = TypeVar("_Value")


class JointStrategy(nn.Module):
    """The losses of `Batch.task`, named `task/loss`.

    Args:
        parts: name -> the task's strategy.
        weights: name -> weight of the task's loss, a mean over its own symbols.
    """

    def __init__(self, parts: Mapping[str, Strategy], weights: Mapping[str, float]):
        super().__init__()
        self.parts, self.weights = nn.ModuleDict(parts), dict(weights)

    @property
    def fraction_done(self) -> float:
        """The share of the training that is over, the same for all parts."""
        return next(iter(self.parts.values())).fraction_done

    @fraction_done.setter
    def fraction_done(self, share: float) -> None:
        for part in self.parts.values():
            part.fraction_done = share

    def counts(self, model: JointModel, batch: Batch) -> dict[str, int]:
        """The counts that `loss` will give."""
        return _named(batch.task, self.parts[batch.task].counts(model.parts[batch.task], batch))

    def loss(self, model: JointModel, batch: Batch) -> Loss:
        """Named sums and counts over a batch."""
        own = self.parts[batch.task].loss(model.parts[batch.task], batch)
        weights = {name: self.weights[batch.task] * weight for name, weight in own.weights.items()}
        return Loss(_named(batch.task, own.sums), _named(batch.task, own.counts), _named(batch.task, weights))


def _named(task: str, values: Mapping[str, _Value]) -> dict[str, _Value]:
    return {f"{task}/{name}": value for name, value in values.items()}
