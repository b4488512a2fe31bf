"""Decoding of a CTC head by its best path, and prefix probabilities for searches that mix it in."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from seq2seq_suite.common.types import BLANK, END, NEVER


def ctc_greedy(scores: Tensor) -> list[tuple[list[int], float]]:
    """The likeliest path of each item, collapsed, with its log-probability.

    Args:
        scores: (B,S,V) log-probabilities of a `CtcHead`.

    Source: Graves et al. 2006, section 3.2 (best path decoding).

    >>> path = torch.tensor([[7, 7, 0, 7, 8, 0]])
    >>> ctc_greedy(torch.nn.functional.one_hot(path, 9).float().log())
    [([7, 7, 8], 0.0)]
    """
    gained, path = scores.max(-1)
    return collapse(path, gained)


def collapse(path: Tensor, gained: Tensor) -> list[tuple[list[int], float]]:
    """Each path (B,S) with repetitions merged and blanks dropped, and the sum of `gained` (B,S)."""
    fresh = torch.ones_like(path, dtype=torch.bool)
    fresh[:, 1:] = path[:, 1:] != path[:, :-1]
    kept = fresh & (path != BLANK)
    return [
        (row[keep].tolist(), score)
        for row, keep, score in zip(path.cpu(), kept.cpu(), gained.sum(1).tolist(), strict=True)
    ]


@dataclass(frozen=True)
class Prefixes:
    """Forward variables of N partial outputs.

    Args:
        scores: (B,S,V) log-probabilities of a `CtcHead`, of all items.
        items: (N,) int64, the item of each partial output.
        ending: (N,S,2) log-probability of all paths up to each position that collapse to the prefix and end in its last
            symbol, or in a blank.
        total: (N,) log-probability of all outputs that begin with the prefix.
        last: (N,) its last symbol, `BLANK` for none.
    """

    scores: Tensor = field(metadata={"shared": True})
    items: Tensor
    ending: Tensor
    total: Tensor
    last: Tensor

    @staticmethod
    def empty(scores: Tensor) -> Prefixes:
        """The empty prefix of each item."""
        blanks = scores[..., BLANK].cumsum(1)
        ending = torch.stack((torch.full_like(blanks, NEVER), blanks), dim=-1)
        start = scores.new_zeros(scores.size(0))
        last = torch.full_like(start, BLANK, dtype=torch.int64)
        return Prefixes(scores, torch.arange(scores.size(0), device=scores.device), ending, start, last)

    def select(self, rows: Tensor) -> Prefixes:
        """The given rows, (N',) int64, in that order; rows may repeat."""
        parts = (self.items, self.ending, self.total, self.last)
        return Prefixes(self.scores, *(part.index_select(0, rows) for part in parts))

    def log_probs(self) -> Tensor:
        """(N,V) log p(outputs that begin with prefix + symbol) - log p(those that begin with the prefix); for END, of
        the prefix as the whole output. Never more than 0.

        Source: Watanabe et al. 2017, Algorithm 2 and eqs. 15 to 17; Graves 2008, section 7.5.
        """
        symbols = self.scores.size(2)
        same = torch.arange(symbols, device=self.last.device) == self.last.unsqueeze(1)
        before, before_same = self._before()
        # Repeating the last symbol needs a blank in between.
        starts = torch.where(same.unsqueeze(1), before_same.unsqueeze(2), before.unsqueeze(2)) + self.scores[self.items]
        total = starts.logsumexp(1)
        total[:, END] = torch.logaddexp(self.ending[:, -1, 0], self.ending[:, -1, 1])
        total[:, BLANK] = NEVER
        return (total - self.total.unsqueeze(1)).nan_to_num(nan=NEVER, neginf=NEVER)

    def advance(self, symbols: Tensor) -> Prefixes:
        """The prefixes with `symbols` (N,) int64 appended."""
        scores = self.scores[self.items]
        of_symbol = scores.gather(2, symbols.view(-1, 1, 1).expand(-1, scores.size(1), 1)).squeeze(2)
        before, before_same = self._before()
        starts = torch.where((symbols == self.last).unsqueeze(1), before_same, before) + of_symbol
        in_symbol = in_blank = torch.full_like(self.total, NEVER)
        ending = []
        for place in range(scores.size(1)):
            in_blank = torch.logaddexp(in_symbol, in_blank) + scores[:, place, BLANK]
            in_symbol = torch.logaddexp(in_symbol + of_symbol[:, place], starts[:, place])
            ending.append(torch.stack((in_symbol, in_blank), -1))
        return Prefixes(self.scores, self.items, torch.stack(ending, 1), starts.logsumexp(1), symbols)

    def _before(self) -> tuple[Tensor, Tensor]:
        """(N,S) of all paths of the prefix that end before each position, and of those among them that end in a blank;
        before the first position there is the empty path of the empty prefix."""
        in_symbol, in_blank = self.ending.unbind(-1)
        nothing = torch.where(self.last == BLANK, 0.0, NEVER).unsqueeze(1)
        either = torch.cat((nothing, torch.logaddexp(in_symbol, in_blank)[:, :-1]), 1)
        return either, torch.cat((torch.full_like(nothing, NEVER), in_blank[:, :-1]), 1)
