"""Greedy search: the likeliest symbol at each step."""

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[object, Tensor], tuple[Tensor, object]]


def greedy(step: Step, state: object, begin: int, end: int, limit: int) -> tuple[list[int], float]:
    """Writes the likeliest symbol, reads it, writes the next one.

    Args:
        step: (state, last (1,) int64) -> (log-probabilities (1,V) of the next symbol, state).
        state: what the first step is given.
        begin: the symbol that is read before the first.
        end: the symbol behind the last.
        limit: of steps, the one that writes END included.

    Returns:
        The symbols without END, and the sum of the log-probabilities of all symbols written, END's included.

    Example: a model that says 3, then END = 2, whatever it is given.
        >>> def step(state, last):
        ...     return torch.eye(4)[3 if state == 0 else 2].log().unsqueeze(0), state + 1
        >>> greedy(step, 0, begin=1, end=2, limit=5)
        ([3], 0.0)

    Source: "Decoder" in note 003: BEGIN gives 機, "BEGIN + 機" gives 器; "inference" in note 004.
    """
    # BEGIN SOLUTION
    symbols, total, last = [], 0.0, begin
    for _ in range(limit):
        log_p, state = step(state, torch.tensor([last]))
        last = int(log_p[0].argmax())
        total += float(log_p[0, last])
        if last == end:
            break
        symbols.append(last)
    return symbols, total
    # END SOLUTION
