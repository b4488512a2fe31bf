"""How long shall an output be whose symbols are all written at once? First way: a predictor."""

import torch
from torch import Tensor


def likeliest_lengths(log_p: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The most probable lengths, of which each is then filled with symbols.

    Args:
        log_p: (B,L) float; column n is the log-probability of length n. Length 0 is no output and never chosen.
        count: how many lengths for each row, at most L - 1.

    Returns:
        The lengths (B,count) int64, likeliest first, and their log-probabilities (B,count).

    Example: length 0 is likeliest here, 2 comes next, then 1.
        >>> lengths, log_p = likeliest_lengths(torch.tensor([[-0.1, -3.0, -2.0]]), 2)
        >>> lengths.tolist(), log_p.tolist()
        ([[2, 1]], [[-2.0, -3.0]])

    Source: "another predictor for output length" in note 003; Ghazvininejad et al. 2019, section 3.3.
    """
    # BEGIN SOLUTION
    best = log_p[:, 1:].topk(count, 1)
    return best.indices + 1, best.values
    # END SOLUTION
