"""AdamW and Muon, learning-rate schedules and the moving average of weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from seq2seq_suite.kernels.torch_private import foreach, without_compiler
from seq2seq_suite.model.variants.experts import MixtureOfExperts
from seq2seq_suite.strategies.auxiliary import Labels
from seq2seq_suite.strategies.spans import SpanHead
from seq2seq_suite.training.muon import Muon

if TYPE_CHECKING:
    from seq2seq_suite.options.training import Training

_BETAS, _EPSILON = (0.9, 0.98), 1e-9  # Vaswani et al. 2017, section 5.3
_LEAST_NORM = 1e-6  # of gradients, as in PyTorch's own clipping
_MUON_FACTOR = 3.0  # Muon's rate = factor * learning_rate


def build_optimizer(model: nn.Module, options: Training) -> torch.optim.Optimizer:
    """AdamW, or Muon for the matrices between hidden states with AdamW for the rest.

    Weight decay acts on matrices only: gains and biases stay free of it. A group's rate is its `factor` times
    `learning_rate`; `set_rate` applies it.

    Source: Loshchilov & Hutter 2019, Algorithm 2; of Muon at its class.
    """
    fused = next(model.parameters()).device.type != "mps"
    matrices = _hidden_matrices(model) if options.optimizer == "muon" else []
    taken = set(matrices)
    others = [parameter for parameter in model.parameters() if parameter not in taken]
    decayed = [parameter for parameter in others if parameter.dim() >= 2]
    free = [parameter for parameter in others if parameter.dim() < 2]
    groups = [{"params": decayed, "weight_decay": options.weight_decay, "factor": 1.0},
              {"params": free, "weight_decay": 0.0, "factor": 1.0}]
    adamw = without_compiler(torch.optim.AdamW)(groups, lr=options.learning_rate, betas=_BETAS, eps=_EPSILON,
                                                fused=fused)
    if not matrices:
        return adamw
    muon = Muon([{"params": matrices, "factor": _MUON_FACTOR}], lr=options.learning_rate,
                weight_decay=options.weight_decay)
    return _Joined(muon, adamw)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give each group its rate for the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]


class _Joined(torch.optim.Optimizer):
    """Several optimisers of different parameters that act as one."""

    def __init__(self, *parts: torch.optim.Optimizer):
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts
        for part in parts:
            part.state = self.state

    def step(self, closure: None = None) -> None:
        """One step of each part."""
        for part in self.parts:
            part.step()


def _hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Weights from hidden states to hidden states, including two-dimensional convolutions: no embeddings and no output
    layers."""
    end_in_logits = {part for module in model.modules() if isinstance(module, Labels) for part in module.modules()}
    end_in_logits |= {module.router for module in model.modules() if isinstance(module, MixtureOfExperts)}
    end_in_logits |= {module.output for module in model.modules() if isinstance(module, SpanHead)}
    return [module.weight for module in model.modules()
            if isinstance(module, (nn.Linear, nn.Conv2d)) and module not in end_in_logits]


def learning_rate(options: Training, update: int, fraction: float) -> float:
    """The rate of an update.

    Args:
        options: schedule, peak rate and warm-up.
        update: updates done, from 0.
        fraction: share of the run that is done, by updates or by time, whichever is larger, in [0, 1].

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


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The Euclidean norm of all gradients together, (); few calls however many they are, on every device."""
    return torch.stack(list(foreach("norm", gradients))).norm()


def clip_gradients(model: nn.Module, most: float) -> Tensor:
    """Scale a model's gradients by one factor so that their norm is `most` or less; returns the norm before, ().

    Source: Pascanu et al. 2013, Algorithm 1.
    """
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = total_norm(gradients)
    foreach("mul_", gradients, (most / (norm + _LEAST_NORM)).clamp(max=1.0))
    return norm


class MovingAverage:
    """Exponential moving average of a model's weights.

    average <- d * average + (1 - d) * weight, with d = min(decay, (1 + t) / (10 + t)) after t updates, which soon
    forgets the start. Buffers are not averaged.

    Source: Polyak & Juditsky 1992; the ramp as in TensorFlow's ExponentialMovingAverage.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.weights: dict[str, Tensor] = {name: parameter.detach().clone()
                                           for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, updates: int) -> None:
        """Update the averages with the weights after `updates` updates."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        foreach("lerp_", list(self.weights.values()), list(model.parameters()), 1.0 - decay)

    @contextmanager
    def swapped(self, model: nn.Module) -> Iterator[None]:
        """Within, the model has the averages for its weights."""
        self.swap(model)
        try:
            yield
        finally:
            self.swap(model)

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        """Swap the model's weights and the averages; a second call swaps them back."""
        for name, parameter in model.named_parameters():
            kept = parameter.detach().clone()
            parameter.copy_(self.weights[name])
            self.weights[name].copy_(kept)
