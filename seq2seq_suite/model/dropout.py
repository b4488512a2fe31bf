"""Dropout: noise on the outputs of layers, so that none relies on a single feature."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite import kernels


def dropout(x: Tensor, rate: float, residual: Tensor | None = None) -> Tensor:
    """Each element zeroed with probability `rate` and the others divided by 1 - rate; then `residual` is added.

    Source: Srivastava et al. 2014, in its inverted form.
    """
    dropped = functional.dropout(x, rate)
    return dropped if residual is None else residual + dropped


class Dropout(nn.Module):
    """`dropout` in training, nothing in evaluation."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate
        self.dropout = kernels.chosen("dropout")

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """[residual +] x with some elements of x zeroed."""
        return self.dropout(x, self.rate if self.training else 0.0, residual)
