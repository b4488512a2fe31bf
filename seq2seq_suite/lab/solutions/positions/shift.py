"""Why waves: a step of k positions is one matrix, the same wherever it starts."""

import math

import torch
from torch import Tensor


def shift_matrix(width: int, distance: int) -> Tensor:
    """The matrix M with M PE[t] = PE[t + distance] for every t.

    Args:
        width: D of `sinusoids`, even.
        distance: k, also negative.

    Returns:
        (D,D) float32, which takes columns: M @ PE[t].

    Example: with two features PE[t] = (sin t, cos t); a shift by 0 changes nothing.
        >>> torch.equal(shift_matrix(2, 0), torch.eye(2))
        True

    Source: sin(a + b) = sin a cos b + cos a sin b, note 002; Vaswani et al. 2017, section 3.5.
    """
    # BEGIN SOLUTION
    matrix = torch.zeros(width, width)
    for i in range(0, width, 2):
        angle = distance / 10000.0 ** (i / width)
        cosine, sine = math.cos(angle), math.sin(angle)
        matrix[i, i], matrix[i, i + 1] = cosine, sine
        matrix[i + 1, i], matrix[i + 1, i + 1] = -sine, cosine
    return matrix
    # END SOLUTION
