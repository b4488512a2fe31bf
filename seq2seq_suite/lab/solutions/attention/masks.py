"""Who may look at whom: no position at what follows it, and none at padding."""

import torch
from torch import Tensor


def causal_mask(length: int, past: int = 0) -> Tensor:
    """Each position sees itself and everything before it.

    Args:
        length: of the positions that look.
        past: positions before them whose keys are cached, visible to all.

    Returns:
        (length, past + length) bool, True where row t may look at column s.

    Example:
        >>> causal_mask(3).int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]

    Source: Vaswani et al. 2017, section 3.2.3; "sequential mask" in note 004.
    """
    # BEGIN SOLUTION
    return torch.ones(length, past + length, dtype=torch.bool).tril(past)
    # END SOLUTION


def padding_mask(lengths: Tensor, width: int) -> Tensor:
    """The first `lengths` positions of each row are real, the others padding.

    Args:
        lengths: (B,) int64, each at most `width`.
        width: columns of the padded batch.

    Returns:
        (B,1,width) bool, True where a position is real; the middle dimension stands for all queries.

    Example:
        >>> padding_mask(torch.tensor([1, 3]), 3).int().tolist()
        [[[1, 0, 0]], [[1, 1, 1]]]

    Source: "padding mask" in note 004.
    """
    # BEGIN SOLUTION
    return (torch.arange(width) < lengths.unsqueeze(1)).unsqueeze(1)
    # END SOLUTION
