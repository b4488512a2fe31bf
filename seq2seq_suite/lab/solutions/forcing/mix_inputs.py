"""Scheduled sampling: now and then the decoder is given what it wrote itself."""

import torch
from lab_given import shift_right
from torch import Tensor


def mix_inputs(previous: Tensor, predicted: Tensor, uniform: Tensor, rate: float, begin: int) -> Tensor:
    """Inputs of which a share is the model's own symbols, where teacher forcing has the right ones.

    Args:
        previous: (B,T) int64, the inputs under teacher forcing: at position t the right symbol of t - 1.
        predicted: (B,T) int64, the model's symbols of a first pass: at position t its guess for t.
        uniform: (B,T) float, drawn from [0, 1).
        rate: where `uniform` is below it, the model's own symbol is the input.
        begin: the symbol BEGIN.

    Returns:
        (B,T) int64. A guess for position t is an input at t + 1; BEGIN stays first.

    Example: only the last place draws a number below the rate.
        >>> previous, predicted = torch.tensor([[1, 7, 8]]), torch.tensor([[5, 6, 4]])
        >>> mix_inputs(previous, predicted, torch.tensor([[0.9, 0.5, 0.2]]), rate=0.3, begin=1).tolist()
        [[1, 7, 6]]

    Source: Bengio et al. 2015, section 2.4, decided for each symbol; in two passes, Mihaylova & Martins 2019.
    """
    # BEGIN SOLUTION
    own = shift_right(predicted, begin)
    return torch.where(uniform < rate, own, previous)
    # END SOLUTION
