"""Muon, with all matrices of one shape orthogonalised together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from seq2seq_suite.common.groups import grouped
from seq2seq_suite.kernels.torch_private import foreach, multiplies_bfloat16
from seq2seq_suite.model.variants.experts import MixtureOfExperts
from seq2seq_suite.strategies.auxiliary_losses import Labels
from seq2seq_suite.strategies.spans import SpanHead
from seq2seq_suite.training.optimizer import adamw, learning

if TYPE_CHECKING:
    from seq2seq_suite.options.training import Training

_A, _B, _C, _STEPS, _LEAST = 3.4445, -4.7750, 2.0315, 5, 1e-7


def muon(
    model: nn.Module, options: Training, *, momentum: float, factor: float, betas: tuple[float, float], eps: float
) -> torch.optim.Optimizer:
    """Muon for the matrices between hidden states, at `factor` times the learning rate, and AdamW for the rest."""
    matrices = _hidden_matrices(model)
    others = [one for one in learning(model) if one not in set(matrices)]
    rest = adamw(model, options, betas=betas, eps=eps, parameters=others)
    if not matrices:
        return rest
    return _Joined(
        Muon(
            [{"params": matrices, "factor": factor, "kind": "muon"}],
            lr=options.learning_rate,
            weight_decay=options.weight_decay,
            momentum=momentum,
        ),
        rest,
    )


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


def _hidden_matrices(model: nn.Module) -> list[Tensor]:
    """Weights from hidden states to hidden states, including two-dimensional convolutions, that are not frozen: no
    embeddings and no output layers."""
    end_in_logits = {part for module in model.modules() if isinstance(module, Labels) for part in module.modules()}
    end_in_logits |= {module.router for module in model.modules() if isinstance(module, MixtureOfExperts)}
    end_in_logits |= {module.output for module in model.modules() if isinstance(module, SpanHead)}
    return [
        weight
        for module in model.modules()
        if isinstance(module, (nn.Linear, nn.Conv2d)) and module not in end_in_logits
        for name, weight in module.named_parameters(recurse=False)
        if name == "weight" and weight.requires_grad
    ]


class Muon(torch.optim.Optimizer):
    """Momentum with an orthogonalised direction; for each matrix W (m,n) with gradient G:

        M <- mu M + (1 - mu) G,    O = orthogonal((1 - mu) G + mu M),    W <- W - lr (lambda W + 0.2 sqrt(max(m, n)) O)

    `orthogonal` is near U V^T of X = U S V^T: five steps X <- a X + (b A + c A A) X, A = X X^T, in bfloat16 where the
    device has instructions for it. Matrices of one shape are computed as a batch, which is faster for small ones. The
    weight of a convolution, (m,c,...), is the matrix (m,n) that multiplies each window.

    Args:
        params: matrices, or groups of them.
        lr: learning rate; an update has the root mean square 0.2 lr, as AdamW's has about. `muon` gives
            three times `training.learning_rate`.
        weight_decay: lambda.
        momentum: mu.

    Source: Jordan et al. 2024 (Muon), coefficients and Nesterov's momentum; Liu et al. 2025, eq. 4, for the size.
    """

    def __init__(self, params: list[Tensor] | list[dict], *, lr: float, weight_decay: float, momentum: float = 0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        for group in self.param_groups:
            if any(parameter.dim() < 2 for parameter in group["params"]):
                raise ValueError("Muon updates matrices only")

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One step of every matrix that has a gradient."""
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not moved:
                continue
            grads = [parameter.grad for parameter in moved]
            momenta = [self._momentum(parameter, grad) for parameter, grad in zip(moved, grads, strict=True)]
            foreach("lerp_", momenta, grads, 1.0 - group["momentum"])
            wanted = foreach("lerp", grads, momenta, group["momentum"])
            if group["weight_decay"]:
                foreach("mul_", moved, 1.0 - group["lr"] * group["weight_decay"])
            shapes = grouped((tuple(one.flatten(1).shape), place) for place, one in enumerate(moved))
            for shape, places in shapes.items():
                steps = orthogonal(torch.stack([wanted[place].view(shape) for place in places]))
                steps = steps.to(moved[places[0]].dtype)
                size = group["lr"] * 0.2 * math.sqrt(max(shape))
                foreach("add_", [moved[place].view(shape) for place in places], list(steps.unbind()), alpha=-size)

    def _momentum(self, parameter: nn.Parameter, grad: Tensor) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(grad)
        return state["momentum_buffer"]


def orthogonal(matrices: Tensor) -> Tensor:
    """(K,m,n) -> (K,m,n) with singular values near one, bfloat16 where the device multiplies that, else float32."""
    tall = matrices.size(1) > matrices.size(2)
    x = (matrices.mT if tall else matrices).to(
        torch.bfloat16 if multiplies_bfloat16(matrices.device) else torch.float32
    )
    x = x / x.flatten(1).norm(dim=1).clamp(min=_LEAST).view(-1, 1, 1)
    for _ in range(_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return x.mT if tall else x
