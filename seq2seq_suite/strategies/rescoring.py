"""What an autoregressive model thinks of outputs that another decoder wrote: one parallel pass over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from seq2seq_suite.common.types import END, PAD, Batch, Hypothesis
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import shift_right
from seq2seq_suite.strategies.learner import Learner


@torch.inference_mode()
def rescore(
    learner: Learner, batch: Batch, candidates: Sequence[list[Hypothesis]], *, options: SearchOptions
) -> list[list[Hypothesis]]:
    """The candidates of each sentence with the model's scores, best first.

    Args:
        learner: autoregressive, of the same symbols, in evaluation mode.
        batch: the sentences.
        candidates: outputs of each sentence.
        options: whose length penalty the score is normalised with.

    Source: Gu et al. 2018, section 3.3 (noisy parallel decoding).
    """
    most = max((len(found) for found in candidates), default=0)
    if not most:
        return [list(found) for found in candidates]
    rows = [found[min(place, len(found) - 1)].symbols if found else () for found in candidates for place in range(most)]
    longest = max(map(len, rows)) + 1
    device = batch.source_mask.device
    target = torch.tensor([[*row, END, *[PAD] * (longest - 1 - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) + 1 for row in rows], device=device)
    mask = torch.arange(longest, device=device) < lengths.unsqueeze(1)
    model, memory = learner.model, learner.strategy.encode_source(learner.model, batch)
    x = model.embed(shift_right(target), memory)
    hidden, _ = model.decode(x, causal(longest, device=device), memory)
    scores = model.logits(hidden, memory).float().log_softmax(-1).gather(2, target.unsqueeze(2)).squeeze(2)
    totals = options.normalise(scores.masked_fill(~mask, 0.0).sum(1), lengths).view(-1, most).tolist()
    return [
        sorted((replace(one, score=score) for one, score in zip(found, row, strict=False)), key=lambda one: -one.score)
        for found, row in zip(candidates, totals, strict=True)
    ]
