"""Several models of one vocabulary as one: the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    """p(y_t | y_<t, x) as the mean over models, for search: what a `Seq2Seq` takes and gives, with a part for each.

    Args:
        models: of the same target symbols, in evaluation mode.

    Source: Sutskever et al. 2014, section 3.6.
    """

    def __init__(self, models: Sequence[Seq2Seq]):
        super().__init__()
        self.models = nn.ModuleList(models)

    @property
    def guide(self) -> nn.Module | None:
        """The first one's; all have one or none."""
        return self.models[0].guide

    def encode(self, batch: Batch) -> tuple[States, ...]:
        """The source as each model reads it."""
        return tuple(model.encode(batch) for model in self.models)

    def prepare(self, states: tuple[States, ...]) -> Memories:
        """The memories of their states, each with its prepared output layer."""
        members = (model.for_search(model.prepare(own)) for model, own in zip(self.models, states, strict=True))
        return Memories(tuple(members), states[0])

    def for_search(self, memory: Memories) -> Memories:
        """The memories, whose parts are prepared already."""
        return memory

    def new_cache(self, memory: Memories) -> Caches:
        """Empty caches."""
        return Caches(tuple(model.new_cache(own) for model, own in zip(self.models, memory.members, strict=True)))

    def written(self, cache: Caches, memory: Memories) -> int:
        """Target symbols in the caches."""
        return self.models[0].written(cache.members[0], memory.members[0])

    def embed(self, symbols: Tensor, memory: Memories, **others: Tensor | int | None) -> tuple[Tensor, ...]:
        """The decoders' inputs (N,T,D)."""
        return tuple(model.embed(symbols, own, **others)
                     for model, own in zip(self.models, memory.members, strict=True))

    def decode(self, x: tuple[Tensor, ...], visible: Tensor | None, memory: Memories, cache: Caches
               ) -> tuple[tuple[Tensor, ...], Caches]:
        """Their hidden states (N,T,D)."""
        found = [model.decode(own, visible, known, past) for model, own, known, past
                 in zip(self.models, x, memory.members, cache.members, strict=True)]
        return tuple(hidden for hidden, _ in found), Caches(tuple(after for _, after in found))

    def logits(self, hidden: tuple[Tensor, ...], memory: Memories) -> Tensor:
        """(N,T,V) the logarithm of the mean probability."""
        each = [model.logits(own, known).float().log_softmax(-1)
                for model, own, known in zip(self.models, hidden, memory.members, strict=True)]
        return torch.stack(each).logsumexp(0) - math.log(len(each))
