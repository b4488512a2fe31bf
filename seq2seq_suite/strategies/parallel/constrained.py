"""The best output under a parallel decoder's scores, with or without a task's automaton.

Shape suffixes in this module: B sentences, C decoder positions, V symbols.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import END, NEVER, UNLIKELY, Batch, Constraint, ExactConstraint, sync_interval


def argmax_until_end(scores: Tensor, lengths: Tensor) -> list[tuple[tuple[int, ...], float, bool]]:
    """The likeliest symbol at each position.

    Args:
        scores: (B,C,V) log-probabilities.
        lengths: (B,) int64, positions of each row.

    Returns:
        of each row the symbols up to END, their summed score with END's, and whether there was an END.
    """
    gained, symbols = scores.max(-1)
    return _up_to_end(symbols, gained, lengths)


def constrained_argmax(
    constraint: Constraint | None, batch: Batch, scores: Tensor, lengths: Tensor, limit: Tensor
) -> list[tuple[tuple[int, ...], float, bool]]:
    """`argmax_until_end`, left to right, over the symbols that a task's automaton allows.

    The automaton needs no pass of the network: it runs over scores that are known. After a row's positions it prefers
    END. An exact one finds the best output of all instead.

    Args:
        constraint, batch: the automaton, None for none, and the sentences.
        scores, lengths: see `argmax_until_end`.
        limit: (B,) int64, the longest output, END included.
    """
    if constraint is None:
        return argmax_until_end(scores, lengths)
    if isinstance(constraint, ExactConstraint):
        missing = max(0, int(constraint.lengths(batch).max()) - scores.size(1))
        scores = functional.pad(scores, (0, 0, 0, missing))  # after the positions all symbols are equal
        symbols = constraint.best(scores, batch)
        gained = scores.gather(2, symbols.unsqueeze(2)).squeeze(2).masked_fill(symbols == END, 0.0)
        return [
            (cut_at_end(row), sum(gains), True) for row, gains in zip(symbols.tolist(), gained.tolist(), strict=True)
        ]
    state, steps = constraint.start(batch, limit), []
    behind = torch.full_like(scores[:, 0], UNLIKELY)
    behind[:, END] = 0.0
    ended = torch.zeros_like(lengths, dtype=torch.bool)
    for step in range(int(limit.max())):
        inside = (step < lengths).unsqueeze(1)
        here = torch.where(inside, scores[:, step], behind) if step < scores.size(1) else behind
        steps.append(here.masked_fill(~constraint.allowed(state), NEVER).max(-1))
        ended |= steps[-1].indices == END
        if (step + 1) % sync_interval(scores.device) == 0 and bool(ended.all()):
            break
        state = constraint.advance(state, steps[-1].indices)
    gained, symbols = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
    return _up_to_end(symbols, gained, limit)


def exact_lengths(constraint: Constraint | None, batch: Batch) -> Tensor | None:
    """(B,1) int64, the one length of each output, END not included, where the automaton knows it; else None."""
    return constraint.lengths(batch).unsqueeze(1) if isinstance(constraint, ExactConstraint) else None


def _up_to_end(symbols: Tensor, gained: Tensor, lengths: Tensor) -> list[tuple[tuple[int, ...], float, bool]]:
    found = []
    for row, gains, length in zip(symbols.tolist(), gained.tolist(), lengths.tolist(), strict=True):
        output = cut_at_end(row[:length])
        found.append((output, sum(gains[: min(len(output) + 1, length)]), END in row[:length]))
    return found


def cut_at_end(symbols: list[int]) -> tuple[int, ...]:
    """What comes before the first END.

    >>> cut_at_end([7, 8, END, 9])
    (7, 8)
    """
    return tuple(symbols[: symbols.index(END)] if END in symbols else symbols)
