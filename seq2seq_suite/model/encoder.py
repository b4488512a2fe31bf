"""The encoder: a sequence of vectors in, a sequence of vectors out."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from torch import Tensor, nn

from seq2seq_suite.common.types import States

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seq2seq_suite.model.attention import RelativePositions
    from seq2seq_suite.model.layers import LayerShape, TransformerLayer


class TransformerEncoder(nn.Module):
    """N layers of self-attention and feed-forward; pre-norm stacks end in one more norm.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, shape: LayerShape, num_layers: int, positions: RelativePositions | None = None):
        super().__init__()
        layers = nn.ModuleList(shape.layer(shape, positions) for _ in range(num_layers))
        self.layers = cast("Sequence[TransformerLayer]", layers)
        self.norm = shape.last_norm()

    def forward(self, states: States) -> States:
        """(B,S,D) -> (B,S,D); padding does not affect real positions."""
        x = self.through_layers(states.values, states.mask.unsqueeze(1))
        return States(self.norm(x), states.mask)

    def through_layers(self, x: Tensor, visible: Tensor) -> Tensor:
        """x (B,S,D) after all layers, each position attending to the `visible` (B,1,S) ones."""
        for layer in self.layers:
            x, _ = layer(x, visible)
        return x
