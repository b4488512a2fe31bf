"""Logit processors: functions applied in order to a step's scores, between the model and the search.

A processor is called with scores (N,V) and the `Rows` that they continue, and returns scores (N,V) for the next one:
logits up to the softmax, then log-probabilities. What depends on a row's past (its symbols, the constraint's state, the
forward variables of CTC) is kept by `Rows`, once for all processors that read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from seq2seq_suite.common.types import BEGIN, END, NEVER, PAD, UNKNOWN, Batch, Constraint, PerRow

if TYPE_CHECKING:
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.search.step import Rows

EXCLUDED = (PAD, BEGIN, UNKNOWN)  # symbols that no output has
LogitProcessor = Callable[[Tensor, "Rows"], Tensor]
_LOWEST = torch.finfo(torch.float32).min / 2  # of what must stay possible: finite, also with another added


def logit_processors(options: SearchOptions, constraint: Constraint | None, rows: Rows) -> list[LogitProcessor]:
    """The processors that a search needs, in their order; `rows` are those that it starts from."""
    excluded = torch.tensor(EXCLUDED, device=rows.memory.states.mask.device)
    given = cast(Constraint, constraint)  # read only where there is one
    return [
        processor
        for is_needed, processor in (
            (True, lambda scores, rows: scores.index_fill_(1, excluded, NEVER)),  # in place: they are the step's own
            (options.repetition_penalty != 1.0, after_prefix(penalise_repetition, penalty=options.repetition_penalty)),
            (options.no_repeat_ngram > 0, after_prefix(exclude_repeated_ngrams, size=options.no_repeat_ngram)),
            (options.min_length > 0, after_prefix(exclude_early_end, least=options.min_length)),
            (
                constraint is not None and options.constraint,
                lambda scores, rows: scores.masked_fill(~given.allowed(rows.automaton), NEVER),
            ),
            *((True, processor) for processor in options.own_processors()),
            (True, lambda scores, rows: scores.log_softmax(-1)),
            (rows.prefixes is not None, partial(mix_with_ctc, weight=options.ctc_weight)),
            (constraint is not None, partial(add_gains, constraint=given)),
            (rows.history is not None, force_prefix),
        )
        if is_needed
    ]


@dataclass(frozen=True)
class History(PerRow):
    """The symbols of N partial outputs.

    Args:
        symbols: (N,t) int64, those so far.
        begin: (N,L) int64, what each output must begin with, padded with PAD.
    """

    symbols: Tensor
    begin: Tensor

    @staticmethod
    def if_needed(batch: Batch, options: SearchOptions) -> History | None:
        """The history of empty outputs; None if no processor would read it."""
        begin = batch.auxiliary.get("begin")
        if (
            begin is None
            and options.repetition_penalty == 1.0
            and not (options.no_repeat_ngram or options.min_length or options.processors)
            and not (options.suppress or options.begin_suppress)
        ):
            return None
        empty = batch.target.new_empty(batch.target.size(0), 0)
        return History(empty, empty if begin is None else begin)

    def advance(self, symbols: Tensor) -> History:
        """One symbol (N,) longer."""
        return History(torch.cat((self.symbols, symbols.unsqueeze(1)), 1), self.begin)

    def required(self) -> Tensor | None:
        """(N,1) the next symbol of each beginning, PAD where it is complete; None if all are."""
        length = self.symbols.size(1)
        return self.begin[:, length : length + 1] if length < self.begin.size(1) else None


def after_prefix(function: Callable[..., Tensor], **options: float) -> LogitProcessor:
    """A function of scores and the symbols so far, for the rows that no forced beginning tells how to continue."""

    def process(scores: Tensor, rows: Rows) -> Tensor:
        assert rows.history is not None
        processed, required = function(scores, rows.history.symbols, **options), rows.history.required()
        return processed if required is None else torch.where(required == PAD, processed, scores)

    return process


def penalise_repetition(scores: Tensor, symbols: Tensor, penalty: float) -> Tensor:
    """Logits (N,V) of `symbols` (N,t), divided by the penalty if positive, else multiplied by it.

    Source: Keskar et al. 2019, section 4.1.
    """
    seen = scores.gather(1, symbols)
    return scores.scatter(1, symbols, torch.where(seen > 0, seen / penalty, seen * penalty))


def exclude_repeated_ngrams(scores: Tensor, symbols: Tensor, size: int) -> Tensor:
    """Scores (N,V) without symbols that would repeat an n-gram of `symbols` (N,t).

    Source: Paulus et al. 2018, section 2.5.
    """
    length = symbols.size(1)
    if length < size:
        return scores
    ngrams = symbols.unfold(1, size, 1)  # (N,t-n+1,n)
    repeats = (ngrams[..., :-1] == symbols[:, length - size + 1 :].unsqueeze(1)).all(-1)
    counts = torch.zeros_like(scores).scatter_add(1, ngrams[..., -1], repeats.to(scores.dtype))
    return scores.masked_fill(counts > 0, NEVER)


def exclude_early_end(scores: Tensor, symbols: Tensor, least: int) -> Tensor:
    """Scores (N,V) without END after fewer than `least` symbols (N,t), unless only END is possible."""
    if symbols.size(1) >= least:
        return scores
    others = scores.clone()
    others[:, END] = NEVER
    return torch.where((others > NEVER).any(1, keepdim=True), others, scores)


def mix_with_ctc(scores: Tensor, rows: Rows, weight: float) -> Tensor:
    """(1 - w) log p(symbol | prefix) + w log p_ctc(symbol | prefix).

    Source: Watanabe et al. 2017 (one-pass joint decoding).
    """
    assert rows.prefixes is not None
    return torch.where(scores == NEVER, NEVER, (1.0 - weight) * scores + weight * rows.prefixes.log_probs())


def add_gains(scores: Tensor, rows: Rows, constraint: Constraint) -> Tensor:
    """Plus the constraint's `gains`, such as scores of a language model."""
    gains = constraint.gains(rows.automaton)
    return scores if gains is None else scores + gains


def force_prefix(scores: Tensor, rows: Rows) -> Tensor:
    """Only the next symbol of a beginning that is not complete. It keeps the model's score, however low."""
    required = rows.history.required() if rows.history is not None else None
    if required is None:
        return scores
    others = torch.arange(scores.size(1), device=scores.device) != required
    return torch.where(required == PAD, scores, scores.clamp(min=_LOWEST).masked_fill(others, NEVER))


def only_end(scores: Tensor, last_step: Tensor) -> Tensor:
    """Only END where `last_step` (N,) is True: with the model's score, and even where a constraint excludes it."""
    end = torch.full_like(scores, NEVER)
    end[:, END] = scores[:, END].clamp(min=_LOWEST)
    return torch.where(last_step.unsqueeze(1), end, scores)
