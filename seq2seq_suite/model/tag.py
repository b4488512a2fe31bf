"""A vector for the task, in joint runs of several tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from seq2seq_suite.model.seq2seq import Seq2Seq

if TYPE_CHECKING:
    from seq2seq_suite.common.types import States


class TaggedSeq2Seq(Seq2Seq):
    """A model with a `tag` (D,), a learned vector that is added to the front-end's output."""

    tag: nn.Parameter

    def read(self, states: States) -> States:
        """See `Seq2Seq.read`."""
        return super().read(replace(states, values=states.values + self.tag.to(states.values.dtype)))
