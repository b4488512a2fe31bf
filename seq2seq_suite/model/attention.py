"""Attention, and the cache of keys and values for incremental decoding.

Shape suffixes in this module: B rows, H heads, T queries, S keys, E head width, D = H * E.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import PerRow


def attention(
    query_BHTE: Tensor,
    key_BHSE: Tensor,
    value_BHSE: Tensor,
    visible_BHTS: Tensor | None = None,
    bias_HTS: Tensor | None = None,
    *,
    dropout_rate: float = 0.0,
) -> Tensor:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(E) + bias) V.

    Args:
        query_BHTE, key_BHSE, value_BHSE: float tensors.
        visible_BHTS: bool, broadcastable; True where a query may attend to a key. None: everywhere.
        bias_HTS: added to the scores, of their type; or None.
        dropout_rate: of the attention weights.

    Returns:
        (B,H,T,E); zeros for a query without visible keys.

    Source: Vaswani et al. 2017, eq. 1; the bias of Press et al. 2022.
    """
    scores = query_BHTE @ key_BHSE.transpose(-2, -1) / math.sqrt(query_BHTE.size(-1))
    if bias_HTS is not None:
        scores = scores + bias_HTS
    return weighted_mean(scores, value_BHSE, visible_BHTS, dropout_rate)


def weighted_mean(scores_BHTS: Tensor, value_BHSE: Tensor, visible_BHTS: Tensor | None, dropout_rate: float) -> Tensor:
    """softmax(scores) V, over visible keys alone; zeros for a query without visible keys."""
    if visible_BHTS is not None:
        scores_BHTS = scores_BHTS.masked_fill(~visible_BHTS, float("-inf"))
    weights = scores_BHTS.softmax(-1).nan_to_num(0.0)  # 0 / 0 without visible keys
    return functional.dropout(weights, dropout_rate) @ value_BHSE


@dataclass(frozen=True)
class KeysValues(PerRow):
    """Keys and values (B,H,S,E)."""

    keys: Tensor
    values: Tensor

    @staticmethod
    def empty(like_BHTE: Tensor) -> KeysValues:
        """No positions yet, for rows, heads and type of `like_BHTE`."""
        return KeysValues(like_BHTE[:, :, :0], like_BHTE[:, :, :0])

    @property
    def length(self) -> int:
        """S."""
        return self.keys.size(2)

    def append(self, keys_BHTE: Tensor, values_BHTE: Tensor) -> KeysValues:
        """With further positions appended; to continue one past in two ways, `select` from it first."""
        return KeysValues(torch.cat((self.keys, keys_BHTE), 2), torch.cat((self.values, values_BHTE), 2))

    def first(self, length: int) -> KeysValues:
        """Without the positions from `length` on."""
        return KeysValues(self.keys[:, :, :length], self.values[:, :, :length])


class RelativePositions(nn.Module):
    """Positions that act inside self-attention; these leave it as it is."""

    def rotate(self, x_BHTE: Tensor, offset: int = 0) -> Tensor:
        """Queries or keys (B,H,T,E) with their positions; the first column is at position `offset`."""
        return x_BHTE

    def bias(self, query_BHTE: Tensor, offset: int = 0) -> Tensor | None:
        """Bias added to the scores (H,T,offset + T) of queries from `offset` on, or None."""
        return None


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_H) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    W^Q, W^K and W^V are those of all heads, side by side; they are drawn as one matrix (3D,D) would be.

    Source: Vaswani et al. 2017, section 3.2.2.

    Args:
        width: D, a multiple of num_heads.
        num_heads: H.
        dropout_rate: of the attention weights.
        positions: those that act inside self-attention; None if positions are added to the input.
    """

    def __init__(
        self, width: int, num_heads: int, *, dropout_rate: float = 0.0, positions: RelativePositions | None = None
    ):
        super().__init__()
        self.num_heads, self.dropout_rate = num_heads, dropout_rate
        self.positions = positions or RelativePositions()
        projections = [nn.Linear(width, width, device="meta").to_empty(device="cpu") for _ in range(3)]  # not drawn yet
        self.query, self.key, self.value = projections
        for linear in projections:
            nn.init.kaiming_uniform_(linear.weight, a=math.sqrt(5))
        for linear in projections:
            nn.init.uniform_(linear.bias, -(width**-0.5), width**-0.5)
        self.output = nn.Linear(width, width)
        self.attention = attention

    def forward(
        self, x: Tensor, visible: Tensor | None, cache: KeysValues | None = None
    ) -> tuple[Tensor, KeysValues | None]:
        """Self-attention.

        Args:
            x: (B,T,D).
            visible: bool, broadcastable to (B,T,cached + T); None: every key.
            cache: keys and values of earlier positions; None when there is none.

        Returns:
            (B,T,D), and the cache with these positions added (None if there was none).
        """
        offset = cache.length if cache is not None else 0
        query, key, value = (self._heads(linear(x)) for linear in (self.query, self.key, self.value))
        query, key = self.positions.rotate(query, offset), self.positions.rotate(key, offset)
        if cache is not None:
            cache = cache.append(key, value)
            key, value = cache.keys, cache.values
        return self._join(query, key, value, visible, self.positions.bias(query, offset)), cache

    def memory_keys_values(self, memory: Tensor) -> KeysValues:
        """Keys and values (B,H,S,E) of `memory` (B,S,D), once for all steps of decoding."""
        return KeysValues(self._heads(self.key(memory)), self._heads(self.value(memory)))

    def cross(self, x: Tensor, memory: KeysValues, visible: Tensor) -> Tensor:
        """Cross-attention of x (N,T,D) to the `visible` (B,1,S) positions of the `memory` of B sentences.

        N is a multiple of B: the beams of a sentence, side by side, are queries to one memory.
        """
        query = self._heads(self.query(x.reshape(visible.size(0), -1, x.size(-1))))
        return self._join(query, memory.keys, memory.values, visible).view(x.shape)

    def _heads(self, projected: Tensor) -> Tensor:
        """(B,T,D) -> (B,H,T,E)."""
        return projected.unflatten(2, (self.num_heads, -1)).transpose(1, 2)

    def _join(
        self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, bias: Tensor | None = None
    ) -> Tensor:
        """(B,H,T,E) and (B,H,S,E) -> (B,T,D)."""
        visible = visible.unsqueeze(1) if visible is not None else None
        return self.output(self._attend(query, key, value, visible, bias).transpose(1, 2).flatten(2))

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, bias: Tensor | None) -> Tensor:
        rate = self.dropout_rate if self.training else 0.0
        return self.attention(query, key, value, visible, bias, dropout_rate=rate)
