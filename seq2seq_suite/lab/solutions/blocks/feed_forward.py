"""The network that works on each position by itself."""

import torch
from torch import Tensor
from torch.nn import functional


def feed_forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """FFN(x) = max(0, x W1 + b1) W2 + b2.

    Args:
        x: (...,D).
        w1, b1: (F,D) and (F,), used as y = x W^T + b, as torch stores them.
        w2, b2: (D,F) and (D,).

    Returns:
        (...,D).

    Example: what is negative in the middle is lost.
        >>> one, zero = torch.ones(1, 1), torch.zeros(1)
        >>> feed_forward(torch.tensor([[-3.0], [4.0]]), one, zero, one, zero).tolist()
        [[0.0], [4.0]]

    Source: Vaswani et al. 2017, eq. 2; notes 001 and 002.
    """
    # BEGIN SOLUTION
    return functional.linear(functional.linear(x, w1, b1).clamp(min=0), w2, b2)
    # END SOLUTION
