"""Prefix beam search over the outputs of a CTC head."""

from __future__ import annotations

import heapq
import math

from torch import Tensor

from seq2seq_suite.common.types import BLANK, END, NEVER, SymbolGain

_LEAST = math.log(1e-3)


def ctc_beam(scores: Tensor, width: int, language: SymbolGain | None = None) -> list[tuple[tuple[int, ...], float]]:
    """The likeliest outputs of one item with their log-probabilities, each summed over its paths.

    The best path differs from the likeliest output if a symbol's mass is spread over several positions, on each of
    which the blank is likelier.

    Args:
        scores: (S,V) log-probabilities.
        width: outputs kept after each position, and symbols tried there besides an output's last one.
        language: what a symbol, at last END, adds to the score of the output that it extends; then symbols of
            less than a thousandth are not tried.

    Source: Hannun et al. 2014, Algorithm 1.

    >>> import torch
    >>> (output, score), *_ = ctc_beam(torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log(), 2)
    >>> output, round(math.exp(score), 2)  # the best path is two blanks, 0.36
    ((1,), 0.64)
    """
    gains, symbols = scores.topk(min(width, scores.size(1)), 1)
    least = NEVER if language is None else _LEAST
    # output -> log-probability of its paths that end in a blank, in its last symbol; what its symbols added
    beam = {(): [0.0, NEVER, 0.0]}
    for place, row in enumerate(scores.numpy(force=True)):
        tried = [
            (symbol, gain)
            for symbol, gain in zip(symbols[place].tolist(), gains[place].tolist(), strict=True)
            if symbol != BLANK and gain > least
        ]
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
    found = [
        (output, _score(*parts) + (0.0 if language is None else language(output, END)))
        for output, parts in beam.items()
    ]
    return sorted(((output, score) for output, score in found if score > NEVER), key=lambda one: -one[1])


def _score(in_blank: float, in_symbol: float, added: float) -> float:
    return _add(in_blank, in_symbol) + added


def _add(first: float, second: float) -> float:
    """log(exp(first) + exp(second))."""
    low, high = (first, second) if first < second else (second, first)
    return high if low == NEVER else high + math.log1p(math.exp(low - high))
