"""From hidden states to symbols: logits, and the losses that are made of them.

Letters in this module: N positions, without padding; D width, V symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import UNLIKELY
from seq2seq_suite.model.variants.factorised import FactorisedEmbedding


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    label_smoothing: float = 0.0,
    row_weights: Tensor | None = None,
) -> Tensor:
    """-(1 - e) log p(y) - e / V sum_v log p(v) with p = softmax(h W^T + b), summed, in float32.

    Args:
        hidden: (N,D).
        weight, bias: (V,D) and (V,).
        targets: (N,) int64.
        label_smoothing: e.
        row_weights: (N,) float32, of the positions in the sum; None: 1.

    Source: Szegedy et al. 2016, section 7.
    """
    loss = functional.cross_entropy(
        functional.linear(hidden, weight, bias).float(),
        targets,
        reduction="sum" if row_weights is None else "none",
        label_smoothing=label_smoothing,
    )
    return loss if row_weights is None else (loss * row_weights).sum()


def gather_log_probs(hidden: Tensor, weight: Tensor, bias: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log p of the given symbols at each position, and the position's likeliest symbol.

    Args:
        hidden: (N,D).
        weight, bias: (V,D) and (V,).
        symbols: (N,K) int64.

    Returns:
        (N,K) float32, (N,) int64 and that symbol's log p (N,) float32, detached.
    """
    log_probs = functional.linear(hidden, weight, bias).float().log_softmax(-1)
    highest, likeliest = log_probs.detach().max(-1)
    return log_probs.gather(1, symbols), likeliest, highest


class LogitTerm(Protocol):
    """A term added to the logits of B sentences: tensors, and how hidden states are added to them."""

    def __call__(self, hidden: Tensor) -> Tensor:
        """(N,T,V) of hidden states (N,T,D), N a multiple of B, a sentence's rows side by side."""
        raise NotImplementedError

    def select(self, sentences: Tensor) -> LogitTerm:
        """That of the given sentences, (B',) int64."""
        raise NotImplementedError


class OutputLayer(nn.Module):
    """logits = h W^T + b, W tied to an embedding or its own.

    Tied to a factorised embedding, W = T P^T: hidden states are projected to the narrow width first, in
    which all symbols are compared.

    Source: Press & Wolf 2017 for tying.
    """

    def __init__(self, width: int, num_symbols: int, *, tied: nn.Embedding | FactorisedEmbedding | None = None):
        super().__init__()
        self.projection = tied.projection if isinstance(tied, FactorisedEmbedding) else None
        self.weight = tied.weight if tied is not None else nn.Parameter(torch.empty(num_symbols, width))
        if tied is None:
            nn.init.normal_(self.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.zeros(num_symbols))
        self.sum_cross_entropy, self.pick_log_probs = cross_entropy, gather_log_probs

    def forward(self, hidden: Tensor) -> Tensor:
        """(...,D) -> (...,V)."""
        return functional.linear(self.narrow(hidden), self.weight, self.bias)

    def cross_entropy(
        self, hidden: Tensor, targets: Tensor, label_smoothing: float = 0.0, row_weights: Tensor | None = None
    ) -> Tensor:
        """`cross_entropy` of this layer's symbols."""
        return self.sum_cross_entropy(
            self.narrow(hidden), self.weight, self.bias, targets, label_smoothing, row_weights
        )

    def gather_log_probs(
        self, hidden: Tensor, symbols: Tensor, *, never: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`gather_log_probs` of this layer's symbols; the logits of those in `never` are `UNLIKELY`."""
        bias = self.bias
        if never:
            bias = bias.index_fill(0, torch.tensor(never, device=bias.device), UNLIKELY)
        return self.pick_log_probs(self.narrow(hidden), self.weight, bias, symbols)

    def narrow(self, hidden: Tensor) -> Tensor:
        """Hidden states (...,D) in the width of W."""
        return hidden if self.projection is None else functional.linear(hidden, self.projection.t())
