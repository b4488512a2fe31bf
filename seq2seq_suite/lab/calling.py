"""One call of a student's function, as both processes make it. The worker imports this module too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.lab.probes import Probe


def answer(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    gradient: Sequence[int] = (),
    cotangent: Tensor | None = None,
) -> tuple[Any, list[Any], list[tuple[str, tuple[Any, ...]]]]:
    """Call a function with copies.

    Returns:
        Its output, or (output, gradients) where gradients are asked for; the arguments as they are afterwards; what
        the probes among them were called with.
    """
    probes: list[Probe] = []
    calls: list[tuple[str, tuple[Any, ...]]] = []
    copies = [copied(one, probes) for one in arguments]
    for probe in probes:
        probe.calls = calls
    asked = [copies[number].requires_grad_() for number in gradient]
    output = function(*copies)
    found = detached(output)
    if gradient:
        found = found, _gradients(output, asked, cotangent)
    return found, [detached(one) for one in copies], calls


def _gradients(output: Any, asked: Sequence[Tensor], cotangent: Tensor | None) -> list[Tensor | None]:
    first = next(
        (
            one
            for one in (output if isinstance(output, tuple | list) else [output])
            if isinstance(one, Tensor) and one.is_floating_point()
        ),
        None,
    )
    if first is None or not first.requires_grad:
        return [None for _ in asked]
    cotangent = torch.ones_like(first) if cotangent is None else cotangent.to(first.dtype)
    return list(torch.autograd.grad((first * cotangent).sum(), asked, allow_unused=True))


def copied(value: Any, probes: list[Probe]) -> Any:
    """A copy that shares nothing with the value; its probes are new, and added to `probes`."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Probe):
        probes.append(Probe(value.kind, *value.parts, name=value.name))
        return probes[-1]
    return _mapped(value, lambda one: copied(one, probes))


def detached(value: Any) -> Any:
    """The value with copies of its tensors, outside of any graph."""
    return value.detach().clone() if isinstance(value, Tensor) else _mapped(value, detached)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(change, value))
    if type(value) in (list, tuple):
        return type(value)(map(change, value))
    if type(value) is dict:
        return {key: change(one) for key, one in value.items()}
    return set(value) if type(value) is set else value
