"""Connectionist temporal classification: the loss of an output that is shorter than what it is read from."""

import torch
from torch import Tensor


def ctc_loss(log_p: Tensor, target: list[int], blank: int) -> Tensor:
    """-log of the summed probability of all paths that collapse to the target.

    A path has one symbol or blank for each frame; equal neighbours are merged, then blanks dropped. There are V^T
    paths: the sum is taken frame by frame, over how much of "blank, symbol, blank, ..., symbol, blank" is spelled.

    Args:
        log_p: (T,V) float, log-probabilities of each frame.
        target: the symbols, perhaps none, without blanks; T frames are enough for them.
        blank: the symbol that stands for nothing.

    Returns:
        A scalar whose gradient is finite.

    Example: two frames, two symbols, all equally likely. 1 1, 1 0 and 0 1 spell 1: -log 3/4.
        >>> round(ctc_loss(torch.full((2, 2), 0.5).log(), [1], blank=0).item(), 4)
        0.2877

    Source: Graves et al. 2006, eq. 6 to 8, in logarithms.
    """
    # BEGIN SOLUTION
    spelled = [blank]
    for symbol in target:
        spelled += [symbol, blank]
    alpha = log_p.new_full((len(spelled),), -1e30)  # of minus infinity the gradient would be NaN
    alpha[:2] = log_p[0, spelled[:2]]
    for frame in log_p[1:]:
        following = []
        for place, symbol in enumerate(spelled):
            ways = [alpha[place]] + ([alpha[place - 1]] if place else [])
            if place > 1 and symbol != blank and symbol != spelled[place - 2]:
                ways.append(alpha[place - 2])
            following.append(torch.stack(ways).logsumexp(0) + frame[symbol])
        alpha = torch.stack(following)
    return -alpha[-2:].logsumexp(0)
    # END SOLUTION
