"""Several models of one vocabulary as one: the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from seq2seq_suite.common.types import Batch, PerRow, States
from seq2seq_suite.model.decoder import Cache
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq


@dataclass(frozen=True)
class Memories(PerRow):
    """The memories of all members; `states` are the first one's."""

    members: tuple[Memory, ...]
    states: States


@dataclass(frozen=True)
class Caches(PerRow):
    """The caches of all members."""

    members: tuple[Cache, ...]

    @property
    def length(self) -> int:
        """Positions decoded so far."""
        return self.members[0].length

    def first(self, length: int) -> Caches:
        """Without the positions from `length` on."""
        return Caches(tuple(member.first(length) for member in self.members))


class Ensemble(nn.Module):
    """p(y_t | y_<t, x) as the mean over models. It has the methods of `Seq2Seq` that searches call.

    Args:
        models: of the same target symbols, in evaluation mode.

    Source: Sutskever et al. 2014, section 3.6.
    """

    def __init__(self, models: Sequence[Seq2Seq]):
        super().__init__()
        self.models = cast(Sequence[Seq2Seq], nn.ModuleList(models))

    @property
    def reads(self) -> tuple[str, ...]:
        """What the first one asks to know of the automaton; all ask the same."""
        return self.models[0].reads

    def encode(self, batch: Batch) -> tuple[States, ...]:
        """The encoder output of each model."""
        return tuple(model.encode(batch) for model in self.models)

    def prepare(self, states: tuple[States, ...]) -> Memories:
        """The memories for these encoder outputs."""
        memories = (model.prepare(own) for model, own in zip(self.models, states, strict=True))
        return Memories(tuple(memories), states[0])

    def new_cache(self, memory: Memories) -> Caches:
        """Empty caches."""
        return Caches(tuple(model.new_cache(own) for model, own in zip(self.models, memory.members, strict=True)))

    def target_length(self, cache: Caches, memory: Memories) -> int:
        """Target symbols in the caches."""
        return self.models[0].target_length(cache.members[0], memory.members[0])

    def embed(
        self, symbols: Tensor, memory: Memories, *, offset: int | Tensor = 0, **state: Tensor
    ) -> tuple[Tensor, ...]:
        """The decoders' inputs, (N,T,D) each; see `Seq2Seq.embed`. `state` has the fields in `reads`."""
        return tuple(
            model.embed(symbols, own, offset=offset, **state)
            for model, own in zip(self.models, memory.members, strict=True)
        )

    def decode(
        self, x: tuple[Tensor, ...], visible: Tensor | None, memory: Memories, cache: Caches
    ) -> tuple[tuple[Tensor, ...], Caches]:
        """Their hidden states, (N,T,D) each, and the longer caches."""
        hidden, caches = zip(
            *(
                model.decode(one, visible, own, past)
                for model, one, own, past in zip(self.models, x, memory.members, cache.members, strict=True)
            ),
            strict=True,
        )
        return hidden, Caches(caches)

    def logits(self, hidden: tuple[Tensor, ...], memory: Memories) -> Tensor:
        """(N,T,V) the logarithm of the mean probability."""
        each = [
            model.logits(one, own).float().log_softmax(-1)
            for model, one, own in zip(self.models, hidden, memory.members, strict=True)
        ]
        return torch.stack(each).logsumexp(0) - math.log(len(each))
