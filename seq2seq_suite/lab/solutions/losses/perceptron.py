"""The perceptron: a line between two classes, moved by its mistakes."""

import torch
from torch import Tensor


def perceptron(x: Tensor, y: Tensor, epochs: int) -> tuple[Tensor, Tensor]:
    """Finds w and b with y_i (w x_i + b) > 0 for every point, where there are any.

    From w = 0, b = 0 the points are visited in order, `epochs` times. A point that is not on its side, that is, with
    y (w x + b) <= 0, moves the line at once: w <- w + y x, b <- b + y.

    Args:
        x: (N,D) float, the points.
        y: (N,) float, 1 or -1.
        epochs: passes over all points.

    Returns:
        w (D,) and b, a scalar tensor.

    Example: the first point counts as a mistake, since 0 is on no side; the second is right by then.
        >>> w, b = perceptron(torch.tensor([[2.0], [-3.0]]), torch.tensor([1.0, -1.0]), epochs=1)
        >>> w.tolist(), b.item()
        ([2.0], 1.0)

    Source: Rosenblatt 1958; "统计学习" in note 001: the loss -sum y_i (w x_i + b) over misclassified points.
    """
    # BEGIN SOLUTION
    w, b = torch.zeros(x.size(1)), torch.zeros(())
    for _ in range(epochs):
        for point, side in zip(x, y, strict=True):
            if side * (w @ point + b) <= 0:
                w, b = w + side * point, b + side
    return w, b
    # END SOLUTION
