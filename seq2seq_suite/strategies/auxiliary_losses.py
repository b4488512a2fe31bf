"""The auxiliary losses: labels of source positions, a recording's transcript, the source itself."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import BLANK, Batch, States, source_symbols
from seq2seq_suite.model.output import OutputLayer
from seq2seq_suite.strategies.auxiliary import Auxiliary
from seq2seq_suite.strategies.ctc_head import CtcHead


class Labels(Auxiliary):
    """A label for each source position, (B,S) int64 with -1 for none; the head is linear."""

    def count(self, batch: Batch) -> Tensor:
        """Labels that there are."""
        return (batch.auxiliary[self.name] >= 0).sum()

    def loss(self, states: States, batch: Batch) -> Tensor:
        """Cross-entropy."""
        return functional.cross_entropy(
            self.head(states.values).float().flatten(0, 1),
            batch.auxiliary[self.name].flatten(),
            ignore_index=-1,
            reduction="sum",
        )

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
        return batch.source_positions.numel()

    def loss(self, states: States, batch: Batch) -> Tensor:
        """-log p of each of them."""
        hidden, symbols = (
            part.flatten(0, 1).index_select(0, batch.source_positions)
            for part in (states.values[:, :-1], source_symbols(batch.source)[:, 1:])
        )
        return self.head.cross_entropy(hidden, symbols)
