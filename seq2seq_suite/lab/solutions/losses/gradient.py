"""What cross-entropy tells the logits, worked out by hand."""

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    """The derivative of `cross_entropy` by each logit, without autograd.

    Args:
        logits: (N,V) float.
        targets: (N,) int64.

    Returns:
        (N,V). Each row sums to 0: what one class gains, the others lose.

    Example: two classes, equally likely, the second is right.
        >>> cross_entropy_gradient(torch.zeros(1, 2), torch.tensor([1])).tolist()
        [[0.5, -0.5]]

    Source: Bishop 2006, eq. 4.109.
    """
    # BEGIN SOLUTION
    wanted = functional.one_hot(targets, logits.size(-1))
    gradient = logits.softmax(-1) - wanted
    return gradient / logits.size(0)
    # END SOLUTION
