"""Normalisation: LayerNorm and RMSNorm. Statistics are float32 whatever the precision of x."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class LayerNorm(nn.Module):
    """y = (x - mean) / sqrt(var + eps) * gain + bias, over the features of each position.

    Source: Ba et al. 2016, eq. 4.
    """

    def __init__(self, width: int, *, epsilon: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) normalised."""
        return functional.layer_norm(x, self.gain.shape, self.gain, self.bias, self.epsilon)


class RMSNorm(nn.Module):
    """y = x / sqrt(mean(x^2) + eps) * gain, over the features of each position.

    Source: Zhang & Sennrich 2019, eq. 4.
    """

    def __init__(self, width: int, *, epsilon: float = 1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) normalised."""
        return functional.rms_norm(x, self.gain.shape, self.gain, self.epsilon)
