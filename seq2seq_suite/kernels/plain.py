"""The plain implementations of slots that are a line of PyTorch in `model`, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn
from torch.nn import functional


def dropout(x: Tensor, rate: float) -> Tensor:
    """Each element zeroed with probability `rate` and the others divided by 1 - rate.

    Source: Srivastava et al. 2014, in its inverted form.
    """
    return functional.dropout(x, rate)


def projections(x: Tensor, linears: Sequence[nn.Linear]) -> Sequence[Tensor]:
    """x (...,D) by each layer (D -> V): (...,V) of each."""
    return [linear(x) for linear in linears]


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b of x (...,D), W (V,D) and b (V,) or None -> (...,V)."""
    return functional.linear(x, weight, bias)


def linear(weight: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
    """h -> h W^T + b, for the many steps of one search, in which W and b are constant."""
    return partial(functional.linear, weight=weight, bias=bias)


def prepared(stack: nn.Module) -> nn.Module:
    """The encoder or the decoder for a search, in which its weights are constant: as it is."""
    return stack
