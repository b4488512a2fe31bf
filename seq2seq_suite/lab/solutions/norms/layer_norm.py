"""Layer normalisation."""

import torch
from torch import Tensor


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """y = (x - mean) / sqrt(var + epsilon) * gain + bias, over the features of each position by itself.

    Args:
        x: (...,D) float.
        gain, bias: (D,), learned.
        epsilon: keeps the root away from 0.

    Returns:
        (...,D). The variance is the mean of squares: divided by D, not by D - 1.

    Example:
        >>> layer_norm(torch.tensor([[1.0, 3.0]]), torch.ones(2), torch.tensor([0.0, 5.0]), epsilon=0.0).tolist()
        [[-1.0, 6.0]]

    Source: Ba et al. 2016, eq. 4; "层归一化" in note 004.
    """
    # BEGIN SOLUTION
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + epsilon) * gain + bias
    # END SOLUTION
