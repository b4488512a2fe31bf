"""Positions as waves."""

import torch
from torch import Tensor


def sinusoids(length: int, width: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i / D)), PE(pos, 2i + 1) = cos(pos / 10000^(2i / D)).

    Args:
        length: positions 0 to length - 1.
        width: D, even.

    Returns:
        (length, D) float32.

    Example: position 0 of four features.
        >>> sinusoids(1, 4).tolist()
        [[0.0, 1.0, 0.0, 1.0]]

    Source: Vaswani et al. 2017, section 3.5; eq. 3 and 4 in note 002, "位置编码" in note 004.
    """
    # BEGIN SOLUTION
    wavelength = 10000.0 ** (torch.arange(0, width, 2) / width)
    angle = torch.arange(length).unsqueeze(1) / wavelength
    table = torch.empty(length, width)
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle)
    return table
    # END SOLUTION
