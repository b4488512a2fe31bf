"""The convolution over neighbouring positions that a layer may have behind its self-attention."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.model.layers import LayerShape
from seq2seq_suite.model.variants.real_positions import real_positions


def depthwise(x_BDS: Tensor, weight_D1K: Tensor, bias_D: Tensor | None) -> Tensor:
    """Depthwise convolution along the sequence, K odd and centred: (B,D,S)."""
    width, _, kernel = weight_D1K.shape
    return functional.conv1d(x_BDS, weight_D1K, bias_D, padding=kernel // 2, groups=width)


class Convolution(nn.Module):
    """W_out Swish(Norm(Depthwise(GLU(W_in x)))).

    Source: Gulati et al. 2020 (Conformer), section 2.2.
    Differs: the stack's norm in place of BatchNorm, so that an output depends on its own sequence alone.

    Args:
        shape: width D and norm.
        kernel: K, odd.
    """

    needs_real_positions = True

    def __init__(self, shape: LayerShape, *, kernel: int):
        super().__init__()
        width = shape.width
        self.inner = nn.Linear(width, 2 * width)
        self.depthwise = nn.Conv1d(width, width, kernel, groups=width)
        self.norm = shape.norm(width)
        self.outer = nn.Linear(width, width)
        self.convolve = depthwise

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,D) -> (B,S,D); padding does not affect real positions."""
        gated = functional.glu(self.inner(x))
        if (mask := real_positions()) is not None:
            gated = gated.masked_fill(~mask.unsqueeze(2), 0.0)
        near = self.convolve(gated.transpose(1, 2), self.depthwise.weight, self.depthwise.bias).transpose(1, 2)
        return self.outer(functional.silu(self.norm(near)))
