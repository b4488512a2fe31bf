"""T5's relative positions: a learned bias of the scores for each head and each bucket of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seq2seq_suite.model.attention import RelativePositions

BUCKETS, FARTHEST = 32, 128


class BucketPositions(RelativePositions):
    """score(i, j) = q_i . k_j / sqrt(E) + table[bucket(j - i), h], with one table for all layers of a stack.

    Half of a direction's N buckets are single distances d = 0 ... N/2 - 1, the others grow by a constant factor up to
    the farthest: bucket(d) = N/2 + floor(N/2 * log(2 d / N) / log(2 * 128 / N)), at most N - 1. Encoders have 16
    buckets before a position and 16 behind it, decoders 32 before it: what is behind counts as distance 0.

    Source: Raffel et al. 2020, section 2.1, with the formula of its authors' repository.
    Differs: scores are divided by sqrt(E), which theirs leave to the initial weights.

    Args:
        head_width, max_positions: not used.
        num_heads: H.
        causal: for a decoder.
    """

    def __init__(self, head_width: int = 0, max_positions: int = 0, *, num_heads: int, causal: bool = False):
        super().__init__()
        self.causal = causal
        self.table = nn.Parameter(torch.empty(BUCKETS, num_heads))
        nn.init.normal_(self.table, std=0.02)

    def bias(self, query_BHTE: Tensor, offset: int = 0) -> Tensor:
        places = torch.arange(offset + query_BHTE.size(2), device=query_BHTE.device)
        distances_TS = places - places[offset:, None]
        return self.table[self._buckets(distances_TS)].permute(2, 0, 1).to(query_BHTE.dtype)

    def _buckets(self, distances: Tensor) -> Tensor:
        """j - i -> 0 ... BUCKETS - 1."""
        if self.causal:
            return _logarithmic((-distances).clamp(min=0), BUCKETS)
        half = BUCKETS // 2
        return _logarithmic(distances.abs(), half) + half * (distances > 0)


def _logarithmic(distances: Tensor, count: int) -> Tensor:
    """Distances of one direction -> 0 ... count - 1."""
    single = count // 2
    share = torch.log(distances.clamp(min=1).float() / single) / math.log(FARTHEST / single)
    return torch.where(distances < single, distances, (single + (share * (count - single)).long()).clamp(max=count - 1))
