"""The output layer's losses without ever holding all logits together.

Measured (4,096 positions, 8,000 symbols, one thread): cross-entropy 110 ms in place of 418 in bfloat16, 171 in place of
545 in float32; log-probabilities of 20 symbols at each position 175 and 382, 237 and 497.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from seq2seq_suite.kernels.product import matrix_product, product

_CHUNK_ELEMENTS = 2**22  # logits held at a time: 16 MiB in float32; 16 times as many on a GPU, for fewer kernels


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    label_smoothing: float = 0.0,
    row_weights: Tensor | None = None,
) -> Tensor:
    """`model.output.cross_entropy`, chunk by chunk.

    The gradient of a chunk's logits is formed while they are still in the cache, so that the backward pass only
    scales what is there.
    """
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, label_smoothing, row_weights)


class _LinearCrossEntropy(torch.autograd.Function):
    """With z the logits of a row, p = softmax(z), w its weight, e the smoothing and V symbols:

        loss   = w (max z - log max p - (1 - e) z_y - e / V sum_v z_v)
        dz     = w (p - (1 - e) [v = y] - e / V)

    Terms with e / V wait until after the matrix products, where they are as small as the hidden states.
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, smoothing, row_weights):
        """The summed loss, float32, of hidden (N,D), weight (V,D), bias (V,), targets (N,), row_weights (N,) or None.

        Gradients come with it.
        """
        device, cast = hidden.device.type, _compute_type(hidden)
        needs_gradient = any(ctx.needs_input_grad)
        with torch.autocast(device, enabled=False):
            count, share = targets.size(0) if row_weights is None else row_weights.sum(), smoothing / weight.size(0)
            low_hidden, low_weight, bias_float = hidden.to(cast), weight.to(cast), bias.float()
            grad_hidden = torch.empty_like(hidden) if needs_gradient else None
            grad_weight = torch.zeros_like(weight) if needs_gradient else None
            grad_bias = torch.zeros_like(bias_float) if needs_gradient else None
            weighted = hidden if row_weights is None else hidden * row_weights[:, None]
            hidden_sum, weight_sum = weighted.sum(0, dtype=torch.float32), weight.sum(0, dtype=torch.float32)
            total = -share * (hidden_sum @ weight_sum + count * bias_float.sum())
            for part, logits, spare in _logit_chunks(low_hidden, low_weight, bias_float):
                target, scale = targets[part, None], 1.0 if row_weights is None else row_weights[part, None]
                chosen, largest = logits.gather(1, target), logits.amax(1, keepdim=True)
                probabilities = logits.softmax(1)
                total += (
                    scale * (largest - probabilities.amax(1, keepdim=True).log() - (1.0 - smoothing) * chosen)
                ).sum()
                if grad_hidden is None or grad_weight is None or grad_bias is None:
                    continue
                slopes = probabilities.scatter_add_(1, target, torch.full_like(chosen, smoothing - 1.0))
                slopes = slopes if row_weights is None else slopes.mul_(scale)
                grad_bias += slopes.sum(0)
                low_slopes = slopes if spare is None else spare.copy_(slopes)
                grad_hidden[part] = matrix_product(low_slopes, low_weight) - scale * share * weight_sum
                grad_weight += matrix_product(low_slopes.t(), low_hidden[part])
        if needs_gradient:
            grad_weight -= share * hidden_sum
            grad_bias -= share * count
            ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx, grad):
        """The gradients formed in the forward pass, scaled."""
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return grad_hidden * grad, grad_weight * grad, grad_bias * grad, None, None, None


def gather_log_probs(hidden: Tensor, weight: Tensor, bias: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`model.output.gather_log_probs`, chunk by chunk.

    For losses that ask about few symbols at many positions (CTC, paths through a graph): the logits of a chunk are
    made twice, forwards and backwards, and never leave the cache.
    """
    return _GatherLogProbs.apply(hidden, weight, bias, symbols)


class _GatherLogProbs(torch.autograd.Function):
    """With z the logits of a row, p = softmax(z), s_k = log p_(y_k) and the slopes g_k = dL/ds_k:

    s_k    = z_(y_k) - max z + log max p
    dL/dz  = sum_k g_k [v = y_k] - (sum_k g_k) p
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, symbols):
        """See `gather_log_probs`: hidden (N,D), weight (V,D), bias (V,), symbols (N,K)."""
        ctx.cast = _compute_type(hidden)
        scores = hidden.new_empty(symbols.shape, dtype=torch.float32)
        best, highest = symbols.new_empty(symbols.size(0)), hidden.new_empty(symbols.size(0), dtype=torch.float32)
        with torch.autocast(hidden.device.type, enabled=False):
            for part, logits, _ in _logit_chunks(hidden.to(ctx.cast), weight.to(ctx.cast), bias):
                largest, best[part] = logits.max(1)
                highest[part] = logits.softmax(1).gather(1, best[part, None]).squeeze(1).log_()
                scores[part] = logits.gather(1, symbols[part]) + (highest[part] - largest)[:, None]
        ctx.mark_non_differentiable(best, highest)
        ctx.save_for_backward(hidden, weight, bias, symbols)
        return scores, best, highest

    @staticmethod
    def backward(ctx, slopes, *_):
        """The logits once more, and what the slopes (N,K) make of them."""
        hidden, weight, bias, symbols = ctx.saved_tensors
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        grad_bias, total = torch.zeros_like(bias), slopes.sum(1, keepdim=True)
        with torch.autocast(hidden.device.type, enabled=False):
            low_hidden, low_weight = hidden.to(ctx.cast), weight.to(ctx.cast)
            for part, logits, spare in _logit_chunks(low_hidden, low_weight, bias):
                values = logits.softmax(1).mul_(-total[part]).scatter_add_(1, symbols[part], slopes[part])
                low = values if spare is None else spare.copy_(values)
                grad_hidden[part] = matrix_product(low, low_weight)
                grad_weight += matrix_product(low.t(), low_hidden[part])
                grad_bias += values.sum(0)
        return grad_hidden, grad_weight, grad_bias, None


def _compute_type(hidden: Tensor) -> torch.dtype:
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype


def _logit_chunks(hidden: Tensor, weight: Tensor, bias: Tensor) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
    """Which rows, their logits (n,V) float32 and, where those were multiplied in another type, room for them in it.

    Both are overwritten for the next rows.
    """
    count, symbols = hidden.size(0), weight.size(0)
    rows = max(1, min(count, _CHUNK_ELEMENTS * (1 if hidden.device.type == "cpu" else 16) // symbols))
    low = None if hidden.dtype == torch.float32 else hidden.new_empty(rows, symbols)
    wide = None if low is None else low.float()
    for first in range(0, count, rows):
        part = slice(first, min(first + rows, count))
        if low is None or wide is None:
            yield part, product(hidden[part], weight, bias), None
            continue
        spare = low[: part.stop - first]
        torch.mm(hidden[part], weight.t(), out=spare)
        yield part, torch.add(spare, bias, out=wide[: part.stop - first]), spare
