"""Positions of symbols: sinusoidal, learned and rotary."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seq2seq_suite.model.attention import RelativePositions


def sinusoids(length: int, width: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)).

    Returns:
        (length, width) float32.

    Source: Vaswani et al. 2017, section 3.5.
    """
    return waves(torch.arange(length), width)


def waves(positions: Tensor, width: int) -> Tensor:
    """The same for any positions (...), also fractional ones -> (...,width) float32."""
    frequency = torch.exp(
        torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) * (-math.log(10_000.0) / width)
    )
    angle = positions.float().unsqueeze(-1) * frequency
    table = angle.new_empty(*positions.shape, width)
    table[..., 0::2] = torch.sin(angle)
    table[..., 1::2] = torch.cos(angle[..., : width // 2])
    return table


class SinusoidalPositions(nn.Module):
    """Adds sinusoids to the input."""

    table: Tensor

    def __init__(self, width: int, max_positions: int):
        super().__init__()
        self.register_buffer("table", sinusoids(max_positions, width), persistent=False)

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        """x (B,T,D), whose first column is at position `offset`, a number or one for each row (B,), plus positions."""
        return x + _rows(self.table, offset, x.size(1))


class LearnedPositions(nn.Module):
    """Adds a learned vector for each position.

    Source: Gehring et al. 2017, section 3.1; Vaswani et al. 2017, Table 3 row E.
    """

    def __init__(self, width: int, max_positions: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, width))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        """x (B,T,D), whose first column is at position `offset`, a number or one for each row (B,), plus positions."""
        return x + _rows(self.table, offset, x.size(1))


class NoPositions(nn.Module):
    """Adds nothing to the input: a bag of words, unless positions act inside attention."""

    def __init__(self, width: int = 0, max_positions: int = 0):
        super().__init__()

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        """x (B,T,D), unchanged."""
        return x


class RotaryPositions(RelativePositions):
    """Turns each pair of a head's features by an angle proportional to the position, so that q.k depends on distances.

    Source: Su et al. 2021 (RoFormer), eq. 34; pairs are (i, i + E/2).
    """

    cosine: Tensor
    sine: Tensor

    def __init__(self, head_width: int, max_positions: int, *, num_heads: int = 1):
        super().__init__()
        frequency = 10_000.0 ** (-torch.arange(0, head_width, 2, dtype=torch.float32) / head_width)
        angle = torch.arange(max_positions, dtype=torch.float32)[:, None] * frequency
        self.register_buffer("cosine", angle.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sine", torch.cat((-angle.sin(), angle.sin()), 1), persistent=False)

    def rotate(self, x_BHTE: Tensor, offset: int = 0) -> Tensor:
        length, width = x_BHTE.shape[2:]
        cosine, sine = (part.to(x_BHTE.dtype) for part in self.factors(length, offset))
        return x_BHTE * cosine + x_BHTE.roll(width // 2, -1) * sine  # rolled: each feature's partner in its pair

    def factors(self, length: int, offset: int = 0) -> tuple[Tensor, Tensor]:
        """Of features and of their partners, (length,E) each, from position `offset` on."""
        return _rows(self.cosine, offset, length), _rows(self.sine, offset, length)


def _rows(table: Tensor, offset: int | Tensor, length: int) -> Tensor:
    """(length,D) from `offset` on, or (B,length,D) from offsets (B,) on."""
    if not isinstance(offset, Tensor) or offset.device.type == "cpu":  # elsewhere a look would wait for the device
        end = int(offset.max() if isinstance(offset, Tensor) else offset) + length
        if end > table.size(0):
            raise ValueError(f"position {end} is beyond max_positions {table.size(0)}")
    if isinstance(offset, Tensor):
        return table[offset.unsqueeze(1) + torch.arange(length, device=offset.device)]
    return table[offset : offset + length]
