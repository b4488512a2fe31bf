"""A feed-forward network with a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.model.layers import FeedForward

if TYPE_CHECKING:
    from seq2seq_suite.model.layers import LayerShape


def gelu_tanh(x: Tensor) -> Tensor:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), which approximates x P(X <= x) of a standard normal X.

    Source: Hendrycks & Gimpel 2016, section 2.
    """
    return functional.gelu(x, approximate="tanh")


class GatedFeedForward(FeedForward):
    """FFN(x) = (a(x W) * x V) W2, a Swish in SwiGLU, GELU in GEGLU; W and V are one matrix.

    Its hidden width is two thirds of that of `FeedForward`, rounded up to a multiple of 8, so that both are of one
    size.

    Source: Shazeer 2020, eq. 6; eq. 5 (GEGLU) with `gelu_tanh`, as in T5 1.1.
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
