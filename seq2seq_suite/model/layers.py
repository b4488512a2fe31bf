"""The layer of encoders and decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.model.attention import KeysValues, MultiHeadAttention
from seq2seq_suite.model.convolution import Convolution
from seq2seq_suite.model.dropout import Dropout
from seq2seq_suite.model.linear import Linear
from seq2seq_suite.model.norms import build_norm
from seq2seq_suite.model.positions import RelativePositions


@dataclass(frozen=True)
class LayerShape:
    """The shape of a stack's layers, by the names of the configuration's `backbone`."""

    width: int
    feed_forward_width: int
    num_heads: int
    dropout: float
    attention_dropout: float = 0.0
    activation: str = "relu"
    norm: str = "layer"
    norm_placement: str = "pre"
    kernel: int = 0  # positions under the convolution of a layer, odd; 0: it has none
    attention: type[MultiHeadAttention] = MultiHeadAttention
    feed_forward: Callable[[LayerShape], nn.Module] | None = None  # builds the network; None: `FeedForward`


class FeedForward(nn.Module):
    """The position-wise network between attentions.

    relu:   FFN(x) = max(0, x W1 + b1) W2 + b2          Source: Vaswani et al. 2017, eq. 2.
    gelu:   the same with GELU                          Source: Hendrycks & Gimpel 2016, eq. 1.
    swiglu: FFN(x) = (Swish(x W) * x V) W2              Source: Shazeer 2020, eq. 6. Of the same size as the
            others: its hidden width is two thirds of theirs, rounded up to a multiple of 8.
    """

    def __init__(self, shape: LayerShape):
        super().__init__()
        hidden = shape.feed_forward_width
        self.gated = shape.activation == "swiglu"
        if self.gated:
            hidden = -(-2 * hidden // 24) * 8
        activations = {"relu": functional.relu, "gelu": functional.gelu, "swiglu": functional.silu}
        self.activation = activations[shape.activation]
        self.inner = Linear(shape.width, 2 * hidden if self.gated else hidden, bias=not self.gated)
        self.outer = Linear(hidden, shape.width, bias=not self.gated)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(...,D) -> (...,D); `mask` is for networks that choose between experts."""
        if not self.gated:
            return self.outer(self.activation(self.inner(x)))
        gate, value = self.inner(x).chunk(2, dim=-1)
        return self.outer(self.activation(gate) * value)


class Residual(nn.Module):
    """The residual connection and the norm around a sub-layer.

    post: y = Norm(x + Sublayer(x))      Source: Vaswani et al. 2017, section 3.1.
    pre:  y = x + Sublayer(Norm(x))      Source: Xiong et al. 2020, Table 1; needs no warm-up.
    """

    def __init__(self, shape: LayerShape):
        super().__init__()
        self.norm = build_norm(shape.norm, shape.width)
        self.dropout = Dropout(shape.dropout)
        self.pre = shape.norm_placement == "pre"

    def before(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """The sub-layer's input from x (N,T,D); mask (N,T) of real positions, for norms over the batch."""
        return self.norm(x, mask) if self.pre else x

    def after(self, x: Tensor, y: Tensor, mask: Tensor | None) -> Tensor:
        """x plus the sub-layer's output y (N,T,D)."""
        x = self.dropout(y, x)
        return x if self.pre else self.norm(x, mask)


class TransformerLayer(nn.Module):
    """Self-attention, a convolution if the shape has one, cross-attention if there is a memory, then feed-forward.

    Encoders have layers without a memory. A convolution sees later positions: in decoders it is for
    parallel decoding only.

    Args:
        shape: the layer's.
        positions: those that act inside self-attention.
        has_memory: there is cross-attention.
    """

    def __init__(self, shape: LayerShape, positions: RelativePositions | None = None, *, has_memory: bool = False):
        super().__init__()
        self.attention = shape.attention(shape.width, shape.num_heads, dropout_rate=shape.attention_dropout,
                                         positions=positions)
        self.attention_residual = Residual(shape)
        self.convolution = self.cross_attention = None
        if shape.kernel:
            self.convolution = Convolution(shape.width, kernel=shape.kernel, norm=shape.norm)
            self.convolution_residual = Residual(shape)
        if has_memory:
            self.cross_attention = shape.attention(shape.width, shape.num_heads, dropout_rate=shape.attention_dropout)
            self.cross_residual = Residual(shape)
        self.feed_forward, self.feed_forward_residual = (shape.feed_forward or FeedForward)(shape), Residual(shape)

    def forward(self, x: Tensor, visible: Tensor | None, mask: Tensor | None = None, *,
                cache: KeysValues | None = None, memory: KeysValues | None = None,
                memory_visible: Tensor | None = None) -> tuple[Tensor, KeysValues | None]:
        """One layer.

        Args:
            x: (N,T,D).
            visible: bool, broadcastable to (N,T,cached + T); None: every position sees all.
            mask: (N,T) of real positions.
            cache: keys and values of earlier positions.
            memory, memory_visible: as of `MultiHeadAttention.cross`.

        Returns:
            (N,T,D), and the cache with these positions added (None if there was none).
        """
        y, cache = self.attention(self.attention_residual.before(x, mask), visible, cache)
        x = self.attention_residual.after(x, y, mask)
        if self.convolution is not None:
            y = self.convolution(self.convolution_residual.before(x, mask), mask)
            x = self.convolution_residual.after(x, y, mask)
        if self.cross_attention is not None:
            y = self.cross_attention.cross(self.cross_residual.before(x, mask), memory, memory_visible)
            x = self.cross_residual.after(x, y, mask)
        y = self.feed_forward(self.feed_forward_residual.before(x, mask), mask)
        return self.feed_forward_residual.after(x, y, mask), cache


def causal(length: int, past: int = 0, device: torch.device | None = None) -> Tensor:
    """(1, length, past + length) bool: position i sees itself and all before it."""
    return torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past).unsqueeze(0)
