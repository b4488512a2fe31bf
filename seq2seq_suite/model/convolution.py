"""Convolutions over planes, of pictures and of sound."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class Convolution2d(nn.Linear):
    """A k x k convolution that keeps as many rows and columns as its stride leaves, rounded up.

    The weight is kept as the matrix that it is to each window, (out, in * k * k), rows by output channel: an optimiser
    of matrices such as Muon then treats it as one.

    Args:
        before, after: channels in and out.
        kernel: k, odd.
        stride: down, and across.
        bias: adds one.
    """

    def __init__(self, before: int, after: int, *, kernel: int = 3, stride: tuple[int, int] = (1, 1),
                 bias: bool = True):
        super().__init__(before * kernel * kernel, after, bias=bias)
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        """(B,in,H,W) -> (B,out,ceil(H / down),ceil(W / across))."""
        weight = self.weight.view(self.out_features, -1, self.kernel, self.kernel)
        return functional.conv2d(x, weight, self.bias, self.stride, self.kernel // 2)
