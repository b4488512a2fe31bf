"""Encoders: a sequence of vectors in, a sequence of vectors out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq_suite.model.layers import EncoderLayer, LayerShape
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
            x = layer(x, visible, states.mask)
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
                x = layer(x, visible, states.mask)
        if self.norm is not None:
            x = self.norm(x, states.mask)
        return States(x, states.mask)
