"""The automaton of tetra-tags: which sequences of them are trees, and which tree is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, NEVER, SPECIALS, Batch, Constraint, PerRow
from seq2seq_suite.tasks.parsing.tetra_tags import KINDS, words_at


@dataclass(frozen=True)
class TetraState(PerRow):
    """N sentences.

    Args:
        words: (N,) of each.
        tagged: (N,) words that have their tag.
        depth: (N,) of the stack.
        inner: (N,) bool, True where the next tag is that of a node above the words.
    """

    words: Tensor
    tagged: Tensor
    depth: Tensor
    inner: Tensor


class TetraAutomaton(Constraint):
    """The constraint of tetra-tags: all outputs are trees, and the best one is found by dynamic programming.

    l puts a word on the stack, r hangs it to the top; L gives the top a parent that waits for a right child, R hangs
    that parent to the node below. At the end one node is left.

    Args:
        names: the symbols, the specials first.

    Source: Kitaev & Klein 2020, section 4.
    """

    num_focus = 2
    focus_names = ("the word, or the one on the left", "the word on the right")

    def __init__(self, names: Sequence[str]):
        self.num_symbols = len(names)
        self.of_kind = torch.zeros(len(KINDS), len(names), dtype=torch.bool)
        for index, name in enumerate(names):
            if index >= len(SPECIALS) and name[:1] in KINDS:
                self.of_kind[KINDS.index(name[0]), index] = True

    def start(self, batch: Batch, limit: Tensor) -> TetraState:
        """Before the first tag; the source has a sentinel at each end. The length is known: the limit is not used."""
        self.of_kind = self.of_kind.to(limit.device)
        words = batch.source_mask.sum(1) - 2
        zero = torch.zeros_like(words)
        return TetraState(words, zero, zero, zero.bool())

    def allowed(self, state: TetraState) -> Tensor:
        """(N,V): tags after which the stack can still shrink to one node."""
        left, depth = state.words - state.tagged, state.depth
        after = left - 1  # words left when this one is tagged
        word, node = ~state.inner & (left > 0), state.inner & (left > 0)
        kinds = torch.stack(
            (
                word & torch.where(after > 0, depth <= after, depth == 0),
                word & (depth > 0) & torch.where(after > 0, depth - 1 <= after, depth == 1),
                node & (depth <= left),
                node & (depth > 1),
            ),
            1,
        )
        allowed = (kinds.unsqueeze(2) & self.of_kind).any(1)
        allowed[:, END] = ~allowed.any(1)
        return allowed

    def advance(self, state: TetraState, symbols: Tensor) -> TetraState:
        """After `symbols` (N,); a tag never seen in training hangs what it stands for to the right, if it can."""
        of_kind, ended = self.of_kind, symbols == END
        left_word, right_node = of_kind[0][symbols], of_kind[3][symbols]
        known = of_kind.any(0)[symbols] | ended
        left_word = left_word | (~known & ~state.inner & (state.depth == 0))
        right_node = right_node | (~known & state.inner & (state.depth > 1))
        took = ~state.inner & ~ended
        depth = state.depth + (took & left_word).long() - (state.inner & right_node).long()
        return TetraState(state.words, state.tagged + took.long(), depth.clamp(min=0), ~state.inner & ~ended)

    def focus(self, state: TetraState) -> Tensor:
        """(N,2): a word and -1 for its own tag, the words on both sides for that of a node."""
        return torch.stack(words_at(state.tagged, state.inner), 1)

    def lengths(self, batch: Batch) -> Tensor:
        """(B,) tags of each sentence, 2n - 1."""
        return 2 * (batch.source_mask.sum(1) - 2) - 1

    def best(self, scores: Tensor, batch: Batch) -> Tensor:
        """The tree of highest score.

        Args:
            scores: (B,C,V) log-probabilities of tags.
            batch: the sentences.

        Returns:
            (B,C) int64; END behind a sentence's tags.
        """
        words = batch.source_mask.sum(1) - 2
        # Of each kind the best label, whatever the tree.
        gained, symbols = scores.unsqueeze(2).masked_fill(~self.of_kind.to(scores.device), NEVER).max(3)  # (B,C,4)
        count, deepest = scores.size(1), int(words.max()) + 1
        reached = torch.full((scores.size(0), deepest + 1), NEVER, device=scores.device)  # by depth
        reached[:, 0] = 0.0
        back = []
        for step in range(count):
            deeper = torch.nn.functional.pad(reached, (1, 0), value=NEVER)[:, :-1]
            shallower = torch.nn.functional.pad(reached, (0, 1), value=NEVER)[:, 1:]
            if step % 2 == 0:  # a word: l deepens the stack, r needs something to hang to
                same = reached.index_fill(1, torch.zeros(1, dtype=torch.int64, device=scores.device), NEVER)
                ways = torch.stack((deeper + gained[:, step, 0, None], same + gained[:, step, 1, None]), 2)
            else:  # a node: L keeps the depth, R takes one off, of two at least
                closed = shallower.index_fill(1, torch.zeros(1, dtype=torch.int64, device=scores.device), NEVER)
                ways = torch.stack((reached + gained[:, step, 2, None], closed + gained[:, step, 3, None]), 2)
            following, way = ways.max(2)
            back.append(way)
            reached = torch.where((step < 2 * words - 1).unsqueeze(1), following, reached)
        depth, path = torch.ones_like(words), torch.full(scores.shape[:2], END, device=scores.device)
        for step in range(count - 1, -1, -1):
            inside = step < 2 * words - 1
            way = back[step].gather(1, depth.unsqueeze(1)).squeeze(1)
            kind = way + (2 if step % 2 else 0)
            path[:, step] = torch.where(inside, symbols[:, step].gather(1, kind.unsqueeze(1)).squeeze(1), END)
            moved = (way == 1).long() if step % 2 else -(way == 0).long()
            depth = torch.where(inside, depth + moved, depth)
        return path
