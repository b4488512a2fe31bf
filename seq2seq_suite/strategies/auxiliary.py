"""Losses beside the target's own: labels of source positions, a recording's words, the source itself, experts' load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from seq2seq_suite.model.ctc import BLANK
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.types import Batch, Loss, States


@dataclass(frozen=True)
class Auxiliaries:
    """What is learned besides, as far as model and batch have it.

    The load-balance losses of a batch's layers are added up, as in Fedus et al. 2021, section 2.2. Of several batches
    each counts as much as it has target symbols.

    Args:
        label_weights: kind of source labels -> weight in the loss.
        ctc_weight: w, of the transcript's CTC loss; the target's own loss keeps 1 - w.
        balance_weight: of the load-balance loss of layers of experts.
        language_weight: lambda, of foreseeing the source's own symbols.

    Source: Watanabe et al. 2017, eq. 9 (CTC and attention); Radford et al. 2018, eq. 5 (L3 = L2 + lambda L1, here with
    means over symbols).
    """

    label_weights: Mapping[str, float] = field(default_factory=dict)
    ctc_weight: float = 0.0
    balance_weight: float = 0.0
    language_weight: float = 0.0

    def counts(self, model: Seq2Seq, batch: Batch) -> dict[str, int]:
        """The counts that `added` will give."""
        counts = model.labeller.counts(batch.source_labels) if self._has_labels(model, batch) else {}
        if self._has_transcript(model, batch):
            counts["ctc"] = int((batch.transcript != BLANK).sum())
        if model.language is not None:
            counts["language"] = int(batch.source_mask[:, 1:].sum())
        if model.learns_balance():
            counts["balance"] = int(batch.target_mask.sum())
        return counts

    def added(self, loss: Loss, model: Seq2Seq, batch: Batch, states: States) -> Loss:
        """The target's loss with the others; `states` are the encoder's output, and the decoder has read them."""
        sums, weights = dict(loss.sums), dict(loss.weights)
        if self._has_labels(model, batch):
            sums |= model.labeller.losses(states.values, batch.source_labels)
            weights |= self.label_weights
        if self._has_transcript(model, batch):
            sums["ctc"] = model.ctc.loss(states, batch.transcript)
            weights = {name: weight * (1.0 - self.ctc_weight) if name in loss.weights else weight
                       for name, weight in weights.items()} | {"ctc": self.ctc_weight}
        if model.language is not None:
            sums["language"], weights["language"] = model.language_loss(states, batch), self.language_weight
        counts = loss.counts | self.counts(model, batch)
        if model.learns_balance():
            sums["balance"] = counts["balance"] * torch.stack(states.balance).sum()
            weights["balance"] = self.balance_weight
        return Loss(sums, counts, weights)

    def _has_labels(self, model: Seq2Seq, batch: Batch) -> bool:
        return bool(self.label_weights) and model.labeller is not None and batch.source_labels is not None

    def _has_transcript(self, model: Seq2Seq, batch: Batch) -> bool:
        return self.ctc_weight > 0.0 and model.ctc is not None and batch.transcript is not None
