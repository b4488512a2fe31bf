"""The complete outputs that a batched search has found so far, and how often it looks whether they are all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, Hypothesis, PerRow
from seq2seq_suite.search.step import NEVER


def patience(device: torch.device) -> int:
    """Steps from one look at what has ended to the next: looks are free on the CPU; elsewhere they wait for it."""
    return 1 if device.type == "cpu" else 8


@dataclass(frozen=True)
class Finished(PerRow):
    """The best complete outputs of each sentence: scores (B,k), symbols (B,k,L), lengths (B,k), uncut (B,k)."""

    scores: Tensor
    symbols: Tensor
    lengths: Tensor
    complete: Tensor

    @staticmethod
    def none(sentences: int, beams: int, longest: int, device: torch.device) -> Finished:
        return Finished(torch.full((sentences, beams), NEVER, device=device),
                         torch.full((sentences, beams, longest), END, device=device),
                         torch.zeros(sentences, beams, dtype=torch.int64, device=device),
                         torch.zeros(sentences, beams, dtype=torch.bool, device=device))

    def merge(self, scores: Tensor, history: Tensor, complete: Tensor, length: Tensor | None = None) -> Finished:
        """With candidates (B,c) of symbols (B,c,t), of which `length` (1,) count, keeping the best k."""
        beams, width = self.scores.size(1), history.size(2)
        best, place = torch.cat((self.scores, scores), 1).topk(beams, 1)
        padded = self.symbols.new_full((*history.shape[:2], self.symbols.size(2)), END)
        padded[:, :, :width] = history
        symbols = torch.cat((self.symbols, padded), 1)
        lengths = torch.full_like(scores, width, dtype=torch.int64) if length is None else length.expand(scores.shape)
        lengths = torch.cat((self.lengths, lengths), 1)
        flags = torch.cat((self.complete, complete), 1)
        return Finished(best, symbols.gather(1, place.unsqueeze(2).expand(-1, -1, symbols.size(2))),
                         lengths.gather(1, place), flags.gather(1, place))

    def hypotheses(self, count: int) -> list[list[Hypothesis]]:
        """The best of each sentence."""
        parts = (part.tolist() for part in (self.symbols, self.lengths, self.scores, self.complete))
        return [[Hypothesis(tuple(symbols[:length]), score, complete)
                 for symbols, length, score, complete in zip(*found, strict=True) if score > NEVER][:count]
                for found in zip(*parts, strict=True)]
