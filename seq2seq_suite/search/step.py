"""A step of every autoregressive search: the model's scores, passed through the logit processors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seq2seq_suite.common.types import BEGIN
from seq2seq_suite.model.layers import causal
from seq2seq_suite.search.logit_processors import History, logit_processors, only_end
from seq2seq_suite.search.sampling import sample

if TYPE_CHECKING:
    from seq2seq_suite.common.types import Batch, Constraint
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.search.ctc_prefix_scores import Prefixes


@dataclass(frozen=True)
class Rows:
    """N partial outputs, the same number for each of B sentences, and the state of their next step.

    Args:
        memory: the B encoded sentences.
        cache: the decoder's, of N rows, in a form of its own.
        automaton: the state of the task's `Constraint`; None without one.
        prefixes: forward variables of the CTC head; None if it has no weight in the search.
        history: the symbols so far; None if no logit processor reads them.
    """

    memory: Memory
    cache: Any
    automaton: Any = None
    prefixes: Prefixes | None = None
    history: History | None = None

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> Rows:
        """The given rows, and the given sentences where some are finished."""
        return Rows(
            self.memory if sentences is None else self.memory.select(sentences),
            self.cache.select(rows),
            None if self.automaton is None else self.automaton.select(rows),
            None if self.prefixes is None else self.prefixes.select(rows),
            None if self.history is None else self.history.select(rows),
        )

    @property
    def is_stateless(self) -> bool:
        """Whether the logit processors depend on the logits alone."""
        return self.automaton is None and self.prefixes is None and self.history is None


class Stepper:
    """The steps of one search by a model, a `Seq2Seq` or an `Ensemble` of some, under a constraint."""

    def __init__(self, model: Seq2Seq, constraint: Constraint | None, options: SearchOptions):
        self.model: Any = model  # or what stands for one
        self.constraint: Any = constraint  # there is one if the model has a guide
        self.options = options

    def start(self, batch: Batch, memory: Memory, limit: Tensor, prefixes: Prefixes | None) -> tuple[Rows, Tensor]:
        """A row for each of B sentences, and the symbols (B,) before the first to predict.

        Where the first columns of the target are given in all rows, the search begins after them. `limit` (B,) is the
        longest output, END included; `prefixes` are the empty ones of CTC, None if it has no weight.
        """
        automaton = self.constraint.start(batch, limit) if self.constraint is not None else None
        cache, given = self.model.new_cache(memory), int(batch.given.all(0).sum())
        previous = torch.full_like(limit, BEGIN)
        if given:
            x = self.model.embed(torch.cat((previous.unsqueeze(1), batch.target[:, : given - 1]), 1), memory)
            _, cache = self.model.decode(x, causal(given, device=limit.device), memory, cache)
            previous = batch.target[:, given - 1]
        rows = Rows(memory, cache, automaton, prefixes, History.if_needed(batch, self.options))
        self.processors = logit_processors(self.options, self.constraint, rows)
        return rows, previous

    def candidates(
        self, rows: Rows, previous: Tensor, last_step: Tensor | None, count: int
    ) -> tuple[Tensor, Tensor, Rows]:
        """Log-probabilities and symbols (N,min(count,V)) of the best to follow, or of one drawn; and the rows."""
        log_probabilities, rows = self.log_probabilities(rows, previous, last_step)
        if self.options.sampling:
            drawn = sample(log_probabilities, self.options).unsqueeze(1)
            return log_probabilities.gather(1, drawn), drawn, rows
        best, symbols = log_probabilities.topk(min(count, log_probabilities.size(1)), 1)
        return best, symbols, rows

    def log_probabilities(self, rows: Rows, previous: Tensor, last_step: Tensor | None) -> tuple[Tensor, Rows]:
        """Log-probabilities (N,V) of the symbols after `previous` (N,), and the rows with a longer cache.

        Where `last_step` (N,) is True only END is possible; None: nowhere.
        """
        state = {name: getattr(self.constraint, name)(rows.automaton).unsqueeze(1) for name in self.model.reads}
        offset = self.model.target_length(rows.cache, rows.memory)
        x = self.model.embed(previous.unsqueeze(1), rows.memory, offset=offset, **state)
        hidden, cache = self.model.decode(x, None, rows.memory, rows.cache)
        logits = self.model.logits(hidden, rows.memory).squeeze(1).float()
        return self.process(logits, rows, last_step), replace(rows, cache=cache)

    def process(self, scores: Tensor, rows: Rows, last_step: Tensor | None) -> Tensor:
        """Logits (N,V) to log-probabilities of the next symbol."""
        for processor in self.processors:
            scores = processor(scores, rows)
        return scores if last_step is None else only_end(scores, last_step)

    def advance(self, rows: Rows, symbols: Tensor) -> Rows:
        """The rows' states after `symbols` (N,)."""
        automaton, prefixes, history = rows.automaton, rows.prefixes, rows.history
        return replace(
            rows,
            automaton=None if automaton is None else self.constraint.advance(automaton, symbols),
            prefixes=prefixes and prefixes.advance(symbols),
            history=history and history.advance(symbols),
        )
