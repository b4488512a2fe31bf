"""How long the output will be, said by the encoder alone, for decoders that write all positions at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.types import States

CLASSES, MIDDLE = 256, 128


class LengthClassifier(nn.Module):
    """p(T | x): a classifier of T - round(r S') on the mean of the encoder's output, T symbols without END.

    Source: Ghazvininejad et al. 2019 (Mask-Predict), section 3.3, with the relative lengths of Gu & Kong 2021.

    Args:
        width: D.
        ratio: r, about how many target symbols there are for an encoder position.
    """

    def __init__(self, width: int, ratio: float):
        super().__init__()
        self.ratio = ratio
        self.linear = nn.Linear(width, CLASSES)

    def forward(self, states: States) -> Tensor:
        """(B,CLASSES) log-probabilities, float32."""
        weight = states.mask.unsqueeze(2).to(states.values.dtype)
        mean = (states.values * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        return self.linear(mean).float().log_softmax(-1)

    def loss(self, states: States, lengths: Tensor) -> Tensor:
        """Summed cross-entropy, float32, of lengths (B,); those too far from r S' count as the farthest class."""
        classes = (lengths - self._expected(states) + MIDDLE).clamp(0, CLASSES - 1)
        return functional.nll_loss(self(states), classes, reduction="sum")

    def likeliest(self, states: States, count: int) -> tuple[Tensor, Tensor]:
        """The `count` likeliest lengths (B,count) int64, at least 1 each, and their log-probabilities."""
        scores = self(states)
        lengths = torch.arange(CLASSES, device=scores.device) - MIDDLE + self._expected(states).unsqueeze(1)
        best, place = scores.masked_fill(lengths < 1, torch.finfo(scores.dtype).min).topk(count, 1)
        return lengths.gather(1, place).clamp(min=1), best

    def _expected(self, states: States) -> Tensor:
        return (states.mask.sum(1) * self.ratio).round().long()
