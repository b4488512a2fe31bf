"""Log-probabilities of given symbols at each position of a parallel decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2seq_suite.common.types import places

if TYPE_CHECKING:
    from seq2seq_suite.common.types import Batch
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq


def gather_log_probs(
    model: Seq2Seq, hidden: Tensor, memory: Memory, symbols: Tensor, mask: Tensor, *, never: Sequence[int] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """log p of a row's symbols at each of its positions, and the likeliest symbol there.

    Args:
        model: that the hidden states are of.
        hidden: (N,C,D).
        memory: that they come from.
        symbols: (N,K) int64, the same ones at all positions of a row.
        mask: (N,C) bool, True for the positions that count.
        never: symbols that are not to be the likeliest.

    Returns:
        (N,C,K) float32, (N,C) int64 and that symbol's log p (N,C) float32, from which nothing is learned; all 0
        where the mask is False.
    """
    packs = mask.device.type == "cpu"  # elsewhere the number of real positions would need a synchronisation
    asked = places(mask) if packs else torch.arange(mask.numel(), device=mask.device)
    symbols = symbols.index_select(0, asked // mask.size(1))
    found = model.gather_log_probs(hidden, memory, asked, symbols, never=never)
    if not packs:
        scores, best, gained = (
            part.unflatten(0, mask.shape).masked_fill(~mask.view(*mask.shape, *[1] * (part.dim() - 1)), 0)
            for part in found
        )
    else:
        scores, best, gained = (
            part.new_zeros(mask.numel(), *part.shape[1:]).index_copy(0, asked, part).unflatten(0, mask.shape)
            for part in found
        )
    return scores, best, gained


def likeliest(model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor) -> Tensor:
    """(B,C) int64, the likeliest symbol at each real position `mask` (B,C) of hidden states (B,C,D)."""
    return gather_log_probs(model, hidden, memory, batch.target[:, :1], mask)[1]
