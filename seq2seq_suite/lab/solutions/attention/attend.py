"""Attention: for each query a mean of the values, weighted by how well their keys fit it.

Letters: B rows, H heads, T queries, S keys, E width of a head, V width of a value.
"""

import math

import torch
from torch import Tensor


def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None = None) -> Tensor:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(E)) V, over the visible keys alone.

    Args:
        query: (B,H,T,E) float.
        key: (B,H,S,E) float.
        value: (B,H,S,V) float.
        visible: bool, broadcastable to (B,H,T,S); True where a query may look at a key. None: everywhere.

    Returns:
        (B,H,T,V) of the inputs' type; zeros for a query that may look at no key. The inputs stay as they are.

    Example: one query fits two keys equally well, so it gets the mean of their values; then the second is hidden.
        >>> query, key = torch.tensor([[[[1.0, 1.0]]]]), torch.tensor([[[[2.0, 0.0], [0.0, 2.0]]]])
        >>> value = torch.tensor([[[[10.0], [20.0]]]])
        >>> attend(query, key, value).item()
        15.0
        >>> attend(query, key, value, torch.tensor([True, False])).item()
        10.0

    Source: Vaswani et al. 2017, eq. 1; the masks of section 3.2.3. Notes 000 and 002, "Mask" in note 004.
    """
    # BEGIN SOLUTION
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    weights = scores.softmax(-1).nan_to_num(0.0)  # 0 / 0 where nothing is visible
    return weights @ value
    # END SOLUTION
