"""Products of float32 matrices by oneDNN, which is faster than PyTorch's own where the weights are large.

PyTorch gives them to MKL, which leaves AVX-512 of other makers' processors idle; but oneDNN compiles each new shape,
for a millisecond or more. Measured: an update of `translation.yaml` at size base in float32 is 1.13 times as fast, one
of `parsing.yaml`, tiny, 0.89 times. So small weights are left to MKL in training, and few rows always.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.kernels import torch_private

_LEAST_PRODUCTS = 2**20  # of numbers: below, to call oneDNN costs more than it gains
_LEAST_TRAINED = 2**18  # numbers of a weight, 512 x 512; batches seldom have a shape that was compiled before


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`kernels.plain.product`, forwards and backwards."""
    learns = torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in (x, weight, bias))
    if not pays(x, weight, learns=learns):
        return functional.linear(x, weight, bias)
    return _Product.apply(x, weight, bias) if learns else torch_private.onednn_linear(x, weight, bias)


def fewest(weight: Tensor) -> float:
    """Numbers that x (...,D) has at least where oneDNN multiplies it by a weight (V,D).

    A large weight MKL reads so slowly that one row is enough: 512 times 512 x 1,536 takes 186 us, by oneDNN 64.
    """
    return 1.0 if 2 * weight.numel() >= _LEAST_PRODUCTS else _LEAST_PRODUCTS / weight.size(0)


def pays(x: Tensor, weight: Tensor, *, learns: bool = False) -> bool:
    """Whether oneDNN multiplies x (...,D) by a weight (V,D), with or without gradients."""
    return (
        x.numel() >= fewest(weight)
        and not (learns and weight.numel() < _LEAST_TRAINED)
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and torch_private.has_onednn()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


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
        return (
            matrix_product(rows, weight).view(x.shape) if wanted[0] else None,
            matrix_product(rows.t(), x.reshape(-1, x.size(-1))) if wanted[1] else None,
            rows.sum(0) if wanted[2] else None,
        )
