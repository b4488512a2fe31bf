"""Embeddings that are the product of two matrices."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class FactorisedEmbedding(nn.Module):
    """x -> P T[x]: a narrow vector for each symbol, all brought to the model's width by one matrix.

    V E + E D numbers instead of V D. A tied output layer shares both factors: its logits are T (P^T h).

    Source: Lan et al. 2020 (ALBERT), section 3.1.

    Args:
        size: V.
        width: D.
        narrow_width: E, less than D.
        padding_idx: a symbol whose vector is zero and stays so; None for none.
    """

    def __init__(self, size: int, width: int, narrow_width: int, *, padding_idx: int | None = None):
        super().__init__()
        self.embedding_dim = width
        self.table = nn.Embedding(size, narrow_width, padding_idx=padding_idx)
        # A bare parameter: it belongs to the embedding, not to the matrices between hidden states.
        self.projection = nn.Parameter(
            nn.init.normal_(self.table.weight.new_empty(width, narrow_width), std=width**-0.5)
        )

    @property
    def weight(self) -> Tensor:
        """(V,E) T."""
        return self.table.weight

    def forward(self, symbols: Tensor) -> Tensor:
        """symbols (...) int64 -> (...,D)."""
        return functional.linear(self.table(symbols), self.projection)
