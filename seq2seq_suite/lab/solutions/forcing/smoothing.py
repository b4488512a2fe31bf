"""Cross-entropy against a softened target."""

import torch
from torch import Tensor


def smoothed_cross_entropy(logits: Tensor, target: Tensor, mask: Tensor, smoothing: float) -> tuple[Tensor, int]:
    """-sum_v q(v) log p(v), summed over real positions, with p = softmax(logits).

    q gives 1 - smoothing to the right symbol and spreads `smoothing` evenly over all V symbols, the right one included.

    Args:
        logits: (B,T,V) float.
        target: (B,T) int64.
        mask: (B,T) bool, True = real; what stands elsewhere must not matter.
        smoothing: in [0, 1).

    Returns:
        The sum, a scalar, and the number of real positions: a mean of means would give short batches too much weight.

    Example: two symbols, equally likely; log 2 = 0.693 whatever is right.
        >>> logits, target = torch.zeros(1, 3, 2), torch.tensor([[0, 1, 0]])
        >>> total, count = smoothed_cross_entropy(logits, target, torch.tensor([[True, True, False]]), 0.1)
        >>> round(float(total), 3), count
        (1.386, 2)

    Source: Szegedy et al. 2016, section 7.
    """
    # BEGIN SOLUTION
    log_p = logits.log_softmax(-1)
    right = log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    spread = log_p.mean(-1)
    losses = -(1 - smoothing) * right - smoothing * spread
    return losses[mask].sum(), int(mask.sum())
    # END SOLUTION
