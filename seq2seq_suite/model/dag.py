"""A directed acyclic graph over the decoder's positions: every path through it is an output.

Shape suffixes in this module: B rows, C vertices, H heads, T target symbols, D width, V symbols.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

NEVER = -1e30  # log-probability of what cannot be; finite, so that no gradient becomes NaN


class Links(nn.Module):
    """E_vu, the probability that vertex u follows vertex v < u on a path.

    E_v = sum_h g_h(v) softmax_u>v(q_h(v) . k_h(u) / sqrt(D / H)), g the softmax of a linear layer.

    Source: Huang et al. 2022 (Directed Acyclic Transformer), section 3.2 and appendix.

    Args:
        width: D, a multiple of num_heads.
        num_heads: H.
    """

    def __init__(self, width: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.query_key = nn.Linear(width, 2 * width)
        self.gate = nn.Linear(width, num_heads)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """hidden (B,C,D), mask (B,C) bool of real vertices -> log E (B,C,C) float32, `NEVER` where there is no link."""
        count = hidden.size(1)
        query, key = (part.unflatten(2, (self.num_heads, -1)).transpose(1, 2).float()
                      for part in self.query_key(hidden).chunk(2, -1))
        scores_BHCC = query @ key.transpose(2, 3) / math.sqrt(query.size(3))
        later = torch.ones(count, count, dtype=torch.bool, device=hidden.device).triu(1)
        linked_BCC = later & mask.unsqueeze(1) & mask.unsqueeze(2)
        each = scores_BHCC.masked_fill(~linked_BCC.unsqueeze(1), NEVER).log_softmax(-1)
        gate_BHC1 = self.gate(hidden).float().log_softmax(-1).transpose(1, 2).unsqueeze(3)
        return (each + gate_BHC1).logsumexp(1).masked_fill(~linked_BCC, NEVER)


def path_log_likelihood(emissions_BTC: Tensor, links_BCC: Tensor, lengths: Tensor, vertices: Tensor) -> Tensor:
    """log p(y | x) = log sum over paths of prod_t P(y_t | a_t) E_(a_t, a_t+1), all from the first vertex to the last.

    f_1(u) = P(y_1 | u) at the first vertex,  f_t(u) = P(y_t | u) sum_v<u f_t-1(v) E_vu,  p = f_T(last)

    Args:
        emissions_BTC: log P(y_t | u), float32.
        links_BCC: of `Links`.
        lengths: (B,) int64, T of each row.
        vertices: (B,) int64, C of each row.

    Returns:
        (B,), at most `NEVER` / 2 where no path is long enough.

    Source: Huang et al. 2022, eqs. 5 to 7.
    """
    first = torch.full_like(emissions_BTC[:, 0], NEVER)
    first[:, 0] = 0.0
    reached = first + emissions_BTC[:, 0]
    for step in range(1, emissions_BTC.size(1)):
        following = (reached.unsqueeze(2) + links_BCC).logsumexp(1) + emissions_BTC[:, step]
        reached = torch.where((step < lengths).unsqueeze(1), following, reached)
    return reached.gather(1, (vertices - 1).unsqueeze(1)).squeeze(1)


def best_path(emissions_BTC: Tensor, links_BCC: Tensor, lengths: Tensor, vertices: Tensor) -> Tensor:
    """(B,T) int64, the vertex of each target symbol on the likeliest path; -1 beyond a row's T, or without any path."""
    first = torch.full_like(emissions_BTC[:, 0], NEVER)
    first[:, 0] = 0.0
    reached, back = first + emissions_BTC[:, 0], []
    for step in range(1, emissions_BTC.size(1)):
        best, came_from = (reached.unsqueeze(2) + links_BCC).max(1)
        back.append(came_from)
        reached = torch.where((step < lengths).unsqueeze(1), best + emissions_BTC[:, step], reached)
    place = vertices - 1
    possible = reached.gather(1, place.unsqueeze(1)).squeeze(1) > NEVER / 2
    path = torch.full(emissions_BTC.shape[:2], -1, dtype=torch.int64, device=lengths.device)
    for step in range(emissions_BTC.size(1) - 1, -1, -1):
        inside = (step < lengths) & possible
        path[:, step] = torch.where(inside, place, -1)
        if step:
            place = torch.where(inside, back[step - 1].gather(1, place.unsqueeze(1)).squeeze(1), place)
    return path
