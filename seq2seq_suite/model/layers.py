"""The blocks of which encoders and decoders are stacked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.model.attention import KeysValues, MultiHeadAttention
from seq2seq_suite.model.dropout import Dropout
from seq2seq_suite.model.experts import MixtureOfExperts
from seq2seq_suite.model.norms import build_norm
from seq2seq_suite.model.positions import RotaryPositions
from seq2seq_suite.model.variants.additive import AdditiveMultiHeadAttention


@dataclass(frozen=True)
class LayerShape:
    """What every layer of a stack has in common; the fields are those of the configuration's `backbone`, of which
    `kernel` is `encoder_kernel` to encoders and `decoder_kernel` to decoders."""

    width: int
    feed_forward_width: int
    num_heads: int
    dropout: float
    attention_dropout: float = 0.0
    activation: str = "relu"
    norm: str = "layer"
    norm_placement: str = "pre"
    kernel: int = 0  # positions under the convolution of a layer, odd; 0: it has none
    attention_score: str = "dot"
    experts: int = 0  # feed-forward networks to choose from in each layer; 0: there is one, for all positions
    experts_per_token: int = 2
    expert_capacity: float = 1.25


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
        self.inner = nn.Linear(shape.width, 2 * hidden if self.gated else hidden, bias=not self.gated)
        self.outer = nn.Linear(hidden, shape.width, bias=not self.gated)

    def forward(self, x: Tensor, mask: Tensor | None = None, balance: list[Tensor] | None = None) -> Tensor:
        """(...,D) -> (...,D); `mask` and `balance` are for those that choose between experts."""
        if not self.gated:
            return self.outer(self.activation(self.inner(x)))
        gate, value = self.inner(x).chunk(2, dim=-1)
        return self.outer(self.activation(gate) * value)


class Convolution(nn.Module):
    """What lies near, in its order: W_out Swish(Norm(Depthwise(GLU(W_in x)))), the depthwise kernel centred.

    Source: Gulati et al. 2020 (Conformer), section 2.2.
    Differs: the stack's norm in place of BatchNorm, so that an output depends on its own sequence alone.
    """

    def __init__(self, shape: LayerShape):
        super().__init__()
        width, kernel = shape.width, shape.kernel
        self.inner = nn.Linear(width, 2 * width)
        # Two dimensions, of which one is a single row: several times faster on a CPU than Conv1d.
        self.depthwise = nn.Conv2d(width, width, (1, kernel), padding=(0, kernel // 2), groups=width)
        self.norm = build_norm(shape.norm, width)
        self.outer = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B,S,D), mask (B,S) of real positions -> (B,S,D); padding changes nothing at real positions."""
        gated = functional.glu(self.inner(x))
        if mask is not None:
            gated = gated.masked_fill(~mask.unsqueeze(2), 0.0)
        # In float32: on a CPU, bfloat16 with more than eleven positions is a hundred times slower.
        with torch.autocast(x.device.type, enabled=False):
            near_BDS = self.depthwise(gated.transpose(1, 2).unsqueeze(2).to(self.depthwise.weight)).squeeze(2)
        return self.outer(functional.silu(self.norm(near_BDS.transpose(1, 2), mask)))


class Residual(nn.Module):
    """A sub-layer with its residual connection and norm.

    post: y = Norm(x + Sublayer(x))      Source: Vaswani et al. 2017, section 3.1.
    pre:  y = x + Sublayer(Norm(x))      Source: Xiong et al. 2020, Table 1; needs no warm-up.
    """

    def __init__(self, shape: LayerShape):
        super().__init__()
        self.norm = build_norm(shape.norm, shape.width)
        self.dropout = Dropout(shape.dropout)
        self.pre = shape.norm_placement == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], mask: Tensor | None) -> Tensor:
        """x (B,T,D) after the sub-layer; mask (B,T) of real positions, for norms over the batch."""
        if self.pre:
            return self.dropout(sublayer(self.norm(x, mask)), x)
        return self.norm(self.dropout(sublayer(x), x), mask)


