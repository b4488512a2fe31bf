"""Scaled dot-product, additive and multi-head attention, with the key-value cache of incremental decoding.

Shape suffixes in this module: B rows, H heads, T queries, S keys, E head width, D = H * E.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.kernels.dropout import dropout
from seq2seq_suite.model.positions import RotaryPositions


def attention_reference(query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor,
                        visible_BHTS: Tensor | None = None) -> Tensor:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(E)) V, as plain as its equation.

    Args:
        query_BHTE, key_BHSE, value_BHSE: float tensors.
        visible_BHTS: bool, broadcastable; True where a query may look at a key. None: everywhere.

    Returns:
        (B,H,T,E); zeros for a query that sees nothing.

    Source: Vaswani et al. 2017, eq. 1.
    """
    scores = query_BHTE @ key_BHSE.transpose(-2, -1) / math.sqrt(query_BHTE.size(-1))
    if visible_BHTS is None:
        return scores.softmax(-1) @ value_BHSE
    weights = scores.masked_fill(~visible_BHTS, float("-inf")).softmax(-1)
    return weights.nan_to_num(0.0) @ value_BHSE


def attention(query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, visible_BHTS: Tensor | None = None,
              *, dropout_rate: float = 0.0) -> Tensor:
    """The fast path of `attention_reference`: equal in value and gradient.

    PyTorch's fused kernel does the work, but for two cases on the CPU. Its backward pass in bfloat16 is several
    times slower than two matrix products and a softmax, and attention dropout makes it fall back to unfused
    code with slow random numbers.
    """
    on_cpu = query_BHTE.device.type == "cpu"
    if on_cpu and torch.is_grad_enabled() and (query_BHTE.dtype == torch.bfloat16 or dropout_rate):
        return _explicit(query_BHTE, key_BHSE, value_BHSE, visible_BHTS, dropout_rate)
    out = functional.scaled_dot_product_attention(query_BHTE, key_BHSE, value_BHSE, visible_BHTS, dropout_rate)
    return out if visible_BHTS is None else _zero_where_blind(out, visible_BHTS)


def _explicit(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, dropout_rate: float) -> Tensor:
    return _weigh((query * query.size(-1) ** -0.5) @ key.transpose(-2, -1), value, visible, dropout_rate)


def additive_attention(query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, weight_HE: Tensor,
                       visible_BHTS: Tensor | None = None, *, dropout_rate: float = 0.0) -> Tensor:
    """sum_s softmax_s(v . tanh(q + k_s)) value_s: attention that compares by a small network instead of a product.

    Of the paper's v^T tanh(W s + U h) the products W s and U h are made already: they are the queries and keys.
    Every pair of query and key has a vector of its own, so that training keeps O(B H T S E) numbers, E times those of
    an unfused dot product; without gradients a head's B T S E are held at a time.

    Args:
        query_BHTE, key_BHSE, value_BHSE, visible_BHTS: as of `attention_reference`.
        weight_HE: v of each head.
        dropout_rate: of the attention weights.

    Returns:
        (B,H,T,E); zeros for a query that sees nothing.

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1.2, in each head of Vaswani et al. 2017.
    """
    # Head by head: a product with one vector is about twice as fast as a batch of products with several.
    scores = torch.stack([torch.tanh_(query.unsqueeze(2) + key.unsqueeze(1)) @ weight for query, key, weight
                          in zip(query_BHTE.unbind(1), key_BHSE.unbind(1), weight_HE, strict=True)], 1)
    return _weigh(scores, value_BHSE, visible_BHTS, dropout_rate)


def _weigh(scores: Tensor, value: Tensor, visible: Tensor | None, dropout_rate: float) -> Tensor:
    if visible is not None:
        # The lowest finite number keeps a row without any visible key free of NaN in both passes.
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    weights = dropout(scores.softmax(-1), dropout_rate)
    out = weights @ value
    return out if visible is None else _zero_where_blind(out, visible)


def _zero_where_blind(out: Tensor, visible: Tensor) -> Tensor:
    sees = visible.any(-1, keepdim=True)
    # A look at the mask spares two passes over `out` and its gradient; on other devices it would wait for the queue.
    if sees.device.type == "cpu" and bool(sees.all()):
        return out
    return out.masked_fill(~sees, 0.0)


