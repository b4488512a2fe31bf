"""The front-end for pictures: a convolutional stem, one vector for each patch, with two-dimensional positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seq2seq_suite.common.types import States
from seq2seq_suite.model.positions import waves

_GROUPS = 8


class ConvolutionalStem(nn.Module):
    """Convolutions of stride 2, channels doubled each time, -> (B, H/s * W/s, D) + positions.

    Each step is a 3 x 3 convolution of stride 2 and one of stride 1, each with group norm and ReLU: early convolutions
    need fewer training pictures than patches of pixels.

    Args:
        width: D.
        stride: s, a power of 2.
        channels: of the first step, a multiple of 8.
        dropout_rate: of the result.

    Source: Xiao et al. 2021 (early convolutions); group norm of Wu & He 2018, which does not mix pictures.
    """

    def __init__(self, width: int, *, stride: int, channels: int, dropout_rate: float):
        super().__init__()
        layers: list[nn.Module] = []
        narrow = 3
        for step in range(int(math.log2(stride))):
            wider = min(channels * 2**step, width)
            wider -= wider % _GROUPS
            for before, distance in ((narrow, 2), (wider, 1)):
                layers += [
                    nn.Conv2d(before, wider, 3, stride=distance, padding=1, bias=False),
                    nn.GroupNorm(_GROUPS, wider),
                    nn.ReLU(),
                ]
            narrow = wider
        self.stem = nn.Sequential(*layers)
        self.project = nn.Linear(narrow, width)
        self.dropout = nn.Dropout(dropout_rate)
        self.width = width

    def forward(self, source: Tensor, mask: Tensor) -> States:
        """source (B,H,W,3) uint8 -> (B,S',D); every patch is real, `mask` (B,H) is not used."""
        x = self.stem(source.permute(0, 3, 1, 2).to(self.project.weight.dtype) / 127.5 - 1.0)
        rows, columns = x.shape[2:]
        values = self.project(x.flatten(2).transpose(1, 2)) + plane(rows, columns, self.width, x.device).to(x)
        return States(self.dropout(values), torch.ones(values.shape[:2], dtype=torch.bool, device=values.device))


def plane(rows: int, columns: int, width: int, device: torch.device | None = None) -> Tensor:
    """(rows * columns, width): half of each vector are sinusoids of the row, the other half of the column.

    Source: Parmar et al. 2018 (Image Transformer), section 3.1.
    """
    places = (torch.arange(count, device=device) for count in (rows, columns))
    down, across = torch.meshgrid(*places, indexing="ij")
    return torch.cat(plane_at(down, across, width), dim=-1).flatten(0, 1)


def plane_at(down: Tensor, across: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The two halves (...,width/2) of `plane` for points (...) in patches, from the middle of the first one on."""
    return waves(down, width // 2), waves(across, width - width // 2)
