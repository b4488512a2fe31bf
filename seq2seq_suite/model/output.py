"""From hidden states to symbols: logits, and cross-entropy without ever holding all logits at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.model.embeddings import FactorisedEmbedding

UNLIKELY = -1e4  # logit of what is not to be written, unless an automaton leaves nothing else
_CHUNK_ELEMENTS = 2**21  # logits held at a time: 8 MiB in float32
_PACKED_SYMBOLS = 2_000  # below, a step of search gains less than the packed product costs to call


class OutputLayer(nn.Module):
    """logits = h W^T + b, W tied to an embedding or its own.

    Tied to a factorised embedding, W = T P^T: hidden states become narrow first, and all that is done for each symbol
    is done with vectors of that width.

    Source: Press & Wolf 2017 for tying.
    """

    def __init__(self, width: int, num_symbols: int, *, tied: nn.Embedding | FactorisedEmbedding | None = None):
        super().__init__()
        self.projection = tied.projection if isinstance(tied, FactorisedEmbedding) else None
        self.weight = tied.weight if tied is not None else nn.Parameter(torch.empty(num_symbols, width))
        if tied is None:
            nn.init.normal_(self.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.zeros(num_symbols))

    def forward(self, hidden: Tensor, packed: Tensor | None = None) -> Tensor:
        """(..., D) -> (..., V), by the weight as `pack` gave it if it is given."""
        hidden = self._narrow(hidden)
        if packed is None:
            return functional.linear(hidden, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(hidden, packed, self.bias, "none", [], "")

    def pack(self) -> Tensor | None:
        """The weight as oneDNN's kernels like it, for the many steps of one search; None where it would not pay.

        PyTorch's own float32 product of few rows reads a large weight at half the speed, above all on AMD: a step of
        greedy search over 64 rows and 8,000 symbols takes an eighth less time with it. Packing costs as much as a
        few steps gain, so that it is done for each batch anew and can never be out of date.
        """
        weight = self.weight
        if (weight.size(0) < _PACKED_SYMBOLS or weight.device.type != "cpu" or weight.dtype != torch.float32
                or not torch.is_inference_mode_enabled() or torch.is_autocast_enabled("cpu")
                or not torch.backends.mkldnn.is_available()):
            return None
        return torch.ops.mkldnn._reorder_linear_weight(weight)

    def cross_entropy(self, hidden: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Summed cross-entropy with smoothed labels, in float32.

        -(1 - e) log p(y) - e / V sum_v log p(v)

        Args:
            hidden: (N,D), padding already taken out.
            targets: (N,) int64.
            label_smoothing: e.

        Source: Szegedy et al. 2016, section 7.
        """
        return linear_cross_entropy(self._narrow(hidden), self.weight, self.bias, targets, label_smoothing)

    def choose(self, hidden: Tensor, symbols: Tensor, *, never: Sequence[int] = ()) -> tuple[Tensor, Tensor, Tensor]:
        """log p of the given symbols at each row, and the row's likeliest symbol.

        Args:
            hidden: (N,D), padding already taken out.
            symbols: (N,K) int64.
            never: symbols whose logits are `UNLIKELY`.

        Returns:
            (N,K) float32, (N,) int64 and that symbol's log p (N,) float32, from which nothing is learned.
        """
        bias = self.bias
        if never:
            bias = bias.index_fill(0, torch.tensor(never, device=bias.device), UNLIKELY)
        return linear_choice(self._narrow(hidden), self.weight, bias, symbols)

    def _narrow(self, hidden: Tensor) -> Tensor:
        return hidden if self.projection is None else functional.linear(hidden, self.projection.t())


