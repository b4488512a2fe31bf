"""Mask-predict: what the model is least sure of is written again."""

import torch
from torch import Tensor


def hide(confidence: Tensor, mask: Tensor, iteration: int, iterations: int) -> Tensor:
    """Which symbols are hidden before pass `iteration` of `iterations`, to be predicted once more.

    A row of n real positions hides n (I - i) / I of them, rounded down, where i of I passes are done; those whose
    probability is lowest.

    Args:
        confidence: (B,T) float, the probability of each written symbol; no two of a row are equal.
        mask: (B,T) bool, True = real; padding is never hidden.
        iteration: i, from 1 to I - 1.
        iterations: I.

    Returns:
        (B,T) bool, True = hidden.

    Example: one of two passes is done, so half of the four positions are hidden, the least sure two.
        >>> hide(torch.tensor([[0.9, 0.2, 0.8, 0.3]]), torch.ones(1, 4, dtype=torch.bool), 1, 2).int().tolist()
        [[0, 1, 0, 1]]

    Source: Ghazvininejad et al. 2019, section 3.2.
    """
    # BEGIN SOLUTION
    count = mask.sum(1) * (iterations - iteration) // iterations
    rank = confidence.masked_fill(~mask, float("inf")).argsort(1).argsort(1)
    return rank < count.unsqueeze(1)
    # END SOLUTION
