"""The interface of a strategy: the only place where autoregressive and non-autoregressive models differ."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from seq2seq_suite.options.section import Fraction, NotNegativeFloat, Section
from seq2seq_suite.strategies.auxiliary import Auxiliaries

if TYPE_CHECKING:
    import numpy as np

    from seq2seq_suite.common.shapes import TargetShape
    from seq2seq_suite.common.types import Batch, Constraint, Hypothesis, Loss, SymbolGain
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions


@dataclass(frozen=True)
class Need:
    """What a strategy needs of another key.

    Args:
        key: dotted.
        suits: recognises the valid values.
        why: the reason, as a property of the strategy.
        remedy: a valid value, as `key=value`.
    """

    key: str
    suits: Callable[[Any], bool]
    why: str
    remedy: str


NO_WINDOW = Need("backbone.decoder_kernel", (0).__eq__, "sees no symbols on both sides for a window",
                 "backbone.decoder_kernel=0")
IN_PARALLEL = (
    Need("backbone.decoder", "transformer".__eq__, "predicts all symbols in parallel", "backbone.decoder=transformer"),
    Need("backbone.encoder", "none".__ne__, "predicts over an encoder's positions", "backbone.encoder=self_attention"),
)


class StrategyOptions(Section):
    """The section `strategy` of a configuration; each kind has its own."""

    kind: str
    crowded: ClassVar[str] = ""  # what becomes of targets that need more positions than there are
    needs_room: ClassVar[bool] = False  # whether nothing is learned from such targets

    @property
    def auxiliary_weights(self) -> dict[str, float]:
        """Weights of the auxiliary losses, by name."""
        return {}

    def room(self, sources: Tensor) -> Tensor | None:
        """(N,) int64, the decoder's positions for as many of the encoder (N,); None if the output's length decides."""
        return None

    def needed(self, target: np.ndarray) -> int:
        """How many positions a target (T,) int64 with END needs."""
        return len(target)

    def more_room(self, sources: Tensor, needed: Tensor) -> str:
        """Which key gives targets that need (N,) positions their room, and how much of it."""
        return f"raise strategy.factor to {_rounded_up(needed / sources.clamp(min=1))}"

    def check(self, config: Any) -> None:
        """Raise ValueError if the options do not fit the rest of the configuration."""

    def most_positions(self, source_length: int) -> int:
        """Decoder positions for a source of that length, unless the output's length decides."""
        return 0


def _rounded_up(ratios: Tensor) -> str:
    """The largest of them, with two decimals at most."""
    return f"{math.ceil(100 * float(ratios.max()) - 1e-4) / 100:g}"


class WithTranscript(StrategyOptions):
    """Options of a strategy with an optional CTC loss on the encoder, for speech."""

    kind: str
    ctc_weight: Fraction = 0.0  # of the transcript's CTC loss on the encoder (speech); the target's loss has the rest

    @property
    def auxiliary_weights(self) -> dict[str, float]:
        """Of the transcript."""
        return {"ctc": self.ctc_weight}


class WithSource(WithTranscript):
    """Options of a strategy with an optional language-model loss on the source."""

    language_weight: NotNegativeFloat = 0.0  # lambda of L3 = L2 + lambda L1 (GPT): the source's symbols
    # are predicted, too, where backbone.encoder is none

    @property
    def auxiliary_weights(self) -> dict[str, float]:
        """Of transcript and source."""
        return {**super().auxiliary_weights, "language": self.language_weight}

    def check(self, config: Any) -> None:
        """Only a decoder that reads the source's symbols can predict them."""
        if self.language_weight and (config.backbone.encoder != "none" or not config.options.reads_symbols):
            raise ValueError("strategy.language_weight predicts the source's symbols, for which backbone.encoder must "
                             "be none and the source words or pieces, not sound, pictures or whole sentences")


class Strategy(nn.Module, ABC):
    """How a model learns and decodes targets.

    Args:
        options: of the class `Options`.
        target: what the task's target asks.
        width: D of the model.
        auxiliaries: auxiliary losses, or None.
    """

    Options: ClassVar[type[StrategyOptions]]
    writes: ClassVar[tuple[str, ...]]  # the kinds of targets, see `TaskOptions.target`
    needs: ClassVar[tuple[Need, ...]] = IN_PARALLEL  # of other keys
    uses: ClassVar[tuple[str, ...]] = ()  # keys of `search` that only some strategies use
    in_parallel: ClassVar[bool] = True  # or symbol by symbol, from left to right
    predicts_length: ClassVar[bool] = False  # whether the output's length is predicted before its symbols
    positions_are: ClassVar[str] = "symbols"  # what a parallel decoder's positions are: symbols of the output, frames
    # with blanks and repeated symbols, or vertices of a graph

    def __init__(self, options: StrategyOptions, target: TargetShape, width: int,
                 auxiliaries: Auxiliaries | None = None):
        super().__init__()
        self.options, self.target, self.auxiliaries = options, target, auxiliaries or Auxiliaries()
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
    def generate(self, model: Seq2Seq, batch: Batch, *, options: SearchOptions, limit: Tensor,
                 constraint: Constraint | None = None) -> list[list[Hypothesis]]:
        """The hypotheses of each item, best first.

        Args:
            model: in evaluation mode.
            batch: its source is read, its target ignored.
            options: how to search.
            limit: (B,) int64, longest output, END included.
            constraint: the task's automaton; needed by a model with a guide.
        """
