"""Parallel decoders whose position t has symbol t, so that it can read the source where the symbol comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.strategies.parallel.base import Parallel

if TYPE_CHECKING:
    from seq2seq_suite.common.types import Batch
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq


class Aligned(Parallel):
    """A parallel decoder whose guide, where it has one, reads the source positions that each symbol is tied to."""

    def copied(self, model: Seq2Seq, memory: Memory, batch: Batch, lengths: Tensor, most: int = 0
               ) -> tuple[Tensor, Tensor]:
        """As of `Parallel`; of a guide what it reads and nothing else, which is nothing behind the target."""
        vectors, mask = super().copied(model, memory, batch, lengths, most)
        if model.reads:
            focus = functional.pad(batch.auxiliary["focus"], (0, 0, 0, mask.size(1)), value=-1)[:, : mask.size(1)]
            focus = focus.repeat_interleave(len(mask) // len(focus), 0)
            vectors = model.guide(torch.zeros_like(vectors), memory.guide, focus, focus[..., :0])
        return vectors, mask
