"""A decoder-only model: GPT with the source as the prefix of the target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2seq_suite.common.types import States
from seq2seq_suite.model.decoder import Cache
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq


@dataclass(frozen=True)
class PrefixStates(States):
    """The decoder's states of the source, with keys and values; `select` leaves the latter to the cache."""

    past: Cache | None = None

    def select(self, rows: Tensor) -> PrefixStates:
        return super(PrefixStates, replace(self, past=None)).select(rows)


class PrefixSeq2Seq(Seq2Seq):
    """A stack without an encoder reads the source, left to right, then the target.

    Source: Radford et al. 2018, section 3.2; the target's BEGIN separates the two.
    """

    def read(self, states: States) -> PrefixStates:
        """The source as the decoder sees it, with its keys and values."""
        visible = causal(states.values.size(1), device=states.values.device) & states.mask.unsqueeze(1)
        values, past = self.decoder(states.values, visible, None, self.decoder.new_cache(states.values))
        return PrefixStates(values, states.mask, past=past)

    def new_cache(self, memory: Memory) -> Cache:
        """The cache of the source."""
        return _past(memory)

    def target_length(self, cache: Cache, memory: Memory) -> int:
        """Target symbols in a cache, which holds the source too."""
        return cache.length - memory.states.mask.size(1)

    def with_positions(self, symbols: Tensor, memory: Memory, offset: int | Tensor) -> Tensor:
        """See `Seq2Seq.with_positions`; positions continue after each source."""
        lengths = memory.states.mask.sum(1)
        offset = offset + lengths.repeat_interleave(symbols.size(0) // lengths.size(0))
        return super().with_positions(symbols, memory, offset)

    def decode(
        self, x: Tensor, visible: Tensor | None, memory: Memory, cache: Cache | None = None
    ) -> tuple[Tensor, Cache | None]:
        """Hidden states of the target, which sees the source and the `visible` target positions."""
        cache = _past(memory) if cache is None else cache
        return super().decode(x, _behind(memory.states.mask, visible, x, cache.length), memory, cache)


def _past(memory: Memory) -> Cache:
    """Keys and values of the source."""
    assert isinstance(memory.states, PrefixStates) and memory.states.past is not None
    return memory.states.past


def _behind(source_mask: Tensor, visible: Tensor | None, x: Tensor, cached: int) -> Tensor:
    """The positions that N rows of T target symbols may see after a source: (N,T,cached + T) bool.

    Args:
        source_mask: (B,S), N a multiple of B.
        visible: of the target alone, broadcastable to (N,T,cached - S + T); None: all of it.
        x: (N,T,D).
        cached: columns before, those of the source among them.
    """
    rows, length, _ = x.shape
    source = source_mask.repeat_interleave(rows // source_mask.size(0), 0).unsqueeze(1).expand(-1, length, -1)
    own = (rows, length, cached - source_mask.size(1) + length)
    target = source_mask.new_ones(own) if visible is None else visible.expand(own)
    return torch.cat((source, target), 2)
