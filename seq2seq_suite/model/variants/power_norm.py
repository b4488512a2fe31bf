"""PowerNorm: statistics of features over the tokens of many batches. They are float32 whatever the precision of x."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, distributed, nn

from seq2seq_suite.model.variants.real_positions import real_positions


class PowerNorm(nn.Module):
    """Each feature divided by the running root mean square that it has over tokens, gradient corrected likewise.

    Forward:   X^ = X / psi_{t-1},  Y = gain * X^ + bias,  psi_t^2 = a psi_{t-1}^2 + (1 - a) mean(X^2)
    Backward:  g = gain * dY,  dX = (g - nu_{t-1} X^) / psi_{t-1},
               nu_t = nu_{t-1} (1 - (1 - a) mean(X^^2)) + (1 - a) mean(g X^)
    Means run over the real tokens of the batch, one statistic for each feature; in training in several processes over
    those of all shares, so that each process must make the same passes.

    While `warms` is True, psi and nu are the batch's own (PN-V, the paper's eq. 2 and its exact gradient) and the
    running statistics gather; the learner makes it False after the first share of a run. Statistics change in training
    passes alone: one under activation checkpointing, or each step of an accumulation, counts as one, as in BatchNorm.
    A norm whose gain is frozen keeps its statistics and normalises by them.

    Source: Shen et al. 2020, Algorithms 1 and 2.
    Differs: no group scaling before the norm, which the authors' code adds and the paper does not mention; while they
        gather, the running statistics are a mean of the first passes and then move on, so that they are never stale.
    """

    needs_real_positions = True
    mean_square: Tensor  # psi^2
    gradient_mean: Tensor  # nu
    passes: Tensor

    def __init__(self, width: int, *, momentum: float = 0.9, epsilon: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.momentum, self.epsilon, self.warms = momentum, epsilon, True
        self.register_buffer("mean_square", torch.ones(width))
        self.register_buffer("gradient_mean", torch.zeros(width))
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) normalised, by statistics of the `real_positions`."""
        if not (self.training and self.gain.requires_grad):
            scale = self.gain * (self.mean_square + self.epsilon).rsqrt()
            return (x.float() * scale + self.bias).to(x.dtype)
        mask = real_positions()
        weight = x.new_ones(x.shape[:-1], dtype=torch.float32) if mask is None else mask.expand(x.shape[:-1]).float()
        y = _PowerNormFunction.apply(
            x.float(),
            weight[..., None],
            self.mean_square,
            self.gradient_mean,
            self.passes,
            self.momentum,
            self.warms,
            self.epsilon,
        )
        return (y * self.gain + self.bias).to(x.dtype)


class _PowerNormFunction(torch.autograd.Function):
    """PowerNorm's running statistics and its approximate gradient: Shen et al. 2020, algorithm 1."""

    @staticmethod
    def forward(ctx, x, weight, mean_square, gradient_mean, passes, momentum, warms, epsilon):
        """x (..., D) over the root of `mean_square` (D,), or of this batch's while warming up; updates the former."""
        dims = tuple(range(x.dim() - 1))
        squares, count = _over_processes((x.square() * weight).sum(dims), weight.sum())
        count = count.clamp(min=1.0)
        batch_square = squares / count
        square = batch_square if warms else mean_square.clone()  # which changes below
        normalised = x * (square + epsilon).rsqrt()
        ctx.save_for_backward(normalised, weight, square, count)
        ctx.gradient_mean, ctx.momentum, ctx.epsilon = gradient_mean, momentum, epsilon
        ctx.dims, ctx.warms = dims, warms
        passes += 1
        keep = (1.0 - 1.0 / passes).clamp(max=momentum) if warms else momentum
        mean_square.mul_(keep).add_(batch_square * (1.0 - keep))
        return normalised

    @staticmethod
    def backward(ctx, grad):
        """The gradient of x, with the running mean of gradient times output in place of this batch's."""
        normalised, weight, square, count = ctx.saved_tensors
        grad = grad * weight
        products, squares = _over_processes(
            (grad * normalised).sum(ctx.dims), (normalised.square() * weight).sum(ctx.dims)
        )
        correlation, power = products / count, squares / count
        nu = correlation if ctx.warms else ctx.gradient_mean
        grad_x = (grad - nu * normalised * weight) * (square + ctx.epsilon).rsqrt()
        share = 1.0 - ctx.momentum
        ctx.gradient_mean.mul_(1.0 - share * power).add_(share * correlation)
        return grad_x, None, None, None, None, None, None, None


def _over_processes(*sums: Tensor) -> Sequence[Tensor]:
    """Sums over all processes that train together; the same tensors where there is one."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return sums
    flat = torch.cat([one.flatten() for one in sums])
    distributed.all_reduce(flat)
    return [piece.view_as(one) for piece, one in zip(flat.split([one.numel() for one in sums]), sums, strict=True)]
