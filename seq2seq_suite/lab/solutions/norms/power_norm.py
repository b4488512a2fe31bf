"""PowerNorm (bonus): statistics over the batch, but running ones."""

import torch
from torch import Tensor


def power_norm(x: Tensor, gain: Tensor, bias: Tensor, running: Tensor | None, momentum: float, training: bool,
               epsilon: float = 1e-5) -> tuple[Tensor, Tensor | None]:
    """y = x / sqrt(psi^2 + epsilon) * gain + bias, psi^2 the running mean square of each feature; without a mean.

    Training:     x is divided by `running` as it was before this batch; then
                  running <- momentum running + (1 - momentum) m, m the mean square of this batch.
    First batch:  `running` is None: this batch's own m takes its place, in y and in what is returned.
    Evaluation:   x is divided by `running`, which stays.

    Args:
        x: (...,D); m is the mean of x^2 over all positions of all rows, one number for each feature.
        gain, bias: (D,).
        running: (D,) mean squares, or None.
        momentum: in [0, 1].
        training: False: `running` stays.
        epsilon: keeps the root away from 0.

    Returns:
        y (...,D), and the running mean squares (D,) for the next call; the `running` handed in is not changed in place.

    Example:
        >>> x, one, zero = torch.tensor([[3.0], [1.0]]), torch.ones(1), torch.zeros(1)
        >>> y, running = power_norm(x, one, zero, torch.tensor([4.0]), momentum=0.5, training=True, epsilon=0.0)
        >>> y.tolist(), running.tolist()
        ([[1.5], [0.5]], [4.5])

    Source: Shen et al. 2020, Algorithm 1, forward pass; note 003, "Power Norm".
    """
    # BEGIN SOLUTION
    square = x.square().flatten(0, -2).mean(0)
    scale = square if running is None else running
    y = x / torch.sqrt(scale + epsilon) * gain + bias
    if not training:
        return y, running
    return y, square if running is None else momentum * running + (1 - momentum) * square
    # END SOLUTION
