"""A feed-forward network with a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from seq2seq_suite.model.layers import FeedForward

if TYPE_CHECKING:
    from seq2seq_suite.model.layers import LayerShape


class GatedFeedForward(FeedForward):
    """FFN(x) = (a(x W) * x V) W2, a Swish in SwiGLU; W and V are one matrix.

    Its hidden width is two thirds of that of `FeedForward`, rounded up to a multiple of 8, so that both are of one
    size.

    Source: Shazeer 2020, eq. 6.
    """

    def __init__(self, shape: LayerShape):
        nn.Module.__init__(self)
        hidden = -(-2 * shape.feed_forward_width // 24) * 8
        self.activation = shape.activation
        self.inner = nn.Linear(shape.width, 2 * hidden, bias=False)
        self.outer = nn.Linear(hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(...,D) -> (...,D)."""
        gate, value = self.inner(x).chunk(2, dim=-1)
        return self.outer(self.activation(gate) * value)
