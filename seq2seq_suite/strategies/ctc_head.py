"""Connectionist temporal classification: a distribution over symbols and the blank at each encoder position."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import BLANK, States


class CtcHead(nn.Module):
    """p(y | x) = sum over all paths that collapse to y of prod_t p(path_t | x_t).

    A path collapses by merging repeated symbols, then dropping blanks. A transcript needs a position for each symbol
    and one more between equal neighbours; where there are too few, its loss and gradient are 0.

    Source: Graves et al. 2006, eq. 3.

    Args:
        width: D.
        num_symbols: V, the blank (`BLANK`) among them.
    """

    def __init__(self, width: int, num_symbols: int):
        super().__init__()
        self.linear = nn.Linear(width, num_symbols)

    def forward(self, states: States) -> Tensor:
        """(B,S',V) log-probabilities, float32; beyond an item's end the blank is certain."""
        scores = self.linear(states.values).float().log_softmax(-1)
        certain = torch.full_like(scores[:1, :1], float("-inf"))
        certain[..., BLANK] = 0.0
        return torch.where(states.mask.unsqueeze(2), scores, certain)

    def paths(self, states: States, transcript: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The arguments of `ctc.path_loss` for transcripts (B,U), padded with `BLANK`."""
        scores = self.linear(states.values).float().log_softmax(-1)
        own = path_symbols(transcript).unsqueeze(1).expand(-1, scores.size(1), -1)
        return scores.gather(2, own), states.mask.sum(1), transcript, (transcript != BLANK).sum(1)

    def loss(self, states: States, transcript: Tensor) -> Tensor:
        """Summed -log p(y | x), float32; transcript (B,U) int64, padded with `BLANK`."""
        scores = self.linear(states.values).float().log_softmax(-1)
        return functional.ctc_loss(
            scores.transpose(0, 1),
            transcript,
            states.mask.sum(1),
            (transcript != BLANK).sum(1),
            blank=BLANK,
            reduction="sum",
            zero_infinity=True,
        )


def path_symbols(target: Tensor) -> Tensor:
    """(B,1+U) the symbols on the paths of a target (B,U): the blank, then its symbols."""
    return functional.pad(target, (1, 0), value=BLANK)


def positions_needed(symbols: Tensor) -> Tensor:
    """How many encoder positions CTC needs for transcripts (B,U) padded with `BLANK`.

    >>> positions_needed(torch.tensor([[7, 7, 8, 0], [7, 8, 9, 9]])).tolist()
    [4, 5]
    """
    repeated = (symbols[:, 1:] == symbols[:, :-1]) & (symbols[:, 1:] != BLANK)
    return (symbols != BLANK).sum(1) + repeated.sum(1)
