"""The product with a weight, which most of the time goes into."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite import kernels


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b of x (...,D), W (V,D) and b (V,) or None -> (...,V)."""
    return functional.linear(x, weight, bias)


class Linear(nn.Linear):
    """A layer that is a `product`."""

    def __init__(self, width_in: int, width_out: int, *, bias: bool = True):
        super().__init__(width_in, width_out, bias=bias)
        self.product = kernels.chosen("product")

    def forward(self, x: Tensor) -> Tensor:
        """(...,D) -> (...,V)."""
        return self.product(x, self.weight, self.bias)
