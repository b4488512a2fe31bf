"""Auxiliary losses beside the target's own; `auxiliary_losses` has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from seq2seq_suite.model.modules import ModuleDict

if TYPE_CHECKING:
    from seq2seq_suite.common.types import Batch, Hypothesis, Loss, States


class Auxiliary(nn.Module, ABC):
    """A loss on the encoder's output, for the entry of that name in `Batch.auxiliary`.

    Args:
        name: of the loss.
        head: reads the encoder's output.
        weight: in the loss.
    """

    takes_share: ClassVar[bool] = False  # the target's own losses keep 1 - weight

    def __init__(self, name: str, head: nn.Module, weight: float):
        super().__init__()
        self.name, self.head, self.weight = name, head, weight

    def is_in(self, batch: Batch) -> bool:
        """Whether the batch has this loss's targets."""
        return self.name in batch.auxiliary

    def predict(self, states: States) -> list[tuple[int, ...]] | None:
        """Its predictions for each source, under its name in `Hypothesis.details`; None if it makes none."""
        return None

    @abstractmethod
    def count(self, batch: Batch) -> int | Tensor:
        """How many items `loss` sums over."""

    @abstractmethod
    def loss(self, states: States, batch: Batch) -> Tensor:
        """Summed over the batch, float32."""


class Auxiliaries(ModuleDict[Auxiliary]):
    """All auxiliary losses, by name."""

    def __init__(self, parts: Iterable[Auxiliary] = ()):
        super().__init__({part.name: part for part in parts})

    def counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """The counts that `added` will give."""
        return {name: part.count(batch) for name, part in self.items() if part.is_in(batch)}

    def added(self, loss: Loss, batch: Batch, states: States) -> Loss:
        """The target's loss with the others that it has not yet; `states` are the encoder's output."""
        sums, weights, counts = dict(loss.sums), dict(loss.weights), loss.counts | self.counts(batch)
        for name, part in self.items():
            if part.is_in(batch):
                weights[name] = part.weight
                if name not in sums:
                    sums[name] = part.loss(states, batch)
                if part.takes_share:
                    weights |= {own: weights[own] * (1.0 - part.weight) for own in loss.weights}
        return replace(loss, sums=sums, counts=counts, weights=weights)

    def annotated(self, found: Sequence[list[Hypothesis]], states: States) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, with predicted labels of its source positions if they are learned."""
        labels = {name: rows for name, part in self.items() if (rows := part.predict(states)) is not None}
        if not labels:
            return list(found)
        return [
            [
                replace(one, details={**one.details, **{name: rows[place] for name, rows in labels.items()}})
                for one in hypotheses
            ]
            for place, hypotheses in enumerate(found)
        ]
