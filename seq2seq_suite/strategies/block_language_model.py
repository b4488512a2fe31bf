"""A language model by blocks: masked diffusion of texts, which are judged by the bound on their log-probability."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_suite.common.types import Batch, Constraint, Hypothesis
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.blocks import Blocks
from seq2seq_suite.strategies.language_model import LanguageModel


class BlockLanguageModel(LanguageModel, Blocks):
    """`Blocks` without a source.

    `search.order` verified and blocks of one symbol judge a text from left to right, exactly; the other orders by the
    mean of some draws of the bound, which is what its log-probability is at least.
    """

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
        """See `LanguageModel.generate`."""
        asked = batch.target_mask & ~batch.given
        if self.is_exact(options) or not bool(asked.any()):
            return super().generate(model, batch, options=options, limit=limit, constraint=constraint)
        terms = -self.bound(model, batch, options).mean(0)
        found = []
        for each, target, real, counted in zip(terms, batch.target, batch.target_mask, asked, strict=True):
            details = {"log_probs": tuple(each[counted].tolist())}
            found.append([Hypothesis(tuple(target[real].tolist()), float(each.sum()), details=details)])
        return found
