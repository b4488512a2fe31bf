"""Encoders: a sequence of vectors in, a sequence of vectors out."""

from __future__ import annotations

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
