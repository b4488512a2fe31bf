"""Beam search: several partial outputs go on side by side."""

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[object, Tensor], tuple[Tensor, object]]
Select = Callable[[object, Tensor], object]


def beam_search(step: Step, select: Select, state: object, begin: int, end: int, beam: int, limit: int, alpha: float
                ) -> list[tuple[list[int], float]]:
    """At each step the `beam` likeliest partial outputs go on; those that END closes are finished.

    Args:
        step: (state of N rows, last (N,) int64) -> (log-probabilities (N,V) of the next symbol, state of N rows).
        select: (state, rows (M,) int64) -> state of these rows, in that order; a row may occur twice or not at all.
        state: of one row, what the first step is given.
        begin: the symbol that is read before the first.
        end: the symbol behind the last.
        beam: the most rows that go on, at least 1.
        limit: of steps, the one that writes END included.
        alpha: of the length penalty.

    Returns:
        The finished outputs without END, best score first: score = log p / ((5 + T) / 6)^alpha, T counting END. Log p
        is the sum over all symbols, END's included. Where nothing has finished after `limit` steps: the unfinished
        outputs, T = limit.

    Example: 3 is likelier at first, but what follows 4 makes up for it.
        >>> table = {1: [0, 0, 0, 0.6, 0.4], 3: [0, 0, 0.5, 0.3, 0.2], 4: [0, 0, 0.9, 0.1, 0]}
        >>> def step(state, last): return torch.tensor([table[int(one)] for one in last]).log(), state
        >>> def select(state, rows): return state
        >>> best = beam_search(step, select, None, begin=1, end=2, beam=2, limit=2, alpha=0.0)[0]
        >>> best[0], round(best[1], 3)
        ([4], -1.022)

    Source: Graves 2012, Algorithm 1, in the usual form with a beam of fixed width; Wu et al. 2016, eq. 14.
    """
    # BEGIN SOLUTION
    partial, finished = [([], 0.0)], []
    last = torch.tensor([begin])
    for length in range(1, limit + 1):
        log_p, state = step(state, last)
        total = torch.tensor([score for _, score in partial]).unsqueeze(1) + log_p
        # 2k candidates hold at least k that do not end: each output can end in one way only.
        best, places = total.flatten().topk(min(2 * beam, total.numel()))
        kept = []
        for score, place in zip(best.tolist(), places.tolist(), strict=True):
            row, symbol = divmod(place, log_p.size(1))
            if score == float("-inf"):
                continue
            if symbol == end:
                finished.append((partial[row][0], score / ((5 + length) / 6) ** alpha))
            elif len(kept) < beam:
                kept.append((row, symbol, score))
        if not kept:
            break
        state = select(state, torch.tensor([row for row, _, _ in kept]))
        last = torch.tensor([symbol for _, symbol, _ in kept])
        partial = [(partial[row][0] + [symbol], score) for row, symbol, score in kept]
    if not finished:
        finished = [(symbols, score / ((5 + limit) / 6) ** alpha) for symbols, score in partial]
    return sorted(finished, key=lambda output: -output[1])
    # END SOLUTION
