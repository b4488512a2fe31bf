"""Scaled dot-product attention."""

import math

import torch
from torch import Tensor


def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None = None) -> Tensor:
    """Each query's mean of the values, weighted by how well the query fits the keys.

    softmax(Q K^T / sqrt(E)) V over the keys that a query may see; zeros where it may see none.

    Args:
        query: (B, H, T, E), B sentences, H heads, T positions.
        key: (B, H, S, E).
        value: (B, H, S, V).
        visible: bool, broadcasts to (B, H, T, S): True where the query may see the key. None: everywhere.

    Returns:
        (B, H, T, V).

    Source: Vaswani et al. 2017, equation 1.

    Example:
        >>> query = key = torch.zeros(1, 1, 1, 4).expand(1, 1, 3, 4)
        >>> attend(query, key, torch.tensor([[[[1.0], [2.0], [6.0]]]]), torch.ones(3, 3).bool().tril()).flatten()
        tensor([1.0000, 1.5000, 3.0000])
    """
    # BEGIN SOLUTION
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return weights @ value
    # END SOLUTION
