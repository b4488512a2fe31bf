"""Encoders: a sequence of vectors in, a sequence of vectors out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq_suite.model.dropout import Dropout
from seq2seq_suite.model.layers import EncoderLayer, LayerShape, Residual
from seq2seq_suite.model.norms import build_norm
from seq2seq_suite.model.positions import RotaryPositions
from seq2seq_suite.types import States


class SelfAttentionEncoder(nn.Module):
    """N layers of self-attention and feed-forward; pre-norm stacks end in one more norm.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, shape: LayerShape, num_layers: int, rotary: RotaryPositions | None = None):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(shape, rotary) for _ in range(num_layers))
        self.norm = build_norm(shape.norm, shape.width) if shape.norm_placement == "pre" else None

    def forward(self, states: States) -> States:
        """(B,S,D) -> (B,S,D); padding changes nothing at real positions."""
        x: Tensor = states.values
        visible = states.mask.unsqueeze(1)
        for layer in self.layers:
            x = layer(x, visible, states.mask, states.balance)
        if self.norm is not None:
            x = self.norm(x, states.mask)
        return States(x, states.mask)


class RecurrentEncoder(nn.Module):
    """The same layers over and over, each time told which time it is; pre-norm stacks end in one more norm.

    H_t = Layers(H_t-1 + g_t P + E_t): P the positions, E_t a learned vector and g_t a learned number for each step.
    Depth in time lets the model chain facts without a layer for each link of the chain.

    Source: Dehghani et al. 2019 (Universal Transformer), section 2.1, with a fixed number of steps.
    Differs: E_t is learned, not sinusoidal; several layers may make up one step; positions are weighted. g_1 begins
    as 0, for the front-end has added P. The others begin as 1 in post-norm stacks, which is the published form, and
    as 0 in pre-norm stacks: their residual stream carries P through all steps, and N times P would drown the words.

    Args:
        shape: of the layers.
        num_layers: in one step.
        rotary: positions inside attention, if that is their kind.
        num_steps: times that the layers are applied.
        positions: adds P.
    """

    def __init__(self, shape: LayerShape, num_layers: int, rotary: RotaryPositions | None = None, *, num_steps: int,
                 positions: nn.Module):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(shape, rotary) for _ in range(num_layers))
        self.steps = nn.Parameter(torch.randn(num_steps, shape.width) * 0.02)
        gains = torch.full((num_steps,), float(shape.norm_placement == "post"))
        gains[0] = 0.0
        self.gains = nn.Parameter(gains)
        self.positions = positions
        self.norm = build_norm(shape.norm, shape.width) if shape.norm_placement == "pre" else None

    def forward(self, states: States) -> States:
        """(B,S,D) -> (B,S,D); padding changes nothing at real positions."""
        x: Tensor = states.values
        visible = states.mask.unsqueeze(1)
        places = self.positions(torch.zeros_like(x[:1]))
        for gain, step in zip(self.gains, self.steps, strict=True):
            x = x + (gain * places + step).to(x.dtype)
            for layer in self.layers:
                x = layer(x, visible, states.mask, states.balance)
        if self.norm is not None:
            x = self.norm(x, states.mask)
        return States(x, states.mask)


class GatedConvolution(nn.Module):
    """GLU(W * x + b) over `kernel` positions, `dilation` apart, the window's middle at the output's place.

    Source: Gehring et al. 2017, section 3.2; dilation of Kalchbrenner et al. 2016 (ByteNet), section 3.3.
    """

    def __init__(self, width: int, kernel: int, dilation: int):
        super().__init__()
        self.convolution = nn.Conv1d(width, 2 * width, kernel, padding=dilation * (kernel // 2), dilation=dilation)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B,S,D), mask (B,S) -> (B,S,D); padding counts as zeros, as what lies beyond the ends does."""
        real = x.masked_fill(~mask.unsqueeze(2), 0.0)
        return functional.glu(self.convolution(real.transpose(1, 2)), dim=1).transpose(1, 2)


class ConvolutionalEncoder(nn.Module):
    """N gated convolutions with residual connections; pre-norm stacks end in one more norm.

    A position sees as far as the windows of all layers reach together.

    Source: Gehring et al. 2017 (ConvS2S), sections 3.2 and 3.3.
    Differs: norms of the stack's kind in place of the scaling by sqrt(1/2).

    Args:
        shape: of the layers; `kernel` positions wide.
        num_layers: N.
        dilations: of one layer after the other, from the first again after the last.
    """

    def __init__(self, shape: LayerShape, num_layers: int, *, dilations: Sequence[int]):
        super().__init__()
        self.layers = nn.ModuleList(
            GatedConvolution(shape.width, shape.kernel, dilations[number % len(dilations)])
            for number in range(num_layers))
        self.residuals = nn.ModuleList(Residual(shape) for _ in range(num_layers))
        self.norm = build_norm(shape.norm, shape.width) if shape.norm_placement == "pre" else None

    def forward(self, states: States) -> States:
        """(B,S,D) -> (B,S,D); padding changes nothing at real positions."""
        x, mask = states.values, states.mask
        for layer, residual in zip(self.layers, self.residuals, strict=True):
            x = residual(x, lambda y, layer=layer: layer(y, mask), mask)
        return States(x if self.norm is None else self.norm(x, mask), mask)


class RecurrentNetworkEncoder(nn.Module):
    """N bidirectional LSTM or GRU layers, each direction half as wide; they read real positions alone.

    Each layer but the first adds to what it reads, without which three of them hardly begin to learn; pre-norm stacks
    end in a norm, as the others do.

    Source: Bahdanau et al. 2015, section 3.2 (bidirectional encoder); Hochreiter & Schmidhuber 1997; Cho et al. 2014;
    Wu et al. 2016 (GNMT), section 3.1 (residual connections).

    Args:
        shape: width D, even, and dropout between layers.
        num_layers: N.
        cell: lstm or gru.
    """

    def __init__(self, shape: LayerShape, num_layers: int, *, cell: str):
        super().__init__()
        build = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
        self.layers = nn.ModuleList(build(shape.width, shape.width // 2, batch_first=True, bidirectional=True)
                                    for _ in range(num_layers))
        self.dropout = Dropout(shape.dropout)
        self.norm = build_norm(shape.norm, shape.width) if shape.norm_placement == "pre" else None

    def forward(self, states: States) -> States:
        """(B,S,D) -> (B,S,D); padding changes nothing at real positions."""
        x, length = states.values, states.mask.size(1)
        lengths = states.mask.sum(1).clamp(min=1).cpu()
        with torch.autocast(x.device.type, enabled=False):  # its kernels take float32 on every device
            for number, layer in enumerate(self.layers):
                source = self.dropout(x) if number else x
                packed = pack_padded_sequence(source.float(), lengths, batch_first=True, enforce_sorted=False)
                read, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=length)
                x = x + read if number else read
        return States(x if self.norm is None else self.norm(x, states.mask), states.mask)
