"""Drawing symbols instead of taking the likeliest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2seq_suite.common.types import NEVER

if TYPE_CHECKING:
    from seq2seq_suite.options.search import Search as SearchOptions


def sample(log_probabilities: Tensor, options: SearchOptions) -> Tensor:
    """One symbol a row from the tempered, truncated distribution.

    Source: Fan et al. 2018 (top-k); Holtzman et al. 2020 (top-p: the fewest symbols whose mass reaches p).
    """
    logits = log_probabilities / options.temperature
    if options.top_k:
        smallest = logits.topk(min(options.top_k, logits.size(-1)), -1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, NEVER)
    if options.top_p < 1.0:
        ordered, order = logits.sort(-1, descending=True)
        probabilities = ordered.softmax(-1)
        beyond = probabilities.cumsum(-1) - probabilities >= options.top_p
        logits = logits.masked_fill(torch.zeros_like(beyond).scatter_(1, order, beyond), NEVER)
    return torch.multinomial(logits.softmax(-1), 1).squeeze(1)
