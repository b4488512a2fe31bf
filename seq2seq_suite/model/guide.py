"""Input of the decoder from the task's automaton: source positions and symbols that matter for the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.model.seq2seq import Memory, Seq2Seq

if TYPE_CHECKING:
    from seq2seq_suite.common.types import States


class Guide(nn.Module):
    """Adds sum_k W_k memory[focus_k] + sum_m E_m[context_m] to the decoder's input, then normalises it.

    For a parser the focus is the next word, the last one shifted and the left edges of the constituents on the stack;
    the context is the labels of the open brackets. This is the "deterministic attention" of Ma et al. 2017 and of Liu &
    Zhang 2017, extended to the parser's whole state; cross-attention stays.

    Args:
        width: D.
        num_focus: K.
        num_context: M.
        num_symbols: target symbols.
    """

    def __init__(self, width: int, num_focus: int, num_context: int, num_symbols: int):
        super().__init__()
        self.num_focus, self.num_context, self.num_symbols = num_focus, num_context, num_symbols
        self.project = nn.Linear(width, num_focus * width, bias=False)
        self.symbols = nn.Embedding(num_context * num_symbols, width)
        nn.init.normal_(self.symbols.weight, std=width**-0.5)
        self.norm = nn.LayerNorm(width)

    def prepare(self, memory: Tensor) -> Tensor:
        """W_k memory for every k, once for all steps: (B,S,D) -> (B,S,K*D)."""
        return self.project(memory)

    def forward(self, x: Tensor, prepared: Tensor, focus: Tensor, context: Tensor) -> Tensor:
        """The guided input.

        Args:
            x: (N,T,D).
            prepared: (B,S,K*D) from `prepare`; N is a multiple of B, a sentence's rows side by side.
            focus: (N,T,K) int64, -1 for none.
            context: (N,T,M) int64.

        Returns:
            (N,T,D).
        """
        sentences, length, _ = prepared.shape
        width = x.size(-1)
        sentence = torch.arange(sentences, device=x.device).repeat_interleave(x.size(0) // sentences)
        slot = torch.arange(self.num_focus, device=x.device)
        rows = (sentence[:, None, None] * length + focus.clamp(min=0)) * self.num_focus + slot
        seen = functional.embedding(rows, prepared.reshape(-1, width)) * (focus >= 0).unsqueeze(-1)
        offset = torch.arange(self.num_context, device=x.device) * self.num_symbols
        return self.norm(x + seen.sum(2) + self.symbols(context + offset).sum(2))


@dataclass(frozen=True)
class GuidedMemory(Memory):
    """A memory with the guide's features of it, (B,S,K*D)."""

    guide: Tensor


class GuidedSeq2Seq(Seq2Seq):
    """A model with a `guide`, which adds the automaton's state to the decoder's input."""

    reads = ("focus", "context")
    guide: Guide

    def prepare(self, states: States) -> GuidedMemory:
        """See `Seq2Seq.prepare`."""
        guide = self.guide.prepare(states.values)
        memory = super().prepare(states)
        return GuidedMemory(memory.cross, memory.states, guide)

    def embed(
        self, symbols: Tensor, memory: GuidedMemory, *, offset: int | Tensor = 0, focus: Tensor, context: Tensor
    ) -> Tensor:
        """See `Seq2Seq.embed`; `focus` (N,T,K) and `context` (N,T,M) are the state before each symbol to come."""
        x = self.with_positions(symbols, memory, offset)
        return self.dropout(self.guide(x, memory.guide, focus, context))