class EncoderLayer(nn.Module):
    """Self-attention, a convolution where the shape has one, then feed-forward."""

    def __init__(self, shape: LayerShape, rotary: RotaryPositions | None):
        super().__init__()
        self.attention = _build_attention(shape, rotary)
        self.attention_residual = Residual(shape)
        self.convolution = Convolution(shape) if shape.kernel else None
        self.convolution_residual = Residual(shape) if shape.kernel else None
        self.feed_forward = _build_feed_forward(shape)
        self.feed_forward_residual = Residual(shape)

    def forward(self, x: Tensor, visible: Tensor, mask: Tensor, balance: list[Tensor] | None = None) -> Tensor:
        """x (B,S,D) -> (B,S,D), each position looking at `visible` (B,1,S); mask (B,S) of real positions.

        `balance` gets the load-balance loss of the layer's experts, if it has any.
        """
        x = self.attention_residual(x, lambda y: self.attention(y, visible)[0], mask)
        if self.convolution is not None:
            x = self.convolution_residual(x, lambda y: self.convolution(y, mask), mask)
        return self.feed_forward_residual(x, lambda y: self.feed_forward(y, mask, balance), mask)


class DecoderLayer(nn.Module):
    """Self-attention, a convolution where the shape has one, cross-attention to the memory where there is one, then
    feed-forward.

    The convolution sees what follows: it is for decoders that write all positions at once.
    """

    def __init__(self, shape: LayerShape, rotary: RotaryPositions | None, *, has_memory: bool = True):
        super().__init__()
        self.attention = _build_attention(shape, rotary)
        self.attention_residual = Residual(shape)
        self.convolution = Convolution(shape) if shape.kernel else None
        self.convolution_residual = Residual(shape) if shape.kernel else None
        if has_memory:
            self.cross_attention = _build_attention(shape)
            self.cross_residual = Residual(shape)
        self.feed_forward = _build_feed_forward(shape)
        self.feed_forward_residual = Residual(shape)

    def forward(self, x: Tensor, visible: Tensor | None, mask: Tensor | None, past: KeysValues | None,
                memory: KeysValues | None, memory_visible: Tensor | None, balance: list[Tensor] | None = None
                ) -> tuple[Tensor, KeysValues | None]:
        """One layer.

        Args:
            x: (N,T,D).
            visible: bool, broadcastable to (N,T,past + T).
            mask: (N,T) of real positions.
            past: cached keys and values of self-attention.
            memory: keys and values of the memory, B rows; N is a multiple of B, beams of a sentence side by side.
            memory_visible: (B,1,S).
            balance: gets the load-balance loss of the layer's experts, if it has any.

        Returns:
            (N,T,D) and the new cache.
        """
        new_past = past

        def attend(y: Tensor) -> Tensor:
            nonlocal new_past
            out, new_past = self.attention(y, visible, past)
            return out

        x = self.attention_residual(x, attend, mask)
        if self.convolution is not None:
            x = self.convolution_residual(x, lambda y: self.convolution(y, mask), mask)
        if memory is not None:
            x = self.cross_residual(x, lambda y: self._cross(y, memory, memory_visible), mask)
        return self.feed_forward_residual(x, lambda y: self.feed_forward(y, mask, balance), mask), new_past

    def _cross(self, x: Tensor, memory: KeysValues, memory_visible: Tensor | None) -> Tensor:
        # The beams of a sentence are queries to one memory: nothing is copied for each beam.
        rows, length, width = x.shape
        sentences = memory.keys.size(0)
        out = self.cross_attention.cross(x.reshape(sentences, -1, width), memory, memory_visible)
        return out.view(rows, length, width)


def _build_attention(shape: LayerShape, rotary: RotaryPositions | None = None) -> MultiHeadAttention:
    if shape.attention_score == "additive":
        return AdditiveMultiHeadAttention(shape.width, shape.num_heads, dropout_rate=shape.attention_dropout)
    return MultiHeadAttention(shape.width, shape.num_heads, dropout_rate=shape.attention_dropout, positions=rotary)


def _build_feed_forward(shape: LayerShape) -> FeedForward | MixtureOfExperts:
    if not shape.experts:
        return FeedForward(shape)
    return MixtureOfExperts([FeedForward(shape) for _ in range(shape.experts)], shape.width,
                            experts_per_token=shape.experts_per_token, capacity=shape.expert_capacity)


def causal(length: int, past: int = 0, device: torch.device | None = None) -> Tensor:
    """(1, length, past + length) bool: position i sees itself and all before it."""
    return torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past).unsqueeze(0)
