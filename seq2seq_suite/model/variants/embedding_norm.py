"""A norm between the embeddings and the first layer."""

from __future__ import annotations

from torch import Tensor, nn


class NormedPositions(nn.Module):
    """h_0 = Norm(x + P): the sum of embeddings and positions, normalised.

    Source: Lewis et al. 2020 (BART), section 2.1, whose `layernorm_embedding` is that of BERT, Devlin et al. 2019.

    Args:
        positions: adds P, or nothing.
        norm: of width D.
    """

    def __init__(self, positions: nn.Module, norm: nn.Module):
        super().__init__()
        self.positions, self.norm = positions, norm

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        """x (B,T,D), whose first column is at position `offset`, a number or one for each row (B,) -> (B,T,D)."""
        return self.norm(self.positions(x, offset))