@dataclass(frozen=True)
class KeysValues:
    """Keys and values (N,H,capacity,E) of which the first `length` columns are filled."""

    keys: Tensor
    values: Tensor
    length: int

    @staticmethod
    def empty(like_BHTE: Tensor) -> KeysValues:
        """No columns yet, for rows, heads and type of `like_BHTE`."""
        nothing = like_BHTE[:, :, :0]
        return KeysValues(nothing, nothing, 0)

    def append(self, keys_BHTE: Tensor, values_BHTE: Tensor) -> KeysValues:
        """With further columns. Room is doubled when it runs out, so that a step seldom copies the past.

        The columns are written into room shared with `self`: to continue one past in two ways, `select` from it. Where
        gradients are kept, nothing is written over.
        """
        length = self.length + keys_BHTE.size(2)
        if torch.is_grad_enabled():
            keys, values = self.filled()
            return KeysValues(torch.cat((keys, keys_BHTE), 2), torch.cat((values, values_BHTE), 2), length)
        keys, values = self.keys, self.values
        if length > keys.size(2):
            keys, values = self._grown(keys, 2 * length), self._grown(values, 2 * length)
        keys[:, :, self.length:length] = keys_BHTE
        values[:, :, self.length:length] = values_BHTE
        return KeysValues(keys, values, length)

    def _grown(self, old: Tensor, capacity: int) -> Tensor:
        new = old.new_empty(old.size(0), old.size(1), capacity, old.size(3))
        new[:, :, : self.length] = old[:, :, : self.length]
        return new

    def filled(self) -> tuple[Tensor, Tensor]:
        """Keys and values (N,H,length,E)."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def select(self, rows: Tensor) -> KeysValues:
        """The given rows, (N',) int64, in that order. Room to grow is kept, so that the next step need not make it."""
        return KeysValues(self.keys.index_select(0, rows), self.values.index_select(0, rows), self.length)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Source: Vaswani et al. 2017, section 3.2.2. The three projections of self-attention are one matrix product.

    Args:
        width: D, a multiple of num_heads.
        num_heads: H.
        dropout_rate: of the attention weights.
        rotary: rotates queries and keys by their positions; None where positions are added to the input.
        score: dot, or additive: `additive_attention` with a learned vector for each head, which wants no rotary.
    """

    def __init__(self, width: int, num_heads: int, *, dropout_rate: float = 0.0, rotary: RotaryPositions | None = None,
                 score: str = "dot"):
        super().__init__()
        self.num_heads = num_heads
        self.dropout_rate = dropout_rate
        self.rotary = rotary
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.score_weight = None
        if score == "additive":
            head_width = width // num_heads
            self.score_weight = nn.Parameter(torch.randn(num_heads, head_width) * head_width**-0.5)

    def forward(self, x: Tensor, visible: Tensor | None, past: KeysValues | None = None
                ) -> tuple[Tensor, KeysValues | None]:
        """Self-attention.

        Args:
            x: (B,T,D).
            visible: bool, broadcastable to (B,T,past + T); None: every key.
            past: keys and values of earlier positions; None when there is no cache.

        Returns:
            (B,T,D), and the cache with these positions added (None if there was none).
        """
        query, key, value = self._split_heads(self.query_key_value(x), 3)
        if self.rotary is not None:
            offset = past.length if past is not None else 0
            query, key = self.rotary(query, offset), self.rotary(key, offset)
        if past is not None:
            past = past.append(key, value)
            key, value = past.filled()
        return self._attend(query, key, value, visible), past

    def memory_keys_values(self, memory: Tensor) -> KeysValues:
        """Keys and values (B,H,S,E) of `memory` (B,S,D), once for all steps of decoding."""
        width = memory.size(-1)
        weight, bias = self.query_key_value.weight[width:], self.query_key_value.bias[width:]
        key, value = self._split_heads(functional.linear(memory, weight, bias), 2)
        return KeysValues(key, value, memory.size(1))

    def cross(self, x: Tensor, memory: KeysValues, visible: Tensor) -> Tensor:
        """Cross-attention of x (B,T,D) to `memory`, of whose S positions `visible` (B,1,S) may be seen."""
        width = x.size(-1)
        query = functional.linear(x, self.query_key_value.weight[:width], self.query_key_value.bias[:width])
        (query,) = self._split_heads(query, 1)
        return self._attend(query, *memory.filled(), visible)

    def _split_heads(self, projected: Tensor, parts: int) -> list[Tensor]:
        batch, length, _ = projected.shape
        # Unlike slices, `unbind` has a backward pass that writes the gradients of all parts once, into one tensor.
        parts_BTPHE = projected.view(batch, length, parts, self.num_heads, -1).unbind(2)
        return [part.transpose(1, 2) for part in parts_BTPHE]

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None) -> Tensor:
        rate = self.dropout_rate if self.training else 0.0
        visible = None if visible is None else visible.unsqueeze(1)
        if self.score_weight is None:
            heads_BHTE = attention(query, key, value, visible, dropout_rate=rate)
        else:
            heads_BHTE = additive_attention(query, key, value, self.score_weight, visible, dropout_rate=rate)
        return self.output(heads_BHTE.transpose(1, 2).flatten(2))