class Labeller(nn.Module):
    """Auxiliary labels of source positions, a linear layer for each kind: they teach the encoder directly.

    Args:
        width: D.
        kinds: (name, classes) of each kind, in the order of the columns of `Batch.source_labels`.
    """

    def __init__(self, width: int, kinds: tuple[tuple[str, int], ...]):
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(width, classes) for name, classes in kinds})

    def losses(self, states: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Summed cross-entropy of each kind, float32; states (B,S,D), labels (B,S,L) with -1 for none."""
        return {name: functional.cross_entropy(head(states).float().flatten(0, 1), labels[..., place].flatten(),
                                               ignore_index=-1, reduction="sum")
                for place, (name, head) in enumerate(self.heads.items())}

    def counts(self, labels: Tensor) -> dict[str, int]:
        """How many labels of each kind there are in (B,S,L)."""
        found = (labels >= 0).flatten(0, 1).sum(0).tolist()
        return dict(zip(self.heads, found, strict=True))

    def forward(self, states: Tensor) -> Tensor:
        """The likeliest label of the first kind, (B,S,D) -> (B,S) int64."""
        return next(iter(self.heads.values()))(states).argmax(-1)


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor,
                         label_smoothing: float = 0.0) -> Tensor:
    """`cross_entropy(hidden @ weight.T + bias, targets, reduction="sum")`, chunk by chunk.

    The gradient of a chunk's logits is formed while they are still in the cache, so that the backward pass only
    scales what is there: less memory, and about a quarter of the time at 8,000 symbols.
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
            count, symbols, share = targets.size(0), weight.size(0), smoothing / weight.size(0)
            low_weight, low_hidden, bias_float = weight.to(cast), hidden.to(cast), bias.float()
            rows = max(1, min(count, _CHUNK_ELEMENTS // symbols))
            buffer = hidden.new_empty(rows, symbols, dtype=torch.float32)
            low_buffer = None if cast == torch.float32 else buffer.to(cast)
            grad_hidden = torch.empty_like(hidden) if needs_gradient else None
            grad_weight = torch.zeros_like(weight) if needs_gradient else None
            grad_bias = torch.zeros_like(bias_float) if needs_gradient else None
            hidden_sum, weight_sum = hidden.sum(0, dtype=torch.float32), weight.sum(0, dtype=torch.float32)
            total = -share * (hidden_sum @ weight_sum + count * bias_float.sum())
            for first in range(0, count, rows):
                part = slice(first, min(first + rows, count))
                target = targets[part, None]
                values = buffer[: target.size(0)]
                low_values = values if low_buffer is None else low_buffer[: target.size(0)]
                torch.mm(low_hidden[part], low_weight.t(), out=low_values)
                values.copy_(low_values).add_(bias_float)
                largest = values.amax(1, keepdim=True)
                chosen = values.gather(1, target)
                mass = values.sub_(largest).exp_().sum(1, keepdim=True)
                total += (largest + mass.log() - (1.0 - smoothing) * chosen).sum()
                if not needs_gradient:
                    continue
                values.scatter_add_(1, target, (smoothing - 1.0) * mass)
                low_values.copy_(values)
                grad_hidden[part] = (low_values @ low_weight) / mass - share * weight_sum
                weighted = (hidden[part] / mass).to(cast)
                if cast == grad_weight.dtype:  # without a temporary of the weight's size for each chunk
                    grad_weight.addmm_(low_values.t(), weighted)
                else:
                    grad_weight += low_values.t() @ weighted
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


def linear_choice(hidden: Tensor, weight: Tensor, bias: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`log_softmax(hidden @ weight.T + bias)` gathered at `symbols`, its argmax and its maximum, chunk by chunk.

    For losses that ask about few symbols at many positions (CTC, paths through a graph): the logits of a chunk are
    made twice, forwards and backwards, and never leave the cache.
    """
    return _LinearChoice.apply(hidden, weight, bias, symbols)


class _LinearChoice(torch.autograd.Function):
    """With z the logits of a row, Z = sum_v exp(z_v), s_k = z_(y_k) - log Z and the slopes g_k = dL/ds_k:

        dL/dz = sum_k g_k [v = y_k] - (sum_k g_k) exp(z - log Z)
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, symbols):
        """See `linear_choice`: hidden (N,D), weight (V,D), bias (V,), symbols (N,K)."""
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
                grad_hidden[part] = low @ low_weight
                grad_weight += low.t() @ hidden[part].to(ctx.cast)
                grad_bias += values.sum(0)
        return grad_hidden, grad_weight, grad_bias, None


def _compute_type(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def _logit_chunks(hidden: Tensor, weight: Tensor, bias: Tensor, cast: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
    """Logits (n,V) float32 of a few rows at a time, in one buffer that may be written to, and which rows they are."""
    count, symbols = hidden.size(0), weight.size(0)
    with torch.autocast(hidden.device.type, enabled=False):
        low_hidden, low_weight = hidden.to(cast), weight.to(cast).t()
        rows = max(1, min(count, _CHUNK_ELEMENTS // symbols))
        buffer = hidden.new_empty(rows, symbols, dtype=torch.float32)
        low_buffer = None if cast == torch.float32 else buffer.to(cast)
        for first in range(0, count, rows):
            part = slice(first, min(first + rows, count))
            values = buffer[: part.stop - first]
            if low_buffer is None:
                torch.mm(low_hidden[part], low_weight, out=values)
            else:
                values.copy_(torch.mm(low_hidden[part], low_weight, out=low_buffer[: part.stop - first]))
            yield part, values.add_(bias)
