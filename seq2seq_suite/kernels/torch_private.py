"""What PyTorch has under private names, which another version may lack: each with what to do then."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def packed_linear(weight: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor] | None:
    """h -> h W^T + b in float32 with W (V,D) as oneDNN's kernels like it; None where it cannot be packed."""
    names = ("_reorder_linear_weight", "_linear_pointwise")
    if not torch.backends.mkldnn.is_available() or not all(hasattr(torch.ops.mkldnn, name) for name in names):
        return None
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    return lambda hidden: torch.ops.mkldnn._linear_pointwise(hidden, packed, bias, "none", [], "")


def cpu_multiplies_bfloat16() -> bool:
    """Whether this CPU has instructions for bfloat16; False where PyTorch does not say."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)
