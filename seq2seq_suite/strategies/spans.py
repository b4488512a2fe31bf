"""Which spans of a sentence are brackets: learned by the encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import Batch, States
from seq2seq_suite.strategies.auxiliary import Auxiliary

_HIDDEN = 256


class SpanHead(nn.Module):
    """Log-odds that a span is a bracket.

    A span from i to j is read from its ends and their neighbours, f_(i-1), b_i, f_j and b_(j+1), where f and b are the
    halves of a position's vector, through one hidden layer.

    Source: Kitaev & Klein 2018, section 2 and equation 3, with weights for each of the four in place of differences.
    """

    def __init__(self, width: int):
        super().__init__()
        self.first, self.last = nn.Linear(width, _HIDDEN), nn.Linear(width, _HIDDEN, bias=False)
        self.norm, self.output = nn.LayerNorm(_HIDDEN), nn.Linear(_HIDDEN, 1)

    def forward(self, states: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """(B,P) of the spans from `first` (P,) to `last` (P,) of encoded sentences (B,S,D)."""
        before, after = states.chunk(2, -1)
        starts = self.first(torch.cat((functional.pad(before[:, :-1], (0, 0, 1, 0)), after), -1))
        ends = self.last(torch.cat((before, functional.pad(after[:, 1:], (0, 0, 0, 1))), -1))
        pairs = starts.index_select(1, first) + ends.index_select(1, last)
        return self.output(functional.relu(self.norm(pairs))).squeeze(-1)


class Spans(Auxiliary):
    """Each span between the sentinels of a sentence: whether it is one of (B,K,2) int64, first and last position, -1
    for none."""

    head: SpanHead

    def count(self, batch: Batch) -> Tensor:
        """Brackets."""
        return (batch.auxiliary[self.name][..., 0] >= 0).sum()

    def loss(self, states: States, batch: Batch) -> Tensor:
        """Binary cross-entropy."""
        first, last, inside = _spans(states.mask)
        brackets, size = batch.auxiliary[self.name], states.mask.size(1)
        start, end = brackets.unbind(-1)
        place = torch.where(start < 0, len(first), start * size - start * (start - 1) // 2 + end - start)
        gold = states.values.new_zeros(len(start), len(first) + 1, dtype=torch.float32).scatter(1, place, 1.0)
        odds = self.head(states.values, first, last).float()
        return functional.binary_cross_entropy_with_logits(odds, gold[:, :-1], inside.float(), reduction="sum")


def _spans(mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First and last positions (P,) of all spans, and which are of words, (B,P); a sentinel stands at both ends."""
    first, last = torch.triu_indices(mask.size(1), mask.size(1), device=mask.device)
    followed = functional.pad(mask[:, 1:], (0, 1))
    return first, last, followed.index_select(1, last) & (first > 0)
