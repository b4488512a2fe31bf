"""The loss of a classifier that gives probabilities."""

import torch
from torch import Tensor


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over the examples of -log p(right class), with p = softmax(logits).

    Args:
        logits: (N,V) float, of any size: hundreds must not overflow.
        targets: (N,) int64, the right classes.

    Returns:
        A scalar.

    Example: two classes, equally likely: -log 1/2.
        >>> round(cross_entropy(torch.zeros(1, 2), torch.tensor([1])).item(), 4)
        0.6931

    Source: L = -log P(Y|X) and the empirical risk in note 001; Bishop 2006, section 4.3.4.
    """
    # BEGIN SOLUTION
    largest = logits.max(-1, keepdim=True).values
    log_sum = (logits - largest).exp().sum(-1).log() + largest.squeeze(-1)
    right = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (log_sum - right).mean()
    # END SOLUTION
