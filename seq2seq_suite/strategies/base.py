"""The interface of a strategy: the only place where autoregressive and non-autoregressive models differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

if TYPE_CHECKING:
    from seq2seq_suite.common.shapes import TargetShape
    from seq2seq_suite.common.types import Batch, Constraint, Hypothesis, Loss, SymbolGain
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.options.strategies import StrategyOptions
    from seq2seq_suite.strategies.auxiliary import Auxiliaries


class Strategy(nn.Module, ABC):
    """How a model learns and decodes targets.

    Args:
        options: of the class `Options`.
        target: what the task's target asks.
        width: D of the model.
        auxiliaries: the auxiliary losses.
    """

    Options: ClassVar[type[StrategyOptions]]  # by default set from the annotation of `options`: see `strategies.KINDS`
    writes: ClassVar[tuple[str, ...]]  # the kinds of targets, see `TaskOptions.target`
    uses: ClassVar[tuple[str, ...]] = ()  # keys of `search` that only some strategies use
    in_parallel: ClassVar[bool] = True  # or symbol by symbol, from left to right
    predicts_length: ClassVar[bool] = False  # whether the output's length is predicted before its symbols
    positions_are: ClassVar[str] = "symbols"  # what a parallel decoder's positions are: symbols of the output, frames
    # with blanks and repeated symbols, or vertices of a graph

    def __init__(self, options: StrategyOptions, target: TargetShape, width: int, auxiliaries: Auxiliaries):
        super().__init__()
        self.options, self.target, self.auxiliaries = options, target, auxiliaries
        self.language: SymbolGain | None = None  # `Task.language`
        self.fraction_done = 0.0  # share of the training that is done; the trainer sets it before each update

    def counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """The counts that `loss` will return, known in advance."""
        return self.own_counts(batch) | self.auxiliaries.counts(batch)

    @abstractmethod
    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """Those of the target's own losses."""

    def encode_source(self, model: Seq2Seq, batch: Batch) -> Memory:
        """Encode the source: the memory for decoding, with the strategy's additions to the logits."""
        return model.prepare(model.encode(batch))

    @abstractmethod
    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """Named sums and counts over a batch."""

    @abstractmethod
    def generate(
        self,
        model: Seq2Seq,
        batch: Batch,
        *,
        options: SearchOptions,
        limit: Tensor,
        constraint: Constraint | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each item, best first.

        Args:
            model: in evaluation mode.
            batch: its source is read, its target ignored.
            options: how to search.
            limit: (B,) int64, longest output, END included.
            constraint: the task's automaton; needed by a model with a guide.
        """
