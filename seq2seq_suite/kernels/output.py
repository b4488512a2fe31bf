"""The output layer's losses without ever holding all logits together.

Measured: an update of CTC with 6,000 symbols takes 1.60 s in place of 2.99, one of paths through a graph 2.98 s in
place of 5.14 (Multi30k, 120 pairs, one thread); cross-entropy of 1,000 positions and 8,000
symbols 178 ms in place of 243 in bfloat16 and as long in float32, with a quarter of the logits in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from seq2seq_suite.kernels.product import matrix_product, product

_CHUNK_ELEMENTS = 2**21  # logits held at a time: 8 MiB in float32


def cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float = 0.0
                  ) -> Tensor:
    """`model.output.cross_entropy`, chunk by chunk.

    The gradient of a chunk's logits is formed while they are still in the cache, so that the backward pass only
    scales what is there.
    """
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, label_smoothing)


class _LinearCrossEntropy(torch.autograd.Function):
    """With z the logits of a row, m their maximum, e the smoothing and Z = sum_v exp(z_v - m):

        loss   = m + log Z - (1 - e) z_y - e / V sum_v z_v
        dz     = exp(z - m) / Z - (1 - e) [v = y] - e / V

    The logits are passed over three times: to find m, to write exp(z - m), and to sum it. Division by Z and the
    last term wait until after the matrix products, where they are as small as the hidden states.
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, smoothing):
        """The summed loss, float32, of hidden (N,D), weight (V,D), bias (V,), targets (N,); gradients come with it."""
        device, cast = hidden.device.type, _compute_type(hidden)
        needs_gradient = any(ctx.needs_input_grad)
        with torch.autocast(device, enabled=False):
            count, share = targets.size(0), smoothing / weight.size(0)
            low_weight, bias_float = weight.to(cast), bias.float()
            grad_hidden = torch.empty_like(hidden) if needs_gradient else None
            grad_weight = torch.zeros_like(weight) if needs_gradient else None
            grad_bias = torch.zeros_like(bias_float) if needs_gradient else None
            hidden_sum, weight_sum = hidden.sum(0, dtype=torch.float32), weight.sum(0, dtype=torch.float32)
            total = -share * (hidden_sum @ weight_sum + count * bias_float.sum())
            for part, values in _logit_chunks(hidden, weight, bias_float, cast):
                target = targets[part, None]
                largest = values.amax(1, keepdim=True)
                chosen = values.gather(1, target)
                mass = values.sub_(largest).exp_().sum(1, keepdim=True)
                total += (largest + mass.log() - (1.0 - smoothing) * chosen).sum()
                if not needs_gradient:
                    continue
                values.scatter_add_(1, target, (smoothing - 1.0) * mass)
                low_values = values.to(cast)
                grad_hidden[part] = matrix_product(low_values, low_weight) / mass - share * weight_sum
                grad_weight += matrix_product(low_values.t(), (hidden[part] / mass).to(cast))
                grad_bias.addmv_(values.t(), 1.0 / mass.squeeze(1))
        if needs_gradient:
            grad_weight -= share * hidden_sum
            grad_bias -= share * count
            ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx, grad):
        """The gradients formed in the forward pass, scaled."""
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return grad_hidden * grad, grad_weight * grad, grad_bias * grad, None, None


def gather_log_probs(hidden: Tensor, weight: Tensor, bias: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`model.output.gather_log_probs`, chunk by chunk.

    For losses that ask about few symbols at many positions (CTC, paths through a graph): the logits of a chunk are
    made twice, forwards and backwards, and never leave the cache.
    """
    return _GatherLogProbs.apply(hidden, weight, bias, symbols)


class _GatherLogProbs(torch.autograd.Function):
    """With z the logits of a row, Z = sum_v exp(z_v), s_k = z_(y_k) - log Z and the slopes g_k = dL/ds_k:

        dL/dz = sum_k g_k [v = y_k] - (sum_k g_k) exp(z - log Z)
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, symbols):
        """See `gather_log_probs`: hidden (N,D), weight (V,D), bias (V,), symbols (N,K)."""
        ctx.cast = _compute_type(hidden)
        scores = hidden.new_empty(symbols.shape, dtype=torch.float32)
        best, mass = symbols.new_empty(symbols.size(0), 1), hidden.new_empty(symbols.size(0), 1, dtype=torch.float32)
        largest = torch.empty_like(mass)
        for part, values in _logit_chunks(hidden, weight, bias, ctx.cast):
            largest[part], best[part] = values.max(1, keepdim=True)
            scores[part] = values.gather(1, symbols[part])
            mass[part] = values.sub_(largest[part]).exp_().sum(1, keepdim=True).log_()
        best, gained, normaliser = best.squeeze(1), -mass.squeeze(1), mass + largest
        ctx.mark_non_differentiable(best, gained)
        ctx.save_for_backward(hidden, weight, bias, symbols, normaliser)
        return scores - normaliser, best, gained

    @staticmethod
    def backward(ctx, slopes, *_):
        """The logits once more, and what the slopes (N,K) make of them."""
        hidden, weight, bias, symbols, normaliser = ctx.saved_tensors
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        grad_bias, total = torch.zeros_like(bias), slopes.sum(1, keepdim=True)
        with torch.autocast(hidden.device.type, enabled=False):
            low_weight = weight.to(ctx.cast)
            for part, values in _logit_chunks(hidden, weight, bias, ctx.cast):
                values.sub_(normaliser[part]).exp_().mul_(-total[part])
                values.scatter_add_(1, symbols[part], slopes[part])
                low = values.to(ctx.cast)
                grad_hidden[part] = matrix_product(low, low_weight)
                grad_weight += matrix_product(low.t(), hidden[part].to(ctx.cast))
                grad_bias += values.sum(0)
        return grad_hidden, grad_weight, grad_bias, None


def _compute_type(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def _logit_chunks(hidden: Tensor, weight: Tensor, bias: Tensor, cast: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
    """Logits (n,V) float32 of a few rows at a time, which may be written to, and which rows they are."""
    count, symbols = hidden.size(0), weight.size(0)
    with torch.autocast(hidden.device.type, enabled=False):
        low_hidden, low_weight = hidden.to(cast), weight.to(cast)
        rows = max(1, min(count, _CHUNK_ELEMENTS // symbols))
        buffer = None if cast == torch.float32 else hidden.new_empty(rows, symbols, dtype=torch.float32)
        low_buffer = None if buffer is None else buffer.to(cast)
        for first in range(0, count, rows):
            part = slice(first, min(first + rows, count))
            if buffer is None:
                yield part, product(low_hidden[part], low_weight, bias)
                continue
            values = buffer[: part.stop - first]
            values.copy_(torch.mm(low_hidden[part], low_weight.t(), out=low_buffer[: part.stop - first]))
            yield part, values.add_(bias)
