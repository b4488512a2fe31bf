"""The automaton of label sequences: no label twice, at least one, then END."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, SPECIALS, Batch, Constraint, PerRow


@dataclass(frozen=True)
class LabelState(PerRow):
    """N partial label sequences: which symbols each has, (N,V) bool."""

    used: Tensor


class LabelAutomaton(Constraint):
    """The constraint of the multi-label task.

    Args:
        num_symbols: V, the specials included.
        allow_empty: END may come first.
    """

    def __init__(self, num_symbols: int, *, allow_empty: bool = False):
        self.num_symbols, self.allow_empty = num_symbols, allow_empty

    def start(self, batch: Batch, limit: Tensor) -> LabelState:
        """No label yet; specials count as used, since no output has them."""
        used = torch.zeros(limit.size(0), self.num_symbols, dtype=torch.bool, device=limit.device)
        used[:, : len(SPECIALS)] = True
        return LabelState(used)

    def allowed(self, state: LabelState) -> Tensor:
        """(N,V): labels not used yet, and END after a label."""
        allowed = ~state.used
        started = state.used[:, len(SPECIALS) :].any(1)
        # If there is no label left, only END may follow.
        allowed[:, END] = started | self.allow_empty | (self.num_symbols == len(SPECIALS))
        return allowed

    def advance(self, state: LabelState, symbols: Tensor) -> LabelState:
        """After `symbols` (N,)."""
        return LabelState(state.used.scatter(1, symbols.unsqueeze(1), True))
