"""The section `strategy` of a configuration: a class for each `strategy.kind` of `strategies/`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seq2seq_suite.options.section import (
    Few,
    Fraction,
    NotNegative,
    NotNegativeFloat,
    PositiveFloat,
    Section,
    ShareOrNone,
)

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

Ratios = tuple[ShareOrNone, ShareOrNone]  # at the start and at the end of training


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


NO_WINDOW = Need(
    "backbone.decoder_kernel", (0).__eq__, "sees no symbols on both sides for a window", "backbone.decoder_kernel=0"
)
IN_PARALLEL = (
    Need("backbone.decoder", "transformer".__eq__, "predicts all symbols in parallel", "backbone.decoder=transformer"),
    Need("backbone.encoder", "none".__ne__, "predicts over an encoder's positions", "backbone.encoder=self_attention"),
)


class StrategyOptions(Section):
    """The options of any strategy."""

    kind: str
    consistency: NotNegativeFloat = 0.0  # weight of how much the predictions of two passes over a batch differ, which
    # have other dropout and masks: half of R-Drop's alpha, CR-CTC's own for ctc; training takes twice as long. 0: one
    # pass
    needs: ClassVar[tuple[Need, ...]] = IN_PARALLEL  # of other keys
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
        most = float((needed / sources.clamp(min=1)).max())
        return f"raise strategy.factor to {math.ceil(100 * most - 1e-4) / 100:g}"  # rounded up

    def check(self, config: Any) -> None:
        """Raise ValueError if the options do not fit the rest of the configuration."""

    def most_positions(self, source_length: int) -> int:
        """Decoder positions for a source of that length, unless the output's length decides."""
        return 0


class WithTranscript(StrategyOptions):
    """Options of a strategy with an optional CTC loss on the encoder, for speech."""

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
            raise ValueError(
                "strategy.language_weight predicts the source's symbols, for which backbone.encoder must "
                "be none and the source words or pieces, not sound, pictures or whole sentences"
            )


class AutoregressiveOptions(WithSource):
    """Left to right, one symbol at a time."""

    needs: ClassVar[tuple[Need, ...]] = (NO_WINDOW,)
    kind: Literal["autoregressive"] = "autoregressive"
    label_smoothing: Fraction = 0.1  # probability spread over all symbols
    scheduled_sampling: ShareOrNone = 0.0  # share of inputs from the model's own output


class ParallelOptions(WithTranscript):
    """What most parallel decoders' options begin with."""

    glancing: Ratios = (0.0, 0.0)  # share of wrongly predicted symbols revealed in training, at start and end


