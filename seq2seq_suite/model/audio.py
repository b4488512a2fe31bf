"""The front-end for sound: from log-mel features to fewer vectors of the core's width."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import States

_CHANNELS = 32


@dataclass(frozen=True)
class Masking:
    """SpecAugment's masks over features, random for each utterance of a training batch.

    Args:
        frequency_bars, frequency_width: how many, and the widest in bins.
        time_bars, time_share: how many, and the longest as a share of the utterance.

    Source: Park et al. 2019, section 2, without time warping.
    """

    frequency_bars: int = 2
    frequency_width: int = 27
    time_bars: int = 5
    time_share: float = 0.05

    def __call__(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (B,S,F) with bars of zeros, the mean of normalised features; lengths (B,)."""
        rows, length, bins = x.shape
        width = x.new_full((rows,), float(min(self.frequency_width, bins)))
        hidden = self._bars(self.frequency_bars, bins, width, x.new_full((rows,), float(bins))).unsqueeze(1)
        hidden = hidden | self._bars(self.time_bars, length, lengths * self.time_share, lengths).unsqueeze(2)
        return x.masked_fill(hidden, 0.0)

    @staticmethod
    def _bars(count: int, size: int, widest: Tensor, extent: Tensor) -> Tensor:
        """(B,size) bool, True under one of `count` bars at random places below `extent` (B,)."""
        shape = (widest.size(0), count, 1)
        width = torch.rand(shape, device=widest.device) * (widest.view(-1, 1, 1) + 1.0)
        start = torch.rand(shape, device=widest.device) * (extent.view(-1, 1, 1) - width.floor()).clamp(min=0.0)
        place = torch.arange(size, device=widest.device)
        return ((place >= start.floor()) & (place < start.floor() + width.floor())).any(1)


class Subsampled(nn.Module):
    """Normalised features -> two convolutions over time and frequency -> a linear layer -> + positions.

    Args:
        mean, deviation: (F,) of the training data's features.
        width: D.
        factor: 2 or 4, how many frames become one vector; S' = ceil(S / factor).
        positions: adds positions.
        dropout_rate: of the result.
        masking: in training; None for none.

    Source: Dong et al. 2018 (Speech-Transformer), section 3.2, with fewer channels; 3 x 3 kernels, ReLU.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        mean: Tensor,
        deviation: Tensor,
        width: int,
        *,
        factor: int,
        positions: nn.Module,
        dropout_rate: float,
        masking: Masking | None = None,
    ):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.strides = (2, factor // 2)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels, _CHANNELS, 3, stride=(stride, 2), padding=1)
            for channels, stride in zip((1, _CHANNELS), self.strides, strict=True)
        )
        bins = (mean.size(0) + 3) // 4  # each convolution halves them, rounded up
        self.project = nn.Linear(_CHANNELS * bins, width)
        self.positions = positions
        self.dropout = nn.Dropout(dropout_rate)
        self.masking = masking

    def forward(self, source: Tensor, mask: Tensor) -> States:
        """source (B,S,F) float32, mask (B,S) bool -> (B,S',D); padding does not affect real positions."""
        x = (source - self.mean) / self.deviation
        lengths = mask.sum(1)
        if self.training and self.masking is not None:
            x = self.masking(x, lengths)
        x = x.unsqueeze(1)
        for convolution, stride in zip(self.convolutions, self.strides, strict=True):
            # Positions beyond the end must be zeros, as they are without padding.
            x = functional.relu(convolution(x.masked_fill(~mask[:, None, :, None], 0.0)))
            lengths = (lengths + stride - 1) // stride
            mask = torch.arange(x.size(2), device=x.device) < lengths.unsqueeze(1)
        values = self.project(x.transpose(1, 2).flatten(2))
        return States(self.dropout(self.positions(values)), mask)
