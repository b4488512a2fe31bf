"""How outputs are searched for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, overload

from pydantic import Field, model_validator

from seq2seq_suite.options.section import Few, NotNegative, Positive, PositiveFloat, Section, Share, ShareOrNone

if TYPE_CHECKING:
    from torch import Tensor


class Search(Section):
    """How outputs are searched for."""

    beam_size: Annotated[int, Field(gt=0, le=10_000)] = 1  # 1 is greedy
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6  # alpha of ((5+T)/6)^alpha, Wu et al. 2016 eq. 14
    num_hypotheses: Annotated[int, Field(gt=0, le=10_000)] = 1  # n-best, at most beam_size
    sampling: bool = False  # draw from the distribution instead of beam search
    temperature: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0  # logits are divided by it
    top_k: NotNegative = 0  # 0 keeps all
    top_p: Share = 1.0  # keep the most probable symbols up to this total probability (nucleus sampling)
    max_length_factor: PositiveFloat = 6.0  # longest output, END included = factor * source length
    max_length_extra: Positive = 20  # + extra
    min_length: NotNegative = 0  # fewest symbols of an output of free text, without END
    no_repeat_ngram: NotNegative = 0  # no n symbols twice in an output of free text; 0 allows it
    repetition_penalty: Annotated[float, Field(ge=1.0, le=10.0)] = 1.0  # logits of symbols in the output are divided by
    # it if positive, else multiplied, Keskar et al. 2019
    batch_sentences: Positive = 128  # sentences decoded at a time
    constraint: bool = True  # keep outputs well-formed by the task's automaton
    ctc_weight: ShareOrNone = 0.0  # weight of CTC's prefix scores (speech); 1: CTC alone
    iterations: Few = 10  # of strategy mask_predict
    drafter: str = ""  # proposes outputs that greedy search only verifies: the directory of a smaller or parallel run,
    # or ctc for the encoder's own CTC head (speech); same outputs, faster for single sentences
    compile: bool = False  # compiled steps of greedy and beam search: on a CPU in C++, twice as fast, built
    # at the first use on a machine in two to three seconds; on CUDA a graph of a step's kernels. Not for ensembles
    rescorer: str = ""  # an autoregressive run's directory, to rescore a parallel decoder's outputs

    @model_validator(mode="after")
    def _enough_beams(self) -> Search:
        if self.num_hypotheses > 1 and not self.sampling and self.num_hypotheses > self.beam_size:
            raise ValueError(f"search.num_hypotheses {self.num_hypotheses} exceeds search.beam_size {self.beam_size}")
        return self

    def changed(self, **changes: Any) -> Search:
        """With other values of some fields."""
        return self.model_copy(update=changes)

    @overload
    def normalise(self, log_probability: float, length: int) -> float: ...

    @overload
    def normalise(self, log_probability: Tensor, length: Tensor | int) -> Tensor: ...

    def normalise(self, log_probability: Any, length: Any) -> Any:
        """score = log p(y) / ((5 + T) / 6)^alpha, T counting END.

        Source: Wu et al. 2016, eq. 14, without the coverage term.
        """
        return log_probability / ((5.0 + length) / 6.0) ** self.length_penalty
