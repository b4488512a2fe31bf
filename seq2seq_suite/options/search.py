"""How outputs are searched for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, overload

from pydantic import Field, PrivateAttr, model_validator

from seq2seq_suite.common.errors import repr_short, truncate
from seq2seq_suite.common.types import NEVER, PAD
from seq2seq_suite.common.user_code import blaming, load_code
from seq2seq_suite.options.section import (
    Code,
    Few,
    FewOrNone,
    NotNegative,
    Positive,
    PositiveFloat,
    Section,
    Share,
    ShareOrNone,
    refuse_if,
)

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
    risk: FewOrNone = 0  # candidates, of which the output is the one that all of them agree with most, by the task's
    # metric (minimum Bayes risk): samples, or with beam_size above 1 the beam's best, which count by their
    # probabilities; 0 or 1: the best by probability
    max_length_factor: PositiveFloat = 6.0  # longest output, END included = factor * source length
    max_length_extra: Positive = 20  # + extra
    min_length: NotNegative = 0  # fewest symbols of an output of free text, without END
    no_repeat_ngram: NotNegative = 0  # no n symbols twice in an output of free text; 0 allows it
    repetition_penalty: Annotated[float, Field(ge=1.0, le=10.0)] = 1.0  # logits of symbols in the output are divided by
    # it if positive, else multiplied, Keskar et al. 2019
    suppress: tuple[NotNegative, ...] = ()  # numbers of symbols that no output of free text has, but for what it must
    # begin with; `import` sets those of Whisper
    begin_suppress: tuple[NotNegative, ...] = ()  # numbers of symbols that no output has first, behind what it must
    # begin with; 2 is END, of an empty output
    batch_sentences: Positive = 128  # sentences decoded at a time
    constraint: bool = True  # keep outputs well-formed by the task's automaton
    ctc_weight: ShareOrNone = 0.0  # weight of CTC's prefix scores (speech); 1: CTC alone
    iterations: Few = 10  # of strategy mask_predict
    block: FewOrNone = 0  # of strategy blocks: symbols of a block; 0: as trained; 1: greedy search
    order: Literal["left", "any", "verified"] = "left"  # of a block's symbols; verified: drafts that are checked, and
    # outputs those of greedy search in fewer passes. Each reads block + block^2 symbols in place of one and takes a CPU
    # about three times as long, in batches up to five: it is faster only where most drafts are right
    threshold: ShareOrNone = 0.9  # probability from which a pass writes further symbols of a block
    drafter: str = ""  # proposes outputs that greedy search only verifies: the directory of a smaller or parallel run,
    # or ctc for the encoder's own CTC head (speech); same outputs, faster for single sentences
    compile: bool = False  # compiled steps of greedy and beam search: on a CPU in C++, twice as fast, built
    # at the first use on a machine in two to three seconds; on CUDA a graph of a step's kernels. Not for ensembles
    processors: tuple[Code, ...] = ()  # FILE.py:NAME each, a function or class of yours: it is called with a step's
    # logits (N,V) and the Rows that they continue (search/step.py) and returns logits, in which -inf excludes a
    # symbol; the path is relative to this YAML, and the file's code is run. For autoregressive decoders
    processor_options: dict[str, dict[str, Any]] = {}  # NAME of a processor -> further arguments of the function, or
    # those of the class, of which each search makes one, e.g. {forbid: {symbol: 7}}
    rescorer: str = ""  # an autoregressive run's directory, to rescore a parallel decoder's outputs

    _code: tuple[Callable[..., Any], ...] = PrivateAttr(())  # of the processors

    @model_validator(mode="after")
    def _processors_are_there(self) -> Search:
        self._code = tuple(load_code(one, key="search.processors") for one in self.processors)
        names = [one.rpartition(":")[2] for one in self.processors]
        refuse_if(
            *(
                (
                    name not in names,
                    f"search.processor_options.{truncate(name)}: search.processors names no "
                    f"{truncate(name)}: choose from {', '.join(names)}",
                )
                for name in self.processor_options
            )
        )
        return self

    def own_processors(self) -> list[Callable[..., Tensor]]:
        """The processors of the user's own, made anew, behind one that suppresses symbols."""
        lists = {"always": self.suppress, "first": self.begin_suppress}
        return [partial(_suppress, **lists)] * any(lists.values()) + [
            _checked(name, code, self.processor_options.get(name.rpartition(":")[2], {}))
            for name, code in zip(self.processors, self._code, strict=True)
        ]

    @model_validator(mode="after")
    def _enough_beams(self) -> Search:
        for key in () if self.samples else ("num_hypotheses", "risk"):
            if (count := getattr(self, key)) > max(1, self.beam_size):
                raise ValueError(f"search.{key} {count} exceeds search.beam_size {self.beam_size}")
        return self

    @property
    def samples(self) -> bool:
        """Whether outputs, or the candidates of `risk`, are drawn."""
        return self.sampling or (self.risk > 1 and self.beam_size == 1)

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


def _suppress(scores: Tensor, rows: Any, always: Sequence[int], first: Sequence[int]) -> Tensor:
    """Scores (N,V) without some symbols `always`, and `first` without others, behind what an output must begin with.

    A row to which this leaves no symbol stays as it was.
    """
    symbols, begin = rows.history.symbols, rows.history.begin
    behind = symbols.size(1) - begin.ne(PAD).sum(1, keepdim=True)  # how many symbols
    found = scores.index_fill(1, symbols.new_tensor([*always], dtype=symbols.dtype), NEVER).where(behind >= 0, scores)
    found = found.index_fill(1, symbols.new_tensor([*first], dtype=symbols.dtype), NEVER).where(behind == 0, found)
    return found.where((found > NEVER).any(1, keepdim=True), scores)


def _checked(name: str, code: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Tensor]:
    """A processor of the user's own, which cannot bring back a symbol that is excluded.

    A row to which it leaves no symbol stays as it was.
    """
    block = partial(
        blaming,
        name,
        key="search.processors",
        expected="a function of logits (N,V), Rows and its "
        "search.processor_options, or a class of the latter, that gives logits (N,V)",
    )
    with block():
        process = code(**options) if isinstance(code, type) else partial(code, **options)

    def processed(scores: Tensor, rows: Any) -> Tensor:
        with block():
            found = process(scores.clone(), rows)
            if getattr(found, "shape", None) != scores.shape:
                raise ValueError(f"it gives {repr_short(found)} for logits of shape {tuple(scores.shape)}")
        found = found.masked_fill(scores == NEVER, NEVER)
        return found.where((found > NEVER).any(1, keepdim=True), scores)

    return processed
