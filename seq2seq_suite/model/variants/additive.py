"""Attention that compares queries and keys by a small network instead of a product."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq_suite.model.attention import MultiHeadAttention, RelativePositions, weighted_mean


def additive_attention(
    query_BHTE: Tensor,
    key_BHSE: Tensor,
    value_BHSE: Tensor,
    visible_BHTS: Tensor | None = None,
    bias_HTS: Tensor | None = None,
    *,
    weight_HE: Tensor,
    dropout_rate: float = 0.0,
) -> Tensor:
    """sum_s softmax_s(v . tanh(q + k_s)) value_s.

    The products W s and U h of the paper's v^T tanh(W s + U h) are the queries and keys.
    Every pair of query and key has a vector of its own, so that training keeps O(B H T S E) numbers, E times those of
    an unfused dot product; without gradients a head's B T S E are held at a time.

    Args:
        query_BHTE, key_BHSE, value_BHSE, visible_BHTS, bias_HTS, dropout_rate: as of `attention`.
        weight_HE: v of each head.

    Returns:
        (B,H,T,E); zeros for a query without visible keys.

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1.2, in each head of Vaswani et al. 2017.
    """
    # Head by head: a product with one vector is about twice as fast as a batch of products with several.
    scores = torch.stack(
        [
            torch.tanh_(query.unsqueeze(2) + key.unsqueeze(1)) @ weight
            for query, key, weight in zip(query_BHTE.unbind(1), key_BHSE.unbind(1), weight_HE, strict=True)
        ],
        1,
    )
    if bias_HTS is not None:
        scores = scores + bias_HTS
    return weighted_mean(scores, value_BHSE, visible_BHTS, dropout_rate)


class AdditiveMultiHeadAttention(MultiHeadAttention):
    """`MultiHeadAttention` with `additive_attention`, a learned vector for each head."""

    def __init__(
        self, width: int, num_heads: int, *, dropout_rate: float = 0.0, positions: RelativePositions | None = None
    ):
        super().__init__(width, num_heads, dropout_rate=dropout_rate, positions=positions)
        head_width = width // num_heads
        self.score_weight = nn.Parameter(torch.randn(num_heads, head_width) * head_width**-0.5)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, bias: Tensor | None) -> Tensor:
        rate = self.dropout_rate if self.training else 0.0
        return additive_attention(query, key, value, visible, bias, weight_HE=self.score_weight, dropout_rate=rate)
