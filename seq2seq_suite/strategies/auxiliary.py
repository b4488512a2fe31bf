"""Auxiliary losses: labels of source positions, a recording's transcript, the source itself, experts' load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import BLANK, Batch, Hypothesis, Loss, States
from seq2seq_suite.model.frontends import tokens_of
from seq2seq_suite.model.output import OutputLayer
from seq2seq_suite.strategies.ctc_head import CtcHead


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

    @abstractmethod
    def count(self, batch: Batch) -> int | Tensor:
        """How many items `loss` sums over."""

    @abstractmethod
    def loss(self, states: States, batch: Batch) -> Tensor:
        """Summed over the batch, float32."""


class Labels(Auxiliary):
    """A label for each source position, (B,S) int64 with -1 for none; the head is linear."""

    def count(self, batch: Batch) -> Tensor:
        """Labels that there are."""
        return (batch.auxiliary[self.name] >= 0).sum()

    def loss(self, states: States, batch: Batch) -> Tensor:
        """Cross-entropy."""
        return functional.cross_entropy(self.head(states.values).float().flatten(0, 1),
                                        batch.auxiliary[self.name].flatten(), ignore_index=-1, reduction="sum")

    def predict(self, states: States) -> list[tuple[int, ...]]:
        """The likeliest label of each source position, for each sentence."""
        rows, lengths = self.head(states.values).argmax(-1).tolist(), states.mask.sum(1).tolist()
        return [tuple(row[:length]) for row, length in zip(rows, lengths, strict=True)]


class Transcript(Auxiliary):
    """A recording's transcript, (B,U) int64 padded with the blank, by CTC.

    Source: Watanabe et al. 2017, eq. 9 (CTC and attention).
    """

    takes_share = True
    head: CtcHead

    def count(self, batch: Batch) -> Tensor:
        """Symbols of the transcripts."""
        return (batch.auxiliary[self.name] != BLANK).sum()

    def loss(self, states: States, batch: Batch) -> Tensor:
        """-log p of each transcript."""
        return self.head.loss(states, batch.auxiliary[self.name])


class Language(Auxiliary):
    """Each symbol of the source but its first, given the symbols before it, if the decoder reads the source.

    Source: Radford et al. 2018, eq. 5 (L3 = L2 + lambda L1, here with means over symbols).
    """

    head: OutputLayer

    def is_in(self, batch: Batch) -> bool:
        """Every batch has a source."""
        return True

    def count(self, batch: Batch) -> int:
        """Symbols of the source but the first ones."""
        return batch.following.numel()

    def loss(self, states: States, batch: Batch) -> Tensor:
        """-log p of each of them."""
        hidden, symbols = (part.flatten(0, 1).index_select(0, batch.following)
                           for part in (states.values[:, :-1], tokens_of(batch.source)[:, 1:]))
        return self.head.cross_entropy(hidden, symbols)


class Auxiliaries(nn.ModuleDict):
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
        return Loss(sums, counts, weights)

    def annotated(self, found: Sequence[list[Hypothesis]], states: States) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, with predicted labels of its source positions if they are learned."""
        labels = {name: part.predict(states) for name, part in self.items() if isinstance(part, Labels)}
        if not labels:
            return list(found)
        return [[replace(one, details={**one.details, **{name: rows[place] for name, rows in labels.items()}})
                 for one in hypotheses] for place, hypotheses in enumerate(found)]
