"""What a strategy is: the only place where autoregressive and non-autoregressive models differ."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.strategies.search import SearchOptions
from seq2seq_suite.types import Batch, Constraint, Hypothesis, Loss


class Strategy(Protocol):
    """How a model learns targets and writes them.

    One that changes as training goes has an attribute `progress`, the share of the training that is over; the trainer
    sets it before each update.
    """

    def counts(self, model: Seq2Seq, batch: Batch) -> dict[str, int]:
        """The counts that `loss` will give, known before any computation."""

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """Named sums and counts over a batch."""

    def generate(self, model: Seq2Seq, batch: Batch, *, options: SearchOptions, limit: Tensor,
                 constraint: Constraint | None = None) -> list[list[Hypothesis]]:
        """For each item of the batch its hypotheses, best first.

        Args:
            model: in evaluation mode.
            batch: its source is read, its target ignored.
            options: how to search.
            limit: (B,) int64, longest output, END included.
            constraint: the task's automaton; needed by a model with a guide.
        """
