"""L1: to predict each symbol from those before it."""

import torch
from torch import Tensor


def language_loss(logits: Tensor, tokens: Tensor, mask: Tensor) -> tuple[Tensor, int]:
    """-sum log p(u_i | u_1, ..., u_{i-1}) over all real symbols but the first of each row.

    Args:
        logits: (B,T,V) float; those at position t predict the symbol at t + 1.
        tokens: (B,T) int64.
        mask: (B,T) bool, True = a symbol that is to be predicted if it is not the first.

    Returns:
        The sum, a scalar, and the number of symbols that were predicted.

    Example: two symbols, equally likely; of three tokens two have one before them.
        >>> total, count = language_loss(torch.zeros(1, 3, 2), torch.tensor([[1, 0, 1]]), torch.ones(1, 3).bool())
        >>> round(float(total), 3), count
        (1.386, 2)

    Source: Radford et al. 2018, eq. 1; L1 in note 001.
    """
    # BEGIN SOLUTION
    log_p = logits[:, :-1].log_softmax(-1)
    found = log_p.gather(-1, tokens[:, 1:].unsqueeze(-1)).squeeze(-1)
    asked = mask[:, 1:]
    return -found[asked].sum(), int(asked.sum())
    # END SOLUTION
