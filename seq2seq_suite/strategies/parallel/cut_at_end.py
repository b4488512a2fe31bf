"""A long output in parallel; everything after the first END is ignored."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import END, Batch, Constraint, Distributions, Hypothesis, Loss, States
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.options.strategies import CutAtEndOptions
from seq2seq_suite.strategies.parallel.base import Aligned
from seq2seq_suite.strategies.parallel.constrained import constrained_argmax
from seq2seq_suite.strategies.parallel.log_probs import likeliest

_END_WEIGHT = 0.1  # in the loss, of END after the first one


class CutAtEnd(Aligned):
    """A long output; everything after the first END is ignored.

    Nothing aligns the symbols: after one too many or too few, all later positions are wrong. This is the
    multi-modality problem in its simplest form, and the reason for the other strategies.
    """

    Options = CutAtEndOptions
    options: CutAtEndOptions
    writes = ("text", "structures", "labels")

    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """Symbols with END; the positions after it count as much in all."""
        count = batch.target_mask.sum()
        return {"cross_entropy": count, "after_end": count}

    def decoder_length(self, states: States, batch: Batch) -> Tensor:
        """C of each row."""
        return self.options.room(states.mask.sum(1))

    def own_loss(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor, revealed: Tensor
    ) -> Loss:
        """Cross-entropy of symbols and the first END that were not revealed; of END after it."""
        target = _with_ends(batch, mask)
        place = torch.arange(mask.size(1), device=mask.device)
        inside = mask & (place < batch.target_mask.sum(1, keepdim=True))
        symbols, smoothing = target.clamp(min=0), self.options.label_smoothing
        asked = inside & ~revealed
        own, after = _places(asked, mask & ~inside & ~revealed)
        sums = {
            "cross_entropy": model.cross_entropy(hidden, memory, symbols, own, smoothing),
            "after_end": model.cross_entropy(hidden, memory, symbols, after),
        }
        judged = Distributions("cross_entropy", partial(model.logits, hidden, memory), asked)
        return Loss(sums, self.own_counts(batch), {"cross_entropy": 1.0, "after_end": _END_WEIGHT}, (judged,))

    def alignment(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Position t has symbol t, then END."""
        return _with_ends(batch, mask), likeliest(model, memory, batch, hidden, mask)

    def predict(
        self,
        model: Seq2Seq,
        batch: Batch,
        states: States,
        memory: Memory,
        *,
        options: SearchOptions,
        limit: Tensor,
        constraint: Constraint | None,
    ) -> list[list[Hypothesis]]:
        """The likeliest symbol of each position, up to END; without END the output is truncated."""
        lengths = torch.minimum(self.decoder_length(states, batch), limit)
        vectors, mask = self.decoder_inputs(model, memory, batch, lengths)
        hidden = self.run_decoder(model, memory, vectors, mask)
        scores, lengths = self.output_log_probs(model, memory, hidden), mask.sum(1)
        found = constrained_argmax(constraint, batch, scores, lengths, limit)
        return [
            [Hypothesis(symbols[: most - 1], score, complete)]
            for (symbols, score, complete), most in zip(found, limit.tolist(), strict=True)
        ]


def _places(*masks: Tensor) -> list[Tensor]:
    """(P,) int64 for each of several masks of one shape: where it is True; one device synchronisation in all."""
    found = torch.stack(masks).flatten(1)
    in_order = (~found).to(torch.uint8).argsort(dim=1, stable=True)  # those that are True come first
    return [row[:count] for row, count in zip(in_order, found.sum(1).tolist(), strict=True)]


def _with_ends(batch: Batch, mask: Tensor) -> Tensor:
    """(B,C) the target, END up to the last real position, then -1; mask (B,C)."""
    target = functional.pad(
        batch.target.masked_fill(~batch.target_mask, END), (0, max(0, mask.size(1) - batch.target.size(1))), value=END
    )
    return target[:, : mask.size(1)].masked_fill(~mask, -1)
