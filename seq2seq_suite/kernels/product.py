"""Products of float32 matrices by oneDNN, which reaches twice the speed of PyTorch's own on AMD processors.

PyTorch gives them to MKL, which leaves AVX-512 of other makers' processors idle. Measured: 4,096 rows times 512 x 512
on an EPYC with one thread 104 GFLOP/s in place of 47, an update of the tiny preset 1.13 to 1.17 times as fast; few
rows are left to MKL, whose calls take less time.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.kernels import torch_private

_LEAST_PRODUCTS = 2**20  # of numbers: below, to call oneDNN costs more than it gains


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`kernels.plain.product`, forwards and backwards."""
    if not pays(x, weight):
        return functional.linear(x, weight, bias)
    if torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in (x, weight, bias)):
        return _Product.apply(x, weight, bias)
    return torch_private.onednn_linear(x, weight, bias)


def fewest(weight: Tensor) -> float:
    """Numbers that x (...,D) has at least where oneDNN multiplies it by a weight (V,D).

    A large weight MKL reads so slowly that one row is enough: 512 times 512 x 1,536 takes 186 us, by oneDNN 64.
    """
    return 1.0 if 2 * weight.numel() >= _LEAST_PRODUCTS else _LEAST_PRODUCTS / weight.size(0)


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN multiplies x (...,D) by a weight (V,D)."""
    return (x.numel() >= fewest(weight) and x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32 and
            torch_private.has_onednn() and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling())


def matrix_product(left: Tensor, right: Tensor) -> Tensor:
    """(N,K) times (K,M), by oneDNN where that pays; without gradients."""
    return torch_private.onednn_linear(left, right.t()) if pays(left, right.t()) else left @ right


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x W^T + b."""
        ctx.save_for_backward(x, weight)
        return torch_private.onednn_linear(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        """dx = g W, dW = g^T x, db = sum g, of those that are asked for."""
        x, weight = ctx.saved_tensors
        rows = grad.reshape(-1, grad.size(-1))
        wanted = ctx.needs_input_grad
        return (matrix_product(rows, weight).view(x.shape) if wanted[0] else None,
                matrix_product(rows.t(), x.reshape(-1, x.size(-1))) if wanted[1] else None,
                rows.sum(0) if wanted[2] else None)
