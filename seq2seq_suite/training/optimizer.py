"""Builds optimisers, and applies learning-rate schedules and the moving average of weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from seq2seq_suite.common.user_code import blaming, is_code, load_code
from seq2seq_suite.kernels.torch_private import foreach, without_compiler
from seq2seq_suite.options.schedules import SCHEDULES
from seq2seq_suite.options.training import optimizer_of

if TYPE_CHECKING:
    from seq2seq_suite.options.training import Training


def build_optimizer(model: nn.Module, options: Training) -> torch.optim.Optimizer:
    """The optimiser that `training.optimizer` names, for the parameters of a model that learn.

    Weight decay acts on matrices only: gains and biases stay free of it. A group's rate is its `factor`, 1 if it has
    none, times `learning_rate`; `set_rate` applies it. `kind` of a group names what updates it, for checkpoints.

    Raises:
        ConfigError: an option has a value that the optimiser refuses, or code of the user's own fails, builds no
            optimiser or leaves parameters out.
    """
    name, row = options.optimizer, optimizer_of(options.optimizer)
    module, _, builder = row.builder.partition(".")
    build = getattr(import_module(f"seq2seq_suite.training.{module}"), builder)
    given = {**row.options, **options.optimizer_options}
    with blaming(
        name,
        key="training.optimizer",
        expected="values of training.optimizer_options that it knows",
        kinds=Exception if is_code(name) else (TypeError, ValueError),
    ):
        optimizer = build(model, options, **given)
    for group in optimizer.param_groups:
        group.setdefault("kind", name.rpartition(":")[2])
    return optimizer


def learning(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are not frozen."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def groups_of(parameters: Iterable[nn.Parameter], options: Training) -> list[dict[str, Any]]:
    """Parameters in two groups: matrices, whose weights decay, and the rest, whose do not."""
    parameters = list(parameters)
    return [
        {"params": [one for one in parameters if one.dim() >= 2], "weight_decay": options.weight_decay},
        {"params": [one for one in parameters if one.dim() < 2], "weight_decay": 0.0},
    ]


def adamw(
    model: nn.Module,
    options: Training,
    *,
    betas: tuple[float, float],
    eps: float,
    parameters: Iterable[nn.Parameter] | None = None,
) -> torch.optim.Optimizer:
    """AdamW, for `parameters` or else for all that learn; Loshchilov & Hutter 2019, Algorithm 2."""
    fused = next(model.parameters()).device.type != "mps"
    groups = groups_of(learning(model) if parameters is None else parameters, options)
    return without_compiler(torch.optim.AdamW)(
        [{**group, "kind": "adamw"} for group in groups], lr=options.learning_rate, betas=betas, eps=eps, fused=fused
    )


def of_user(model: nn.Module, options: Training, **given: Any) -> torch.optim.Optimizer:
    """What the user's class or function makes of the groups, `lr` and `training.optimizer_options`."""
    found = load_code(options.optimizer, key="training.optimizer")(
        groups_of(learning(model), options), lr=options.learning_rate, **given
    )
    if not isinstance(found, torch.optim.Optimizer):
        raise TypeError(f"it gives {type(found).__name__}, no torch.optim.Optimizer")
    if {one for group in found.param_groups for one in group["params"]} != set(learning(model)):
        raise ValueError("it does not have exactly the parameters that it was given")
    return found


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give each group its rate for the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)


def learning_rate(options: Training, update: int, fraction: float) -> float:
    """The rate of an update.

    Args:
        options: schedule, peak rate and warm-up.
        update: updates done, from 0.
        fraction: share of the run that is done, by updates or by time, whichever is larger, in [0, 1].

    Returns:
        peak * min(1, (update + 1) / warmup) * the schedule's factor.
    """
    warm = min(1.0, (update + 1) / options.warmup_updates) if options.warmup_updates else 1.0
    return options.learning_rate * warm * SCHEDULES[options.schedule](options, update, min(max(fraction, 0.0), 1.0))


class MovingAverage:
    """Exponential moving average of a model's weights.

    average <- d * average + (1 - d) * weight, with d = min(decay, (1 + t) / (10 + t)) after t updates, which soon
    forgets the start. Buffers and frozen parameters are not averaged.

    Source: Polyak & Juditsky 1992; the ramp as in TensorFlow's ExponentialMovingAverage.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.weights: dict[str, Tensor] = {
            name: parameter.detach().clone() for name, parameter in model.named_parameters() if parameter.requires_grad
        }

    @torch.no_grad()
    def update(self, model: nn.Module, updates: int) -> None:
        """Update the averages with the weights after `updates` updates."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        foreach("lerp_", list(self.weights.values()), learning(model), 1.0 - decay)

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
        parameters = dict(model.named_parameters())
        for name, average in self.weights.items():
            kept = parameters[name].detach().clone()
            parameters[name].copy_(average)
            average.copy_(kept)
