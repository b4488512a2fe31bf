"""The complete outputs that a batched search has found so far."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, NEVER, Hypothesis, PerRow


@dataclass(frozen=True)
class FinishedBeams(PerRow):
    """The best k complete outputs of each of B sentences.

    Args:
        scores: (B,k), -inf where there are fewer.
        symbols: (B,k,L) int64, END behind each output.
        lengths: (B,k) int64, END not counted.
        complete: (B,k) bool, False where the length limit forced END.
    """

    scores: Tensor
    symbols: Tensor
    lengths: Tensor
    complete: Tensor

    @staticmethod
    def empty(sentences: int, beams: int, longest: int, device: torch.device) -> FinishedBeams:
        """None found yet, and room for outputs of `longest` symbols."""
        return FinishedBeams(
            torch.full((sentences, beams), NEVER, device=device),
            torch.full((sentences, beams, longest), END, device=device),
            torch.zeros(sentences, beams, dtype=torch.int64, device=device),
            torch.zeros(sentences, beams, dtype=torch.bool, device=device),
        )

    def merge(self, scores: Tensor, history: Tensor, complete: Tensor, length: Tensor | None = None) -> FinishedBeams:
        """The best k of these and of candidates with scores (B,c), symbols (B,c,t) and `length` (1,), t if None."""
        beams, width = self.scores.size(1), history.size(2)
        best, place = torch.cat((self.scores, scores), 1).topk(beams, 1)
        padded = self.symbols.new_full((*history.shape[:2], self.symbols.size(2)), END)
        padded[:, :, :width] = history
        symbols = torch.cat((self.symbols, padded), 1)
        lengths = torch.full_like(scores, width, dtype=torch.int64) if length is None else length.expand(scores.shape)
        lengths = torch.cat((self.lengths, lengths), 1)
        flags = torch.cat((self.complete, complete), 1)
        return FinishedBeams(
            best,
            symbols.gather(1, place.unsqueeze(2).expand(-1, -1, symbols.size(2))),
            lengths.gather(1, place),
            flags.gather(1, place),
        )

    def hypotheses(self, count: int) -> list[list[Hypothesis]]:
        """The best of each sentence."""
        parts = (part.tolist() for part in (self.symbols, self.lengths, self.scores, self.complete))
        return [
            [
                Hypothesis(tuple(symbols[:length]), score, complete)
                for symbols, length, score, complete in zip(*found, strict=True)
                if score > NEVER
            ][:count]
            for found in zip(*parts, strict=True)
        ]
