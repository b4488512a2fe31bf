"""Glancing: training reveals a part of the target to a parallel decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2seq_suite.common.types import Batch

if TYPE_CHECKING:
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.strategies import Ratios
    from seq2seq_suite.strategies.parallel.base import Parallel


def ratio_at(ratios: Ratios, fraction_done: float) -> float:
    """The ratio when that share of the training is over.

    >>> ratio_at((0.5, 0.3), 0.5)
    0.4
    """
    return ratios[0] + (ratios[1] - ratios[0]) * fraction_done


def glance(
    strategy: Parallel, model: Seq2Seq, memory: Memory, batch: Batch, vectors: Tensor, mask: Tensor
) -> tuple[Tensor | None, Tensor]:
    """Symbols to show and where, of a first pass over vectors (B,C,D); see `Parallel.glance`.

    Of the symbols on the alignment with the target, ratio times as many as the model misses are put into the
    decoder's input, at random places.

    Source: Qian et al. 2021 (Glancing Transformer), section 3.1; over CTC's and the graph's best alignment as in
    Gu & Kong 2021 and Huang et al. 2022.
    """
    if not any(strategy.options.glancing) or not strategy.training:
        return None, torch.zeros_like(mask)
    # The same dropout in both passes: the code after this block starts with the same random state.
    devices = [vectors.device] if vectors.device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices):
        hidden = strategy.run_decoder(model, memory, vectors, mask)
        symbols, likeliest = strategy.alignment(model, memory, batch, hidden, mask)
        missed = (likeliest != symbols) & (symbols >= 0)
        ratio = ratio_at(strategy.options.glancing, strategy.fraction_done)
        return symbols, random_part(symbols >= 0, (ratio * missed.sum(1)).round())


def random_part(asked: Tensor, counts: Tensor) -> Tensor:
    """(B,C) bool, `counts` (B,) random places of each row of `asked` (B,C) bool, all of them where it has fewer.

    >>> random_part(torch.tensor([[True, False, True], [True, True, True]]), torch.tensor([2, 0])).tolist()
    [[True, False, True], [False, False, False]]
    """
    keys = torch.rand(asked.shape, device=asked.device).masked_fill(~asked, 2.0)
    return (keys.argsort(1).argsort(1) < counts.unsqueeze(1)) & asked
