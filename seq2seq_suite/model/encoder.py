"""The encoder: a sequence of vectors in, a sequence of vectors out."""

from __future__ import annotations

from torch import Tensor, nn

from seq2seq_suite.common.types import States
from seq2seq_suite.model.layers import LayerShape, TransformerLayer
from seq2seq_suite.model.norms import build_norm
from seq2seq_suite.model.positions import RelativePositions


class TransformerEncoder(nn.Module):
    """N layers of self-attention and feed-forward; pre-norm stacks end in one more norm.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, shape: LayerShape, num_layers: int, positions: RelativePositions | None = None):
        super().__init__()
        self.layers = nn.ModuleList(TransformerLayer(shape, positions) for _ in range(num_layers))
        self.norm = build_norm(shape.norm, shape.width) if shape.norm_placement == "pre" else None

    def forward(self, states: States) -> States:
        """(B,S,D) -> (B,S,D); padding changes nothing at real positions."""
        x = self.through_layers(states.values, states)
        return States(x if self.norm is None else self.norm(x, states.mask), states.mask)

    def through_layers(self, x: Tensor, states: States) -> Tensor:
        """x (B,S,D) after all layers, each position attending to the real ones."""
        visible = states.mask.unsqueeze(1)
        for layer in self.layers:
            x, _ = layer(x, visible, states.mask)
        return x