class ByLength(StrategyOptions):
    """Options of a decoder that predicts one of some lengths around the expected one first."""

    label_smoothing: Fraction = 0.0  # probability spread over all symbols
    length_ratio: NotNegativeFloat = 1.0  # target symbols per encoder position, about: the model
    # predicts the difference from it; 0 if targets are not longer for longer sources
    length_weight: NotNegativeFloat = 0.1  # of the length in the loss

    num_lengths: ClassVar[int] = 256
    crowded: ClassVar[str] = "of a length that is never predicted"

    def room(self, sources: Tensor) -> Tensor:
        """The largest length of `LengthClassifier`."""
        return (sources * self.length_ratio).round().long() + self.num_lengths // 2 - 1

    def needed(self, target: np.ndarray) -> int:
        """The symbols without END."""
        return len(target) - 1

    def more_room(self, sources: Tensor, needed: Tensor) -> str:
        """The ratio."""
        return super().more_room(sources, needed + 1 - self.num_lengths // 2).replace("factor", "length_ratio")


class LengthHeadOptions(ByLength, ParallelOptions):
    """All symbols in parallel, of a length that the encoder predicts; `search.beam_size` lengths are tried."""

    kind: Literal["length_head"] = "length_head"


class MaskPredictOptions(ByLength, WithTranscript):
    """All symbols in parallel, then the least probable ones again, `search.iterations` passes in all."""

    kind: Literal["mask_predict"] = "mask_predict"


class CutAtEndOptions(ParallelOptions):
    """A long output in parallel; everything after the first END is ignored."""

    kind: Literal["cut_at_end"] = "cut_at_end"
    label_smoothing: Fraction = 0.0  # probability spread over all symbols
    factor: PositiveFloat = 1.5  # decoder positions = factor * encoder positions; longer targets are cut
    extra: NotNegative = 8  # + extra
    crowded: ClassVar[str] = "cut"
    needs_room: ClassVar[bool] = True

    def most_positions(self, source_length: int) -> int:
        """`factor` times the source, and `extra`."""
        return max(1, int(source_length * self.factor) + self.extra)

    def room(self, sources: Tensor) -> Tensor:
        """factor * S' + extra, at least 1."""
        return ((sources * self.factor).long() + self.extra).clamp(min=1)

    def more_room(self, sources: Tensor, needed: Tensor) -> str:
        """Either key."""
        return (
            f"{super().more_room(sources, needed - self.extra)}, or strategy.extra by "
            f"{int((needed - self.room(sources)).max())}"
        )


class AgreementOptions(ParallelOptions):
    """Options of a decoder with more positions than symbols, whose loss is a sum over paths."""

    factor: PositiveFloat  # decoder positions for an encoder position
    agreement: Ratios = (0.0, 0.0)  # share of the expected disagreement with the target's bigrams in
    # the loss, at the start and at the end of training; the likelihood has the rest

    crowded: ClassVar[str] = "left out of the loss"
    needs_room: ClassVar[bool] = True
    least: ClassVar[int] = 1  # positions

    def most_positions(self, source_length: int) -> int:
        """`factor` times the source."""
        return math.ceil(source_length * self.factor)

    def room(self, sources: Tensor) -> Tensor:
        """factor * S'."""
        return (sources * self.factor).ceil().long().clamp(min=self.least)


class CtcOptions(AgreementOptions):
    """Symbols and blanks in parallel over an upsampled source; repetitions are merged, blanks dropped."""

    kind: Literal["ctc"] = "ctc"
    factor: PositiveFloat = 2.0  # decoder positions for an encoder position; 1 for speech

    def needed(self, target: np.ndarray) -> int:
        """The symbols without END, and a blank between equal ones."""
        return len(target) - 1 + int((target[1:-1] == target[:-2]).sum())


class DagOptions(AgreementOptions):
    """A graph whose vertices emit symbols: every path is an output (Directed Acyclic Transformer)."""

    kind: Literal["dag"] = "dag"
    least: ClassVar[int] = 2  # vertices
    factor: PositiveFloat = 4.0  # lambda, vertices per encoder position


class BlocksOptions(WithSource):
    """Blocks from left to right, the symbols of each in any order (block diffusion)."""

    needs: ClassVar[tuple[Need, ...]] = (
        NO_WINDOW,
        Need(
            "backbone.decoder",
            "transformer".__eq__,
            "predicts the symbols of a block together",
            "backbone.decoder=transformer",
        ),
        Need(
            "backbone.positions",
            lambda kind: kind not in ("rotary", "alibi", "t5"),
            "reads two copies of the target side by side, whose distances are not those of their symbols",
            "backbone.positions=sinusoidal",
        ),
        Need(
            "backbone.decoder_steps",
            (1).__eq__,
            "reads two copies of the target side by side, of which each step would number the columns",
            "backbone.decoder_steps=1",
        ),
    )
    of_places: ClassVar[dict[str, tuple[str, ...]]] = {  # of labels
        "head": ("none",),
        "decision": ("best",),
        "order": ("frequency", "given"),
    }
    longest_draft: ClassVar[int] = (
        32  # some 2 GB of attention for 128 sentences; twice as long a one has 16 times as much
    )
    kind: Literal["blocks"] = "blocks"
    label_smoothing: Fraction = 0.1  # probability spread over all symbols
    block: Few = 4  # symbols of a block; 1 is left to right
    blocks: tuple[Few, ...] = ()  # lengths, of which each batch of the training draws one; none: always `block`
    joint: NotNegativeFloat = 4.0  # weight of the left-to-right loss, which teaches what search.order verified writes
    copy_ratio: NotNegativeFloat = (
        0.0  # target symbols per encoder position, about: hidden symbols' slots also read the
    )
    # encoder's state at their place, as a length head's do; 0: they do not
    weighting: Literal["bound", "none"] = "bound"  # of hidden symbols: block / those hidden in it, as the bound on the
    # log-likelihood has it; or all alike
    tail: Literal["end", "none"] = "end"  # what is learned behind END in its block: END again, or nothing

    def check(self, config: Any) -> None:
        """Labels have a place each, and blocks need room behind the longest output."""
        super().check(config)
        if config.target == "labels":
            for key, allowed in self.of_places.items():
                if (value := getattr(config.options, key)) not in allowed:
                    raise ValueError(
                        f"strategy.kind blocks gives each label a place, which multilabel.{key} {value} "
                        f"does not: set multilabel.{key}={allowed[0]}"
                    )
        drafted = config.search.block or self.block
        if config.search.order == "verified" and drafted > self.longest_draft:
            raise ValueError(
                f"search.order verified drafts {drafted:,} blocks of {drafted:,} symbols in a pass, for each "
                f"sentence: set search.block={self.longest_draft} or less, which leaves the outputs as they are"
            )
        most, options = max(self.block, *self.blocks, config.search.block), config.options
        read = options.source_positions(config) if config.backbone.encoder == "none" and options.numbered else 0
        needed = read + options.target_symbols(config) + 2 * most
        if needed > config.backbone.max_positions:
            raise ValueError(
                f"blocks of {most} symbols need 2 * {most} positions more than the longest output, "
                f"{needed} in all, but backbone.max_positions is {config.backbone.max_positions}"
            )


class SlotsOptions(StrategyOptions):
    """All objects of a picture in parallel, each by one of many slots on a grid over it (detection)."""

    needs: ClassVar[tuple[Need, ...]] = (*IN_PARALLEL, NO_WINDOW)
    kind: Literal["slots"] = "slots"
    grid: tuple[Few, Few] = (8, 8)  # rows and columns of slots: no fewer than objects, and some to spare
    anchor_weight: NotNegativeFloat = 2.0  # of the squared distance, in slots, when objects are assigned
    slots_per_object: Few = 1  # slots trained on each object; detection.max_overlap drops duplicates

    def check(self, config: Any) -> None:
        """There must be a slot for each object."""
        slots, most = math.prod(self.grid), getattr(config.options, "instances", 0)
        if slots < most * self.slots_per_object:
            raise ValueError(
                f"strategy.grid has {slots} slots, fewer than detection.instances {most} times "
                f"strategy.slots_per_object {self.slots_per_object}"
            )
