"""A grid of slots over a picture, each of which will write one object."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.model.picture import plane
from seq2seq_suite.types import States

GROUP = 5  # symbols of an object


class Slots(nn.Module):
    """One vector for each slot, out of the part of the picture that it lies over; one for each symbol out of each.

        in:  mean of the encoder's vectors in the slot's rectangle + position in the plane
        out: h_j = W_j h + b_j for the symbols j of a group

    Args:
        width: D.
        grid: rows and columns of slots.
        picture_rows: rows of the encoder's positions, which come row by row.
    """

    def __init__(self, width: int, grid: tuple[int, int], picture_rows: int):
        super().__init__()
        self.grid, self.picture_rows = grid, picture_rows
        self.symbols = nn.Linear(width, GROUP * width)
        self.register_buffer("places", plane(*grid, width), persistent=False)

    def forward(self, states: States) -> Tensor:
        """The decoder's input (B,N,D) of N slots."""
        cells = states.values.transpose(1, 2).unflatten(2, (self.picture_rows, -1))
        return functional.adaptive_avg_pool2d(cells, self.grid).flatten(2).transpose(1, 2) + self.places

    def groups(self, hidden: Tensor) -> Tensor:
        """(B,N,D) -> (B,N,5,D)."""
        return self.symbols(hidden).unflatten(2, (GROUP, -1))
