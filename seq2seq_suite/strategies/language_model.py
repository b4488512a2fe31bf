"""A language model: scores texts, and continues prefixes."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import Batch, Constraint, Hypothesis
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.autoregressive import shift_right


class LanguageModel(Assisted):
    """p(y) = prod_t p(y_t | y_<t), without a source.

    Learned as any autoregressive target is; `generate` has two uses, by `Batch.given`.
    """

    writes = ("continuations",)

    @torch.inference_mode()
    def generate(
        self,
        model: Seq2Seq,
        batch: Batch,
        *,
        options: SearchOptions,
        limit: Tensor,
        constraint: Constraint | None = None,
    ) -> list[list[Hypothesis]]:
        """The targets with their log-probabilities, or continuations of those that are given as a whole.

        A continuation has only the new symbols, at most `limit`.
        """
        asked = batch.target_mask & ~batch.given
        if bool(asked.any()):
            return self._judged(model, batch, asked)
        # Prefixes of one length are batched, so that no search has padding.
        lengths, found = batch.target_mask.sum(1), [[] for _ in range(limit.size(0))]
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero().squeeze(1)
            part = batch.select(rows.tolist())
            part = replace(
                part,
                target=part.target[:, :length],
                target_mask=part.target_mask[:, :length],
                given=part.given[:, :length],
            )
            continued = super().generate(model, part, options=options, limit=limit[rows], constraint=constraint)
            for row, hypotheses in zip(rows.tolist(), continued, strict=True):
                found[row] = hypotheses
        return found

    def _judged(self, model: Seq2Seq, batch: Batch, asked: Tensor) -> list[list[Hypothesis]]:
        memory = model.prepare(model.encode(batch))
        hidden = self._hidden(model, batch, memory, shift_right(batch.target))
        found = []
        for states, target, real, counted in zip(hidden, batch.target, batch.target_mask, asked, strict=True):
            # A text at a time: the logits of all of them would not fit.
            logits = model.logits(states[counted].unsqueeze(0), memory).squeeze(0).float()
            each = -functional.cross_entropy(logits, target[counted], reduction="none")
            found.append(
                [
                    Hypothesis(
                        tuple(target[real].tolist()), float(each.sum()), details={"log_probs": tuple(each.tolist())}
                    )
                ]
            )
        return found
