"""A step of every search for autoregressive outputs: what may follow the partial outputs, and how likely it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN, Batch, Constraint, PerRow
from seq2seq_suite.model.decoder import Cache
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.ctc_prefix_scores import NEVER, Prefixes
from seq2seq_suite.search.logit_processors import Written
from seq2seq_suite.search.sampling import sample


@dataclass(frozen=True)
class Rows:
    """Partial outputs: N rows, the same number for each of B sentences, and all that their next step needs."""

    memory: Memory
    cache: Cache
    automaton: PerRow | None
    prefixes: Prefixes | None = None
    written: Written | None = None

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> Rows:
        """The given rows, and the given sentences where some are finished."""
        return Rows(self.memory if sentences is None else self.memory.select(sentences), self.cache.select(rows),
                     None if self.automaton is None else self.automaton.select(rows),
                     None if self.prefixes is None else self.prefixes.select(rows, sentences),
                     None if self.written is None else self.written.select(rows))


class Stepper:
    """One step of a model under a constraint."""

    def __init__(self, model: Seq2Seq, constraint: Constraint | None, options: SearchOptions):
        self.model, self.constraint, self.options = model, constraint, options

    def start(self, batch: Batch, memory: Memory, limit: Tensor, prefixes: Prefixes | None) -> tuple[Rows, Tensor]:
        """A row for each sentence, and the symbol before the first to be found; `prefixes` are empty ones of CTC.

        Where the first columns of the target are given in all rows, the search begins behind them.
        """
        memory = self.model.for_search(memory)
        self.never = limit.new_tensor([PAD, BEGIN, UNKNOWN])
        automaton = self.constraint.start(batch, limit) if self.constraint is not None else None
        cache, given = self.model.new_cache(memory), int(batch.given.all(0).sum())
        previous = torch.full_like(limit, BEGIN)
        if given:
            x = self.model.embed(torch.cat((previous.unsqueeze(1), batch.target[:, : given - 1]), 1), memory)
            _, cache = self.model.decode(x, causal(given, device=limit.device), memory, cache)
            previous = batch.target[:, given - 1]
        return Rows(memory, cache, automaton, prefixes, Written.needed(batch, self.options)), previous

    def candidates(self, rows: Rows, previous: Tensor, last_step: Tensor | None, count: int
                   ) -> tuple[Tensor, Tensor, Rows]:
        """Log-probabilities and symbols (N,min(count,V)) of the likeliest to follow, or of one drawn; and the rows."""
        log_probabilities, rows = self.log_probabilities(rows, previous, last_step)
        if self.options.sampling:
            drawn = sample(log_probabilities, self.options).unsqueeze(1)
            return log_probabilities.gather(1, drawn), drawn, rows
        return *log_probabilities.topk(min(count, log_probabilities.size(1)), 1), rows

    def log_probabilities(self, rows: Rows, previous: Tensor, last_step: Tensor | None) -> tuple[Tensor, Rows]:
        """Log-probabilities (N,V) of the next symbol; where `last_step` (N,) only END remains, None: nowhere."""
        focus = context = None
        if self.model.guide is not None:
            focus = self.constraint.focus(rows.automaton).unsqueeze(1)
            context = self.constraint.context(rows.automaton).unsqueeze(1)
        x = self.model.embed(previous.unsqueeze(1), rows.memory, offset=self.model.written(rows.cache, rows.memory),
                             focus=focus, context=context)
        hidden, cache = self.model.decode(x, None, rows.memory, rows.cache)
        logits = self.model.logits(hidden, rows.memory).squeeze(1).float()
        return self.restrained(logits, rows, last_step), replace(rows, cache=cache)

    def restrained(self, logits: Tensor, rows: Rows, last_step: Tensor | None) -> Tensor:
        """Log-probabilities of what may follow, from the model's logits (N,V)."""
        logits = logits.index_fill_(1, self.never, NEVER)
        if rows.written is not None and self.options.looks_back:
            logits = rows.written.restrain(logits, self.options)
        if self.constraint is not None and self.options.constraint:
            logits = logits.masked_fill(~self.constraint.allowed(rows.automaton), NEVER)
        log_probabilities = torch.log_softmax(logits, -1)
        if rows.prefixes is not None:
            weight = self.options.ctc_weight
            log_probabilities = torch.where(log_probabilities == NEVER, NEVER,
                                            (1.0 - weight) * log_probabilities + weight * rows.prefixes.gains())
        if self.constraint is not None and (gains := self.constraint.gains(rows.automaton)) is not None:
            log_probabilities = log_probabilities + gains
        if rows.written is not None:
            log_probabilities = rows.written.force(log_probabilities)
        if last_step is not None:
            # END costs what the model says; where a constraint forbids it, it is the only way out all the same.
            only_end = torch.full_like(log_probabilities, NEVER)
            only_end[:, END] = log_probabilities[:, END].clamp(min=torch.finfo(logits.dtype).min / 2)
            log_probabilities = torch.where(last_step.unsqueeze(1), only_end, log_probabilities)
        return log_probabilities

    def advance(self, rows: Rows, symbols: Tensor) -> Rows:
        """The automaton after `symbols` (N,)."""
        return replace(
            rows, automaton=None if rows.automaton is None else self.constraint.advance(rows.automaton, symbols),
            prefixes=None if rows.prefixes is None else rows.prefixes.advance(symbols),
            written=None if rows.written is None else rows.written.advance(symbols))
