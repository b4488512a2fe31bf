"""Dropout."""

import torch
from torch import Tensor


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """In training each element becomes 0 with probability `rate`; the others grow, so that the mean stays.

    Args:
        x: float, any shape.
        rate: in [0, 1).
        training: False: x as it is.

    Returns:
        Like x. Elements are dropped independently of one another; those that stay are divided by 1 - rate.

    Example:
        >>> dropout(torch.tensor([3.0, 4.0]), 0.5, training=False).tolist()
        [3.0, 4.0]

    Source: Srivastava et al. 2014, in its inverted form: nothing is scaled when the model is used.
    """
    # BEGIN SOLUTION
    if not training:
        return x
    keep = torch.rand_like(x) >= rate
    return x * keep / (1.0 - rate)
    # END SOLUTION
