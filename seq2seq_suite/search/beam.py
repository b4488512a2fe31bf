"""Greedy search, sampling and beam search, one sentence and one symbol at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, NEVER, Hypothesis
from seq2seq_suite.search.step import Rows, Stepper

if TYPE_CHECKING:
    from seq2seq_suite.common.types import Batch, Constraint
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.search.ctc_prefix_scores import Prefixes


@torch.inference_mode()
def greedy_or_sample(
    model: Seq2Seq,
    batch: Batch,
    memory: Memory,
    *,
    options: SearchOptions,
    limit: Tensor,
    constraint: Constraint | None = None,
    prefixes: Prefixes | None = None,
) -> list[list[Hypothesis]]:
    """Greedy search, or as many samples as `num_hypotheses`; see `Strategy.generate`."""
    stepper = Stepper(model, constraint, options)
    draws = options.num_hypotheses if options.sampling else 1
    return [
        sorted((one_output(stepper, *start) for _ in range(draws)), key=lambda hypothesis: -hypothesis.score)
        for start in starts(stepper, batch, memory, limit, prefixes)
    ]


def one_output(stepper: Stepper, rows: Rows, previous: Tensor, limit: int) -> Hypothesis:
    """The most probable next symbol each time, or one drawn, until END."""
    options, symbols, total = stepper.options, [], 0.0
    while END not in symbols:
        last_step = previous.new_ones(1, dtype=torch.bool) if len(symbols) == limit - 1 else None
        gain, previous, rows = stepper.candidates(rows, previous, last_step, 1)
        previous = previous.squeeze(1)
        symbols.append(int(previous))
        total += float(gain)
        rows = stepper.advance(rows, previous) if symbols[-1] != END else rows
    return Hypothesis(tuple(symbols[:-1]), options.normalise(total, len(symbols)), len(symbols) < limit)


@torch.inference_mode()
def beam_search(
    model: Seq2Seq,
    batch: Batch,
    memory: Memory,
    *,
    options: SearchOptions,
    limit: Tensor,
    constraint: Constraint | None = None,
    prefixes: Prefixes | None = None,
) -> list[list[Hypothesis]]:
    """Beam search: each step keeps the `beam_size` most probable partial outputs; see `Strategy.generate`."""
    stepper = Stepper(model, constraint, options)
    return [one_beam(stepper, *start) for start in starts(stepper, batch, memory, limit, prefixes)]


def one_beam(stepper: Stepper, rows: Rows, previous: Tensor, limit: int) -> list[Hypothesis]:
    """The best complete outputs of a sentence."""
    options, wanted = stepper.options, min(stepper.options.num_hypotheses, stepper.options.beam_size)
    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]  # partial outputs with their log-probabilities
    finished: list[Hypothesis] = []
    for step in range(1, limit + 1):
        last_step = previous.new_ones(len(beam), dtype=torch.bool) if step == limit else None
        # At least k of 2k candidates do not end, since each output can end in only one way.
        *found, rows = stepper.candidates(rows, previous, last_step, 2 * options.beam_size)
        candidates = [
            (total + gain, row, symbol)
            for row, ((_, total), gains, symbols) in enumerate(
                zip(beam, *(part.tolist() for part in found), strict=True)
            )
            for gain, symbol in zip(gains, symbols, strict=True)
            if gain > NEVER
        ]
        best = heapq.nlargest(2 * options.beam_size, candidates)
        finished += [
            Hypothesis(beam[row][0], options.normalise(total, step), step < limit)
            for total, row, symbol in best
            if symbol == END
        ]
        finished = heapq.nlargest(wanted, finished, key=lambda hypothesis: hypothesis.score)
        best = [candidate for candidate in best if candidate[2] != END][: options.beam_size]
        # Stop if even the best open output could not win, were all its further symbols certain.
        if not best or (len(finished) == wanted and options.normalise(best[0][0], limit) <= finished[-1].score):
            break
        beam = [((*beam[row][0], symbol), total) for total, row, symbol in best]
        _, chosen, symbols = zip(*best, strict=True)
        previous = previous.new_tensor(symbols)
        rows = stepper.advance(rows.select(previous.new_tensor(chosen)), previous)
    return finished


def starts(
    stepper: Stepper, batch: Batch, memory: Memory, limit: Tensor, prefixes: Prefixes | None
) -> Iterator[tuple[Rows, Tensor, int]]:
    """Of each sentence its row, the symbol (1,) before the first, and the longest output."""
    rows, previous = stepper.start(batch, memory, limit, prefixes)
    for item, longest in enumerate(limit.tolist()):
        index = limit.new_tensor([item])
        yield rows.select(index, index), previous[index], longest
