"""Mask-predict: all symbols in parallel, then the least probable ones again, several times."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_suite.common.types import Batch
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.options.strategies import MaskPredictOptions
from seq2seq_suite.strategies.parallel.glancing import random_part
from seq2seq_suite.strategies.parallel.length_head import LengthHead, targets_by_position


class MaskPredict(LengthHead):
    """A length head's decoder, trained with a random part of the target in the input, and decoded in several passes.

    Of T symbols n are hidden in training, n uniform in 1 to T. In decoding all are hidden at first; pass i of I writes
    the hidden ones, then hides the T (I - i) / I least probable of all again.

    Source: Ghazvininejad et al. 2019, sections 2.2 and 3.
    Differs: a hidden position's input is the copied source, not the embedding of a mask symbol.
    """

    Options = MaskPredictOptions
    uses = (*LengthHead.uses, "iterations")

    def glance(
        self, model: Seq2Seq, memory: Memory, batch: Batch, vectors: Tensor, mask: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        """All but a random number of symbols; in evaluation half of them, always the same."""
        symbols = targets_by_position(batch, mask)
        asked = symbols >= 0
        count = asked.sum(1)
        if not self.training:
            return symbols, asked & (torch.arange(mask.size(1), device=mask.device) % 2 == 1)
        hidden = (torch.rand(count.shape, device=count.device) * count).floor() + 1
        return symbols, asked & ~random_part(asked, hidden)

    def predict_symbols(
        self, model: Seq2Seq, memory: Memory, vectors: Tensor, mask: Tensor, options: SearchOptions
    ) -> Tensor:
        """Decodes in `iterations` passes; the scores are those of each position's last prediction."""
        known, lengths = torch.zeros_like(mask), mask.sum(1)
        symbols, scores = torch.zeros_like(mask, dtype=torch.int64), vectors.new_zeros(())
        for step in range(1, options.iterations + 1):
            hidden = self.run_decoder(model, memory, vectors, mask, symbols, known)
            found = self.output_log_probs(model, memory, hidden)
            scores = torch.where(known.unsqueeze(2), scores, found)
            gained, symbols = scores.max(-1)
            again = (lengths * (options.iterations - step) / options.iterations).floor()
            order = gained.masked_fill(~mask, 1.0).argsort(1).argsort(1)  # padding, above any log-probability, last
            known = mask & (order >= again.unsqueeze(1))
        return scores
