"""Is one system better than another, sentence by sentence?"""

import torch
from torch import Tensor


def paired_p(first: Tensor, second: Tensor, flips: Tensor) -> float:
    """The p-value of a difference of means: how often chance makes one at least as large, in either direction.

    If the two did not differ, each sentence could as well have its two figures exchanged, which flips the sign of its
    difference.

    Args:
        first, second: (N,) float, the figures of two systems on the same sentences.
        flips: (R,N) float, 1 or -1, drawn by chance.

    Returns:
        (k + 1) / (R + 1), k of the R flipped means being at least as far from 0 as the true one (to 1e-6: so many
        digits has a sum of float32).

    Example: three of these four are as far from 0 as the true mean, 1.5.
        >>> flips = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [1.0, 1.0]])
        >>> round(paired_p(torch.tensor([3.0, 2.0]), torch.tensor([1.0, 1.0]), flips), 3)
        0.8

    Source: Fisher 1935; Noreen 1989, approximate randomisation.
    """
    # BEGIN SOLUTION
    difference = first - second
    gap = difference.mean().abs()
    others = (difference * flips).mean(1).abs()
    return (int((others >= gap - 1e-6).sum()) + 1) / (len(flips) + 1)
    # END SOLUTION
