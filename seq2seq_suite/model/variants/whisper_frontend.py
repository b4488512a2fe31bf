"""Whisper's front-end for sound: two convolutions over time, and sinusoids."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import States

if TYPE_CHECKING:
    from seq2seq_suite.model.audio import Masking

FRAMES = 3000  # of 10 ms: windows of 30 seconds


def halved_sinusoids(length: int, width: int) -> Tensor:
    """PE(pos, i) = sin(pos / 10000^(i / (D/2 - 1))) for i < D/2, and the cosines of the same angles behind them.

    Returns:
        (length, width) float32.

    Source: Radford et al. 2023 (Whisper), its program's `sinusoids`.
    """
    half = width // 2
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(half) * (-math.log(10_000.0) / (half - 1)))
    return torch.cat((angle.sin(), angle.cos()), 1)


class WhisperFrontend(nn.Module):
    """x = GELU(Conv2(GELU(Conv1(features)))) + PE, of which Conv2 halves the number of frames.

    Source: Radford et al. 2023 (Whisper), section 2.2.

    Args:
        bins: F of the mel scale.
        width: D, even, 4 or more.
        dropout_rate: of the result.
        masking: in training; None for none.
    """

    table: Tensor

    def __init__(self, bins: int, width: int, *, dropout_rate: float, masking: Masking | None = None):
        super().__init__()
        self.first = nn.Conv1d(bins, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.register_buffer("table", halved_sinusoids(FRAMES // 2, width), persistent=False)
        self.dropout = nn.Dropout(dropout_rate)
        self.masking = masking

    def forward(self, source: Tensor, mask: Tensor) -> States:
        """source (B,S,F) features of windows, mask (B,S) bool, True for the first `FRAMES` -> (B,FRAMES/2,D)."""
        source, mask = source[:, :FRAMES], mask[:, :FRAMES]
        if self.training and self.masking is not None:
            source = self.masking(source, mask.sum(1))
        x = functional.gelu(self.first(source.transpose(1, 2)))
        x = functional.gelu(self.second(x)).transpose(1, 2)
        return States(self.dropout(x + self.table[: x.size(1)]), mask[:, ::2])
