"""Decoding of a CTC head: the best path, and prefix probabilities for beam search."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq_suite.common.types import BLANK, END, SymbolGain

NEVER = float("-inf")
_LEAST = math.log(1e-3)


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
    return [(row[keep].tolist(), score) for row, keep, score
            in zip(path.cpu(), kept.cpu(), gained.sum(1).tolist(), strict=True)]


def ctc_beam(scores: Tensor, width: int, language: SymbolGain | None = None) -> list[tuple[tuple[int, ...], float]]:
    """The likeliest outputs of one item with their log-probabilities, each summed over its paths.

    The best path differs from the likeliest output if a symbol's mass is spread over several positions, on each of
    which the blank is likelier.

    Args:
        scores: (S,V) log-probabilities.
        width: outputs kept after each position, and symbols tried there besides an output's last one.
        language: what a symbol, at last END, adds to the score of an output behind which it comes; then symbols of
            less than a thousandth are not tried.

    Source: Hannun et al. 2014, Algorithm 1.

    >>> (output, score), *_ = ctc_beam(torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log(), 2)
    >>> output, round(math.exp(score), 2)  # the best path is two blanks, 0.36
    ((1,), 0.64)
    """
    gains, symbols = scores.topk(min(width, scores.size(1)), 1)
    least = NEVER if language is None else _LEAST
    # output -> log-probability of its paths that end in a blank, in its last symbol; what its symbols added
    beam = {(): [0.0, NEVER, 0.0]}
    for place, row in enumerate(scores.numpy(force=True)):
        tried = [(symbol, gain) for symbol, gain in zip(symbols[place].tolist(), gains[place].tolist(), strict=True)
                 if symbol != BLANK and gain > least]
        following: dict[tuple[int, ...], list[float]] = {}
        for output, (in_blank, in_symbol, added) in beam.items():
            either = _add(in_blank, in_symbol)
            same = following.setdefault(output, [NEVER, NEVER, added])
            same[0] = _add(same[0], either + float(row[BLANK]))
            last = output[-1] if output else BLANK
            if output:
                same[1] = _add(same[1], in_symbol + float(row[last]))
            for symbol, gain in tried:
                longer = following.get(grown := (*output, symbol))
                if longer is None:
                    more = 0.0 if language is None else language(output, symbol)
                    longer = following[grown] = [NEVER, NEVER, added + more]
                longer[1] = _add(longer[1], (in_blank if symbol == last else either) + gain)
        beam = dict(heapq.nlargest(width, following.items(), key=lambda one: _score(*one[1])))
    found = [(output, _score(*parts) + (0.0 if language is None else language(output, END)))
             for output, parts in beam.items()]
    return sorted(((output, score) for output, score in found if score > NEVER), key=lambda one: -one[1])


def _score(in_blank: float, in_symbol: float, added: float) -> float:
    return _add(in_blank, in_symbol) + added


def _add(first: float, second: float) -> float:
    """log(exp(first) + exp(second))."""
    low, high = (first, second) if first < second else (second, first)
    return high if low == NEVER else high + math.log1p(math.exp(low - high))


@dataclass(frozen=True)
class Prefixes:
    """Forward variables of N partial outputs, the same number for each of B items.

    Args:
        scores: (B,S,V) log-probabilities of a `CtcHead`.
        ending: (N,S,2) log-probability of all paths up to each position that collapse to the prefix and end in its last
            symbol, or in a blank.
        total: (N,) log-probability of all outputs that begin with the prefix.
        last: (N,) its last symbol, `BLANK` for none.
    """

    scores: Tensor
    ending: Tensor
    total: Tensor
    last: Tensor

    @staticmethod
    def empty(scores: Tensor) -> Prefixes:
        """The empty prefix of each item."""
        blanks = scores[..., BLANK].cumsum(1)
        ending = torch.stack((torch.full_like(blanks, NEVER), blanks), dim=-1)
        start = scores.new_zeros(scores.size(0))
        return Prefixes(scores, ending, start, torch.full_like(start, BLANK, dtype=torch.int64))

    def select(self, rows: Tensor, items: Tensor | None = None) -> Prefixes:
        """The given rows, and the given items where some are finished."""
        scores = self.scores if items is None else self.scores.index_select(0, items)
        return Prefixes(scores, *(part.index_select(0, rows) for part in (self.ending, self.total, self.last)))

    def gains(self) -> Tensor:
        """(N,V) log p(outputs that begin with prefix + symbol) - log p(those that begin with the prefix); for END, of
        the prefix as the whole output. Never more than 0.

        Source: Watanabe et al. 2017, Algorithm 2 and eqs. 15 to 17; Graves 2008, section 7.5.
        """
        symbols = self.scores.size(2)
        same = torch.arange(symbols, device=self.last.device) == self.last.unsqueeze(1)
        before, before_same = self._before()
        # Repeating the last symbol needs a blank in between.
        starts = torch.where(same.unsqueeze(1), before_same.unsqueeze(2), before.unsqueeze(2)) + self._scores()
        total = starts.logsumexp(1)
        total[:, END] = torch.logaddexp(self.ending[:, -1, 0], self.ending[:, -1, 1])
        total[:, BLANK] = NEVER
        return (total - self.total.unsqueeze(1)).nan_to_num(nan=NEVER, neginf=NEVER)

    def advance(self, symbols: Tensor) -> Prefixes:
        """The prefixes with `symbols` (N,) int64 appended."""
        scores = self._scores()
        of_symbol = scores.gather(2, symbols.view(-1, 1, 1).expand(-1, scores.size(1), 1)).squeeze(2)
        before, before_same = self._before()
        starts = torch.where((symbols == self.last).unsqueeze(1), before_same, before) + of_symbol
        in_symbol = in_blank = torch.full_like(self.total, NEVER)
        ending = []
        for place in range(scores.size(1)):
            in_blank = torch.logaddexp(in_symbol, in_blank) + scores[:, place, BLANK]
            in_symbol = torch.logaddexp(in_symbol + of_symbol[:, place], starts[:, place])
            ending.append(torch.stack((in_symbol, in_blank), -1))
        return Prefixes(self.scores, torch.stack(ending, 1), starts.logsumexp(1), symbols)

    def _scores(self) -> Tensor:
        """(N,S,V), each item's for each of its rows."""
        return self.scores.repeat_interleave(self.last.size(0) // self.scores.size(0), dim=0)

    def _before(self) -> tuple[Tensor, Tensor]:
        """(N,S) of all paths of the prefix that end before each position, and of those among them that end in a blank;
        before the first position there is the empty path of the empty prefix."""
        in_symbol, in_blank = self.ending.unbind(-1)
        nothing = torch.where(self.last == BLANK, 0.0, NEVER).unsqueeze(1)
        either = torch.cat((nothing, torch.logaddexp(in_symbol, in_blank)[:, :-1]), 1)
        return either, torch.cat((torch.full_like(nothing, NEVER), in_blank[:, :-1]), 1)
