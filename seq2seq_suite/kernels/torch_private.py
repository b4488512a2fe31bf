"""What PyTorch has under private names, which another version may lack: each with what to do then."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from inspect import unwrap
from typing import TypeVar

import torch
from torch import Tensor, nn

Kind = TypeVar("Kind", bound=torch.optim.Optimizer)


@cache
def has_onednn() -> bool:
    """Whether oneDNN multiplies matrices in float32 here."""
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b in float32 by oneDNN, W (V,D) as it is or packed; only where `has_onednn`."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def packed(weight: Tensor) -> Tensor:
    """W as the kernels of `onednn_linear` like it."""
    return torch.ops.mkldnn._reorder_linear_weight(weight)


def foreach(
    operation: str, tensors: Sequence[Tensor], *others: Sequence[Tensor] | Tensor | float, alpha: float = 1.0
) -> Sequence[Tensor]:
    """A method of Tensor, `lerp` or `add_` say, called for each of many tensors in one call of PyTorch.

    Args:
        operation: the method's name.
        tensors: each of any shape.
        others: its arguments: a tensor for each of them, or a number or scalar tensor for all.
        alpha: factor of what `add_` adds.

    Returns:
        What the method gave for each; the tensors themselves where it works in place.
    """
    options = {"alpha": alpha} if alpha != 1.0 else {}
    together = getattr(torch, f"_foreach_{operation}", None)
    if together is not None:
        found = together(tensors, *others, **options)
        return tensors if found is None else found
    return [
        getattr(tensor, operation)(
            *(other if isinstance(other, (int, float)) else other[place] for other in others), **options
        )
        for place, tensor in enumerate(tensors)
    ]


def without_compiler(kind: type[Kind]) -> type[Kind]:
    """The same optimiser, which does not import torch.compile's machinery at its first use: a second of each run."""
    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        method = unwrap(getattr(kind, name))
        setattr(method, "__dynamo_disable", method)  # what its wrapper would ask the compiler for
    return type(kind)(kind.__name__, (kind,), {"step": torch.no_grad()(unwrap(kind.step))})


def compile_layer(module: nn.Module, *, backend: str = "inductor") -> None:
    """Compile a module's calls, once for all lengths of its input; modules of a kind share what is compiled."""
    import torch._dynamo  # takes a second, which other runs need not wait

    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)  # kinds of layers, not lengths
    module.compile(dynamic=True, backend=backend)


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether a device has instructions for bfloat16, which are emulated otherwise: 30 to 90 times as slow as float32.

    False where PyTorch does not say.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and any(
        getattr(torch.cpu, name, bool)() for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    )
