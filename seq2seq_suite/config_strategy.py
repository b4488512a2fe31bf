"""How outputs are learned and looked for: the strategies, of which a configuration has one, and the search."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2seq_suite.config_section import (
    Few,
    Fraction,
    NotNegative,
    NotNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    Share,
    ShareOrNone,
)


class Autoregressive(Section):
    """Left to right, one symbol at a time."""

    kind: Literal["autoregressive"] = "autoregressive"
    label_smoothing: Fraction = 0.1
    scheduled_sampling: ShareOrNone = 0.0  # share of inputs from the model's own output
    ctc_weight: Fraction = 0.0  # of the transcript's CTC loss on the encoder (speech); cross-entropy keeps the rest
    language_weight: NotNegativeFloat = 0.0  # lambda of L3 = L2 + lambda L1 (GPT): the source's symbols
    # are foreseen, too, where backbone.encoder is none


Ratios = tuple[ShareOrNone, ShareOrNone]


class LengthHead(Section):
    """All symbols at once, of a length that the encoder predicts; `search.beam_size` lengths are tried."""

    kind: Literal["length_head"]
    label_smoothing: Fraction = 0.0
    length_ratio: NotNegativeFloat = 1.0  # target symbols for an encoder position, about: what is
    # predicted is the difference from it; 0 where targets are not longer for longer sources
    length_weight: NotNegativeFloat = 0.1  # of the length in the loss
    glancing: Ratios = (0.0, 0.0)  # times the missed symbols: target symbols shown at the training's beginning and end
    ctc_weight: Fraction = 0.0  # of the transcript's CTC loss on the encoder (speech)


class MaskPredict(Section):
    """All symbols at once, then the least sure ones anew, `search.iterations` times in all."""

    kind: Literal["mask_predict"]
    label_smoothing: Fraction = 0.0
    length_ratio: NotNegativeFloat = 1.0
    length_weight: NotNegativeFloat = 0.1
    ctc_weight: Fraction = 0.0


class CutAtEnd(Section):
    """A long output at once, of which all that follows the first END is ignored."""

    kind: Literal["cut_at_end"]
    label_smoothing: Fraction = 0.0
    factor: PositiveFloat = 1.5  # decoder positions = factor * encoder positions
    extra: NotNegative = 8  # + extra
    end_weight: NotNegativeFloat = 0.1  # of END after the first one
    glancing: Ratios = (0.0, 0.0)
    ctc_weight: Fraction = 0.0


class Ctc(Section):
    """Symbols and blanks at once over a stretched source; what repeats is merged, blanks are dropped."""

    kind: Literal["ctc"]
    factor: PositiveFloat = 2.0  # decoder positions for an encoder position; 1 for speech
    glancing: Ratios = (0.0, 0.0)
    agreement: Ratios = (0.0, 0.0)  # share of the loss, at the training's beginning and end, that is the expected
    # disagreement with the target's bigrams wherever they stand; the likelihood keeps the rest
    ctc_weight: Fraction = 0.0


class Dag(Section):
    """A graph whose vertices write symbols: every path is an output (Directed Acyclic Transformer)."""

    kind: Literal["dag"]
    factor: PositiveFloat = 4.0  # vertices for an encoder position
    link_heads: Positive = 4
    glancing: Ratios = (0.0, 0.0)
    agreement: Ratios = (0.0, 0.0)  # as of ctc
    ctc_weight: Fraction = 0.0


class Slots(Section):
    """All objects of a picture at once, each by one of many slots that lie over it (detection)."""

    kind: Literal["slots"]
    grid: tuple[Few, Few] = (8, 8)  # rows and columns of slots: no fewer than objects, and some to spare
    anchor_weight: NotNegativeFloat = 2.0  # of squared distance, in slots, when objects are given out


Strategy = Annotated[Autoregressive | LengthHead | MaskPredict | CutAtEnd | Ctc | Dag | Slots,
                     Field(discriminator="kind")]


class Search(Section):
    """How outputs are looked for."""

    beam_size: Annotated[int, Field(gt=0, le=10_000)] = 1  # 1 is greedy
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6  # alpha of ((5+T)/6)^alpha, Wu et al. 2016 eq. 14
    num_hypotheses: Annotated[int, Field(gt=0, le=10_000)] = 1  # n-best, at most beam_size
    sampling: bool = False  # draw from the distribution instead of beam search
    temperature: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0  # logits are divided by it
    top_k: NotNegative = 0  # 0 keeps all
    top_p: Share = 1.0
    max_length_factor: PositiveFloat = 6.0  # longest output, END included = factor * source length
    max_length_extra: Positive = 20  # + extra
    batch_sentences: Positive = 128  # sentences decoded at a time
    constraint: bool = True  # keep outputs well formed by the task's automaton
    ctc_weight: ShareOrNone = 0.0  # share of CTC's prefix scores (speech); 1: CTC alone
    iterations: Few = 10  # of strategy mask_predict
    rescorer: str = ""  # an autoregressive run's directory: it chooses among a parallel decoder's outputs
    lookahead: bool = True  # of strategy dag: a link is weighed together with what its vertex writes

    @model_validator(mode="after")
    def _enough_beams(self) -> Search:
        if self.num_hypotheses > 1 and not self.sampling and self.num_hypotheses > self.beam_size:
            raise ValueError(f"search.num_hypotheses {self.num_hypotheses} exceeds search.beam_size {self.beam_size}")
        return self
