"""The automaton of tags: one for each word, then END; which are best is found position by position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, SPECIALS, Batch, Constraint, PerRow


@dataclass(frozen=True)
class TagState(PerRow):
    """N sentences: how many words each has, and how many of them have their tag, (N,) int64."""

    words: Tensor
    tagged: Tensor


class OnePerWord(Constraint):
    """As many symbols as words; the source has a sentinel at each end. The decoder sees which word is next.

    Args:
        num_symbols: V, the specials included.
    """

    num_focus = 1
    focus_names = ("the word to be tagged",)

    def __init__(self, num_symbols: int):
        self.num_symbols = num_symbols

    def start(self, batch: Batch, limit: Tensor) -> TagState:
        """Before the first word. The length is known, so the limit is not used."""
        words = self.lengths(batch)
        return TagState(words, torch.zeros_like(words))

    def allowed(self, state: TagState) -> Tensor:
        """(N,V): every tag while a word is left, then END."""
        ended = state.tagged >= state.words
        allowed = (~ended).unsqueeze(1).repeat(1, self.num_symbols)
        allowed[:, : len(SPECIALS)] = False
        allowed[:, END] = ended
        return allowed

    def advance(self, state: TagState, symbols: Tensor) -> TagState:
        """After `symbols` (N,)."""
        return TagState(state.words, state.tagged + 1)

    def focus(self, state: TagState) -> Tensor:
        """(N,1): the next word, then the sentinel behind the last one."""
        return (state.tagged.clamp(max=state.words) + 1).unsqueeze(1)

    def lengths(self, batch: Batch) -> Tensor:
        """(B,) words of each sentence."""
        return batch.source_mask.sum(1) - 2

    def best(self, scores: Tensor, batch: Batch) -> Tensor:
        """The likeliest tag of each word of (B,C,V), END behind the last."""
        tags = scores[:, :, len(SPECIALS) :].argmax(2) + len(SPECIALS)
        inside = torch.arange(scores.size(1), device=scores.device) < self.lengths(batch).unsqueeze(1)
        return tags.where(inside, END)
