"""The loss that a classifier should not have."""

import torch
from torch import Tensor
from torch.nn import functional


def squared_error(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over the examples of sum_v (p_v - y_v)^2, with p = softmax(logits) and y the one-hot target.

    Args:
        logits: (N,V) float.
        targets: (N,) int64.

    Returns:
        A scalar.

    Example: two classes, equally likely: (1/2)^2 for each.
        >>> squared_error(torch.zeros(1, 2), torch.tensor([1])).item()
        0.5

    Source: L = (Y - f(X))^2 in note 001; also the score of Brier 1950.
    """
    # BEGIN SOLUTION
    wanted = functional.one_hot(targets, logits.size(-1)).to(logits.dtype)
    return (logits.softmax(-1) - wanted).square().sum(-1).mean()
    # END SOLUTION
