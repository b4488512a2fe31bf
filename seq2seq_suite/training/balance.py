"""Gradients of several tasks, scaled to one norm before they are added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from seq2seq_suite.common.types import to_float64
from seq2seq_suite.kernels.torch_private import foreach

_DECAY = 0.95


class GradientBalance:
    """Adds the gradients g_t of an update's tasks as sum_t w_t g_t / n_t^b.

    n_t is the moving average (0.95) of |g_t| over the shared weights. The steps of Muon and Adam do not depend on the
    gradient's size, so that a task alone keeps learning when its loss is small; in a plain sum, the largest gradient
    dominates the step. With b = 1 all contribute alike.

    Source: the equal norms that GradNorm learns weights for (Chen et al. 2018, eq. 2 with alpha = 0), set outright.

    Args:
        parameters: all trained ones.
        shared: those whose gradients are measured.
        exponent: b.
        weights: task -> w_t, which is in its loss already.

    Attributes:
        norms: task -> w_t n_t, kept in checkpoints; () in float64, on the gradients' device to avoid a
            synchronisation.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        shared: Sequence[nn.Parameter],
        *,
        exponent: float,
        weights: Mapping[str, float],
    ):
        self.parameters, self.shared = list(parameters), list(shared)
        self.exponent, self.weights = exponent, dict(weights)
        self.norms: dict[str, float | Tensor] = {}

    @contextmanager
    def of(self, task: str) -> Iterator[None]:
        """Backward passes within give the task's gradient, which is added to the others at the end."""
        before = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        yield
        measured = [parameter.grad for parameter in self.shared if parameter.grad is not None]
        norm = to_float64(nn.utils.get_total_norm(measured))
        norm = self.norms[task] = _DECAY * self.norms.get(task, norm) + (1.0 - _DECAY) * norm
        factor = torch.where(norm > 0, (self.weights[task] / norm) ** self.exponent, 1.0).to(measured[0].dtype)
        foreach("mul_", [parameter.grad for parameter in self.parameters if parameter.grad is not None], factor)
        for parameter, gradient in zip(self.parameters, before, strict=True):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
