"""An encoder of gated convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import States
from seq2seq_suite.model.layers import LayerShape
from seq2seq_suite.model.variants.real_positions import on_real_positions


class GatedConvolution(nn.Module):
    """GLU(W * x + b) over `kernel` positions, `dilation` apart, the window's middle at the output's place.

    Source: Gehring et al. 2017, section 3.2; dilation of Kalchbrenner et al. 2016 (ByteNet), section 3.3.
    """

    def __init__(self, width: int, kernel: int, dilation: int):
        super().__init__()
        self.convolution = nn.Conv1d(width, 2 * width, kernel, padding=dilation * (kernel // 2), dilation=dilation)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B,S,D), mask (B,S) -> (B,S,D); padding counts as zeros, as positions beyond the ends do."""
        real = x.masked_fill(~mask.unsqueeze(2), 0.0)
        return functional.glu(self.convolution(real.transpose(1, 2)), dim=1).transpose(1, 2)


class ConvolutionalEncoder(nn.Module):
    """N gated convolutions with residual connections; pre-norm stacks end in one more norm.

    A position sees as far as the windows of all layers together.

    Source: Gehring et al. 2017 (ConvS2S), sections 3.2 and 3.3.
    Differs: norms of the stack's kind in place of the scaling by sqrt(1/2).

    Args:
        shape: of the layers.
        num_layers: N.
        kernel: positions of a window.
        dilations: of one layer after the other, from the first again after the last.
    """

    def __init__(self, shape: LayerShape, num_layers: int, *, kernel: int, dilations: Sequence[int]):
        super().__init__()
        self.layers = nn.ModuleList(
            GatedConvolution(shape.width, kernel, dilations[number % len(dilations)]) for number in range(num_layers)
        )
        self.norms = nn.ModuleList(shape.norm(shape.width) for _ in range(num_layers))
        self.dropout, self.pre_norm = nn.Dropout(shape.dropout), shape.layer.ends_in_norm
        self.norm = shape.last_norm()

    def forward(self, states: States) -> States:
        """(B,S,D) -> (B,S,D); padding does not affect real positions."""
        x, mask = states.values, states.mask
        with on_real_positions(mask):
            for layer, norm in zip(self.layers, self.norms, strict=True):
                if self.pre_norm:
                    x = x + self.dropout(layer(norm(x), mask))
                else:
                    x = norm(x + self.dropout(layer(x, mask)))
            return States(self.norm(x), mask)
