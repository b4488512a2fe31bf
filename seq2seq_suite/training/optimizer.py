"""AdamW, learning-rate schedules and the moving average of weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from seq2seq_suite.config import Training


def build_optimizer(model: nn.Module, options: Training) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only: gains, biases and embeddings of few symbols stay free of it.

    Source: Loshchilov & Hutter 2019, Algorithm 2.
    """
    decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    free = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": free, "weight_decay": 0.0}]
    device = next(model.parameters()).device.type
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(options.beta1, options.beta2),
                             eps=options.epsilon, fused=device in ("cpu", "cuda"))


def learning_rate(options: Training, update: int, fraction: float) -> float:
    """The rate of an update.

    Args:
        options: schedule, peak rate and warm-up.
        update: updates done, from 0.
        fraction: share of the run that is over, the larger of those by updates and by time, in [0, 1].

    Returns:
        peak * min(1, (update + 1) / warmup) * decay, where decay is
        inverse_sqrt: sqrt(warmup / (update + 1)) from the end of the warm-up, Vaswani et al. 2017 eq. 3 up to scale;
        cosine: (1 + cos(pi * fraction)) / 2, Loshchilov & Hutter 2017 eq. 5; power: (1 - fraction)^decay_power.
    """
    warm = min(1.0, (update + 1) / options.warmup_updates) if options.warmup_updates else 1.0
    fraction = min(max(fraction, 0.0), 1.0)
    match options.schedule:
        case "inverse_sqrt":
            decay = math.sqrt(max(options.warmup_updates, 1) / max(update + 1, options.warmup_updates, 1))
        case "cosine":
            decay = 0.5 * (1.0 + math.cos(math.pi * fraction))
        case "power":
            decay = (1.0 - fraction) ** options.decay_power
        case _:
            decay = 1.0
    return options.learning_rate * warm * decay


class MovingAverage:
    """Exponential moving average of a model's weights.

    average <- d * average + (1 - d) * weight, with d = min(decay, (1 + t) / (10 + t)) after t updates so that the
    start is soon forgotten. Buffers are not averaged.

    Source: Polyak & Juditsky 1992; the ramp as in TensorFlow's ExponentialMovingAverage.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.weights: dict[str, Tensor] = {name: parameter.detach().clone()
                                           for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, updates: int) -> None:
        """Take in the weights after `updates` updates."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        current = [parameter for _, parameter in model.named_parameters()]
        torch._foreach_lerp_(list(self.weights.values()), current, 1.0 - decay)

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        """Exchange the model's weights and the averages; twice is once undone."""
        for name, parameter in model.named_parameters():
            kept = parameter.detach().clone()
            parameter.copy_(self.weights[name])
            self.weights[name].copy_(kept)
