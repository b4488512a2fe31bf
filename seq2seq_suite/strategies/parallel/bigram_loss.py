"""The expected number of the target's bigrams in an output, in any place: a loss beside the likelihood.

A model of independent positions spreads its mass over several right answers, as the likelihood of one of them demands.
This loss only counts whether neighbours belong together: it rewards a model that commits to one answer, and does not
punish a word order that differs from the target's.

Shape suffixes in this module: B rows, C positions, T target symbols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.strategies.parallel.glancing import ratio_at

if TYPE_CHECKING:
    from seq2seq_suite.options.strategies import Ratios


def agreement_weights(ratios: Ratios, likelihood: str, fraction_done: float) -> dict[str, float]:
    """Of the two losses, by name: the disagreement's share goes from one ratio to the other over the run.

    Shao & Feng 2022 and Ma et al. 2023 train by likelihood first, then by it alone.
    """
    share = ratio_at(ratios, fraction_done)
    return {likelihood: 1.0 - share, "bigrams": share}


def bigram_disagreement(found: Tensor, total: Tensor, target: Tensor, lengths: Tensor) -> Tensor:
    """1 - F1 of the expected bigrams: 1 - 2 sum_g min(C(g), E[count of g]) / (sum_g C(g) + E[sum_g count of g]).

    Args:
        found: (B,T-1) float32, how often each bigram of the target is expected; equal bigrams have equal values.
        total: (B,) float32, how many bigrams are expected in all.
        target: (B,T) int64.
        lengths: (B,) int64, T of each row.

    Returns:
        (B,) float32, from 0 to 1.

    Source: Shao & Feng 2022 (non-monotonic latent alignments), section 4.2; Ma et al. 2023 (fuzzy alignments) take the
    precision and a brevity penalty for the graph.
    """
    place = torch.arange(target.size(1) - 1, device=target.device)
    real = place < (lengths - 1).unsqueeze(1)
    pair = torch.stack((target[:, :-1], target[:, 1:]), 2)
    same = (pair.unsqueeze(2) == pair.unsqueeze(1)).all(3) & real.unsqueeze(1) & real.unsqueeze(2)  # (B,T-1,T-1)
    count = same.sum(2).clamp(min=1)
    # A bigram that occurs n times in the target is listed n times, with weight 1/n.
    matched = (torch.minimum(found, count) / count).masked_fill(~real, 0.0).sum(1)
    return 1.0 - 2.0 * matched / (total + (lengths - 1))


def expected_bigrams(standing: Tensor, links: Tensor, given: Tensor) -> Tensor:
    """(B,T-1): sum over i < j of s_i P(y_t | i) L_ij P(y_t+1 | j), in float32 whatever the training's precision.

    Args:
        standing: (B,C) s, the probability that a path visits a position.
        links: (B,C,C) L, that the next symbol after position i comes from position j.
        given: (B,C,T) P, of each target symbol at each position.
    """
    first = (standing.unsqueeze(2) * given[..., :-1]).transpose(1, 2)
    with torch.autocast(given.device.type, enabled=False):
        return ((first @ links) * given[..., 1:].transpose(1, 2)).sum(2)


def graph_disagreement(scores: Tensor, links: Tensor, target: Tensor, lengths: Tensor, mask: Tensor) -> Tensor:
    """`bigram_disagreement` of a directed acyclic graph's paths, whose last symbol END is.

    Args:
        scores: (B,C,T) log P of the target's symbols at each vertex.
        links: (B,C,C) log-probabilities of `dag.Links`.
        target: (B,T) int64.
        lengths: (B,) int64, T of each row.
        mask: (B,C) bool of real vertices.

    Source: Ma et al. 2023, eqs. 9 to 12.
    """
    follow = links.exp()
    # s = e_1 + s E, which is triangular.
    first = torch.zeros_like(follow[:, :1])
    first[:, 0, 0] = 1.0
    unit = torch.eye(follow.size(1), device=follow.device, dtype=follow.dtype)
    standing = torch.linalg.solve_triangular(unit - follow, first, upper=True, left=False, unitriangular=True)
    standing = standing.squeeze(1) * mask
    found = expected_bigrams(standing, follow, scores.exp() * mask.unsqueeze(2))
    return bigram_disagreement(found, standing.sum(1) - 1.0, target, lengths)


def collapsed_disagreement(scores: Tensor, target: Tensor, lengths: Tensor, mask: Tensor) -> Tensor:
    """`bigram_disagreement` of CTC's paths once collapsed, the output's beginning and end counted as symbols.

    Between two neighbours of an output there are only blanks: L_ij = prod_i<k<j P(blank | k). A symbol that
    follows itself needs one of them. In the expected number of all bigrams, only repetitions of the target's
    symbols are collapsed; the model hardly repeats others.

    Args:
        scores: (B,C,1+U) log P of the blank and of the target's symbols at each position.
        target: (B,U) int64 without END, padded with the blank.
        lengths: (B,) int64, U of each row.
        mask: (B,C) bool of real positions.

    Source: Shao & Feng 2022, section 4.2.
    """
    here = mask.unsqueeze(2)
    blank, symbols = scores[..., 0].masked_fill(~mask, 0.0), scores[..., 1:].exp() * here
    # An extra position before the first emits the beginning, one after the last the end.
    blanks = functional.pad(blank, (1, 1))
    passed = blanks.cumsum(1)
    links = (passed.unsqueeze(1) - blanks.unsqueeze(1) - passed.unsqueeze(2)).triu(1).exp().triu(1)
    place = torch.arange(target.size(1) + 2, device=target.device)
    end = place == (lengths + 1).unsqueeze(1)  # (B,U+2)
    given = functional.pad(symbols, (1, 1, 1, 1)).masked_fill(end.unsqueeze(1), 0.0)
    given[:, 0, 0] = 1.0
    given[:, -1] = end.to(given.dtype)
    spelled = functional.pad(target + 2, (1, 1)).masked_fill(end, 1)  # beginning 0, end 1
    found = expected_bigrams(torch.ones_like(given[..., 0]), links, given)
    again = (given[:, :-1] * given[:, 1:]).sum(1)  # (B,U+2) of each symbol right after itself
    twice = spelled[:, :-1] == spelled[:, 1:]
    found = found - torch.where(twice, again[:, :-1], 0.0)
    known = ((spelled.unsqueeze(2) == spelled.unsqueeze(1)) & (place < place.unsqueeze(1))).any(2)
    merged = again.masked_fill(known | (place > lengths.unsqueeze(1)), 0.0).sum(1)
    length = ((1.0 - blank.exp()) * mask).sum(1) - merged
    return bigram_disagreement(found, length + 1.0, spelled, lengths + 2)
