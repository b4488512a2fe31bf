"""The layer of encoders and decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.model.attention import MultiHeadAttention
from seq2seq_suite.model.norms import LayerNorm

if TYPE_CHECKING:
    from seq2seq_suite.model.attention import KeysValues, RelativePositions


class FeedForward(nn.Module):
    """FFN(x) = a(x W1 + b1) W2 + b2, the position-wise network between attentions, a its activation.

    Source: Vaswani et al. 2017, eq. 2, with a(x) = max(0, x).
    """

    def __init__(self, shape: LayerShape):
        super().__init__()
        self.activation = shape.activation
        self.inner = nn.Linear(shape.width, shape.feed_forward_width)
        self.outer = nn.Linear(shape.feed_forward_width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """(...,D) -> (...,D)."""
        return self.outer(self.activation(self.inner(x)))


class TransformerLayer(nn.Module):
    """Self-attention, cross-attention if there is a memory, then feed-forward, each as x + Dropout(Sublayer(Norm(x))).

    Encoders have layers without a memory. A convolution sees later positions: in decoders it is for parallel decoding
    only.

    Source: Vaswani et al. 2017, section 3.1, with the norm in front (Xiong et al. 2020, Table 1), which needs no
    warm-up.

    Args:
        shape: the layer's.
        positions: those that act inside self-attention.
        has_memory: there is cross-attention.
    """

    ends_in_norm = True  # a stack of these needs one more norm behind the last

    def __init__(self, shape: LayerShape, positions: RelativePositions | None = None, *, has_memory: bool = False):
        super().__init__()
        width, heads, rate = shape.width, shape.num_heads, shape.attention_dropout
        self.attention = shape.attention(width, heads, dropout_rate=rate, positions=positions)
        self.attention_norm = shape.norm(width)
        self.convolution = self.cross_attention = None
        if shape.convolution is not None:
            self.convolution, self.convolution_norm = shape.convolution(shape), shape.norm(width)
        if has_memory:
            self.cross_attention = shape.attention(width, heads, dropout_rate=rate)
            self.cross_norm = shape.norm(width)
        self.feed_forward, self.feed_forward_norm = shape.feed_forward(shape), shape.norm(width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self,
        x: Tensor,
        visible: Tensor | None,
        *,
        cache: KeysValues | None = None,
        memory: KeysValues | None = None,
        memory_visible: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues | None]:
        """One layer.

        Args:
            x: (N,T,D).
            visible: bool, broadcastable to (N,T,cached + T); None: every position sees all.
            cache: keys and values of earlier positions.
            memory, memory_visible: as of `MultiHeadAttention.cross`.

        Returns:
            (N,T,D), and the cache with these positions added (None if there was none).
        """
        y, cache = self.attention(self.attention_norm(x), visible, cache)
        x = x + self.dropout(y)
        if self.convolution is not None:
            x = x + self.dropout(self.convolution(self.convolution_norm(x)))
        if self.cross_attention is not None:
            assert memory is not None and memory_visible is not None
            x = x + self.dropout(self.cross_attention.cross(self.cross_norm(x), memory, memory_visible))
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x, cache


class PostNormLayer(TransformerLayer):
    """The same sub-layers, each as Norm(x + Dropout(Sublayer(x))).

    Source: Vaswani et al. 2017, section 3.1.
    """

    ends_in_norm = False

    def forward(
        self,
        x: Tensor,
        visible: Tensor | None,
        *,
        cache: KeysValues | None = None,
        memory: KeysValues | None = None,
        memory_visible: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues | None]:
        """See `TransformerLayer.forward`."""
        y, cache = self.attention(x, visible, cache)
        x = self.attention_norm(x + self.dropout(y))
        if self.convolution is not None:
            x = self.convolution_norm(x + self.dropout(self.convolution(x)))
        if self.cross_attention is not None:
            assert memory is not None and memory_visible is not None
            x = self.cross_norm(x + self.dropout(self.cross_attention.cross(x, memory, memory_visible)))
        x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x, cache


@dataclass(frozen=True)
class LayerShape:
    """The sizes of a stack's layers, and the factories of their parts.

    Args:
        width, feed_forward_width, num_heads, dropout, attention_dropout: as in the configuration's `backbone`.
        activation: of the feed-forward network, from tensor to tensor.
        norm: makes a norm of width D.
        attention: makes an attention; called as `MultiHeadAttention` is.
        feed_forward: makes the position-wise network of a shape.
        convolution: makes a sub-layer behind self-attention, of a shape; None: there is none.
        layer: makes a layer; called as `TransformerLayer` is.
        needs_real_positions: some part computes over the real positions of a batch: see `variants.real_positions`.
    """

    width: int
    feed_forward_width: int
    num_heads: int
    dropout: float
    attention_dropout: float = 0.0
    activation: Callable[[Tensor], Tensor] = functional.relu
    norm: Callable[[int], nn.Module] = LayerNorm
    attention: Callable[..., MultiHeadAttention] = MultiHeadAttention
    feed_forward: Callable[[LayerShape], nn.Module] = FeedForward
    convolution: Callable[[LayerShape], nn.Module] | None = None
    layer: Callable[..., TransformerLayer] = TransformerLayer
    needs_real_positions: bool = False

    def last_norm(self) -> nn.Module:
        """The norm at the end of a stack, which layers with a norm in front of each sub-layer need."""
        return self.norm(self.width) if self.layer.ends_in_norm else nn.Identity()


def causal(length: int, past: int = 0, device: torch.device | None = None) -> Tensor:
    """(1, length, past + length) bool: position i sees itself and all before it."""
    return torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past).unsqueeze(0)
