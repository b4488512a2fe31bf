"""L3: the task's loss, and language modelling beside it."""

import torch
from torch import Tensor


def fine_tuning_loss(target: tuple[Tensor, int], language: tuple[Tensor, int], weight: float) -> Tensor:
    """L3 = L2 + lambda L1, both as means over their own symbols.

    Args:
        target: L2, the sum over the answers' symbols, and their number.
        language: L1, the sum over the sources' symbols, and their number.
        weight: lambda.

    Returns:
        A scalar.

    Example: 2 a symbol of the answer, 3 a symbol of the source, lambda 0.5.
        >>> fine_tuning_loss((torch.tensor(8.0), 4), (torch.tensor(30.0), 10), 0.5).item()
        3.5

    Source: Radford et al. 2018, eq. 5; L3 in note 001.
    """
    # BEGIN SOLUTION
    return target[0] / target[1] + weight * language[0] / language[1]
    # END SOLUTION
