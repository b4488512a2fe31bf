"""Rotary positions (bonus): queries and keys are turned, so that their product sees the distance."""

import torch
from torch import Tensor


def rotate(x: Tensor, offset: int = 0) -> Tensor:
    """Turns features i and i + E/2 of the query or key at position p by the angle p / 10000^(2i / E).

    Args:
        x: (B,H,T,E), queries or keys of one head width E, even.
        offset: the position of the first column: the number of cached positions.

    Returns:
        (B,H,T,E). With a = x[i], b = x[i + E/2]: a cos - b sin and b cos + a sin stand in their places.

    Example: position 0 is not turned.
        >>> rotate(torch.tensor([[[[1.0, 2.0]]]])).tolist()
        [[[[1.0, 2.0]]]]

    Source: Su et al. 2021 (RoFormer), eq. 34; pairs (i, i + E/2) as in most code, where the paper has (2i, 2i + 1).
    """
    # BEGIN SOLUTION
    length, width = x.size(2), x.size(3)
    position = torch.arange(offset, offset + length).unsqueeze(1)
    angle = position / 10000.0 ** (torch.arange(0, width, 2) / width)
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
    # END SOLUTION
