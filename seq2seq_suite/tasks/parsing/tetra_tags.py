"""Trees as tags of known length: one for each word and one between each two, whatever the tree.

A sentence of n words has 2n - 1 tags, so that a decoder which writes all positions at once need not guess a length, and
which sequences are trees depends on a single number, the depth of a stack: the best one is found exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq_suite.tasks.parsing.linearisation import ROOT, with_root, without_root
from seq2seq_suite.trees import Tree
from seq2seq_suite.types import END, SPECIALS, Batch

LEAF_LEFT, LEAF_RIGHT, NODE_LEFT, NODE_RIGHT = "l", "r", "L", "R"
KINDS = (LEAF_LEFT, LEAF_RIGHT, NODE_LEFT, NODE_RIGHT)
_NEVER = float("-inf")


class TetraTags:
    """The nodes of the binary tree from left to right: l or r for a word, L or R for a node above, with its labels.

    The case says word or node, the letter whether it is a left or a right child. Nodes with more than two children
    become chains of nodes to the right that have no label; chains of nodes with one child are one node.

    >>> from seq2seq_suite.trees import read_trees
    >>> text = "(S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (RB very) (JJ powerful))) (. .))"
    >>> tree = next(read_trees(text))[1]
    >>> print(", ".join(TetraTags().write(tree)))
    l, L NP, r, L S, l, L VP, l, R ADJP, r, R, r
    >>> print(TetraTags().read(TetraTags().write(tree), tree.words(), tree.tags()))
    (TOP (S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (RB very) (JJ powerful))) (. .)))

    Source: Kitaev & Klein 2020, section 3.
    """

    def takes_word(self, symbol: str) -> bool:
        """Whether a symbol stands for a word."""
        return symbol[:1] in (LEAF_LEFT, LEAF_RIGHT)

    def write(self, tree: Tree) -> list[str]:
        """The tags of a tree, its root node left out if it stands over one constituent."""
        return list(self._write([without_root(tree)], "l"))

    def _write(self, nodes: Sequence[Tree | str], side: str) -> Iterator[str]:
        """Of one node, or of several that hang together under a node without a label."""
        while True:
            labels: list[str] = []
            while len(nodes) == 1 and isinstance(nodes[0], Tree) and not nodes[0].is_preterminal():
                labels.append(nodes[0].label)
                nodes = nodes[0].children
            written = " ".join(labels)
            if len(nodes) == 1:
                yield f"{side} {written}".strip()
                return
            yield from self._write(nodes[:1], "l")
            yield f"{side.upper()} {written}".strip()
            nodes, side = nodes[1:], "r"

    def read(self, symbols: Sequence[str], words: Sequence[str], tags: Sequence[str]) -> Tree | None:
        """The tree over `words`; None if the tags do not make one tree over exactly these words."""
        if len(symbols) != 2 * len(words) - 1:
            return None
        stack: list[_Node] = []
        for place, symbol in enumerate(symbols):
            kind, *labels = symbol.split(" ")
            if kind not in (KINDS[2:] if place % 2 else KINDS[:2]):
                return None
            if place % 2 == 0:
                node = _Node(labels, [Tree(tags[place // 2], (words[place // 2],))])
            else:
                if not stack or stack[-1].open:
                    return None
                node = _Node(labels, stack.pop().trees(), open=True)
            if kind in (LEAF_LEFT, NODE_LEFT):
                if stack and not stack[-1].open:
                    return None
                stack.append(node)
            elif not stack or not stack[-1].hang(node):
                return None
        if len(stack) != 1 or stack[0].open:
            return None
        found = stack[0].trees()
        # A highest node without a label is the root itself.
        return with_root(found[0] if len(found) == 1 else Tree(ROOT, tuple(found)))


@dataclass
class _Node:
    """A binary node: what hangs on its left, and later on its right; `open` while something is missing there."""

    labels: list[str]
    children: list[Tree]
    open: bool = False
    right: _Node | None = None

    def hang(self, node: _Node) -> bool:
        """Put a node into the open place farthest to the right; False if there is none."""
        if not self.open:
            return False
        self._right()[-1].right = node
        self.open = node.open
        return True

    def trees(self) -> list[Tree]:
        """The tree with the labels around it; what a node without a label holds, one after the other."""
        inside: list[Tree] = []
        for node in reversed(self._right()):
            inside = [*node.children, *inside]
            for label in reversed(node.labels):
                inside = [Tree(label, tuple(inside))]
        return inside

    def _right(self) -> list[_Node]:
        """The node and those on its right, from the highest down."""
        nodes = [self]
        while nodes[-1].right is not None:
            nodes.append(nodes[-1].right)
        return nodes


@dataclass(frozen=True)
class TetraState:
    """N sentences.

    Args:
        words: (N,) of each.
        taken: (N,) words that have their tag.
        depth: (N,) of the stack.
        inner: (N,) bool, True where the next tag is that of a node above the words.
    """

    words: Tensor
    taken: Tensor
    depth: Tensor
    inner: Tensor

    def select(self, rows: Tensor) -> TetraState:
        """The given rows, in that order."""
        return TetraState(*(part.index_select(0, rows) for part in (self.words, self.taken, self.depth, self.inner)))


class TetraAutomaton:
    """The constraint of tetra-tags: all outputs are trees, and the best one is found by dynamic programming.

    l puts a word on the stack, r hangs it to the top; L gives the top a parent that waits for a right child, R hangs
    that parent to the node below. At the end one node is left.

    Args:
        names: the symbols, the specials first.

    Source: Kitaev & Klein 2020, section 4.
    """

    num_focus = num_context = 0

    def __init__(self, names: Sequence[str]):
        self.num_symbols = len(names)
        self.of_kind = torch.zeros(len(KINDS), len(names), dtype=torch.bool)
        for index, name in enumerate(names):
            if index >= len(SPECIALS) and name[:1] in KINDS:
                self.of_kind[KINDS.index(name[0]), index] = True

    def start(self, batch: Batch, limit: Tensor) -> TetraState:
        """Before the first tag; the source has a sentinel at each end. The length is known: the limit says nothing."""
        words = batch.source_mask.sum(1) - 2
        zero = torch.zeros_like(words)
        return TetraState(words, zero, zero, zero.bool())

    def allowed(self, state: TetraState) -> Tensor:
        """(N,V): tags after which the stack can still shrink to one node."""
        left, depth = state.words - state.taken, state.depth
        after = left - 1  # words left when this one is taken
        word, node = ~state.inner & (left > 0), state.inner & (left > 0)
        kinds = torch.stack((
            word & torch.where(after > 0, depth <= after, depth == 0),
            word & (depth > 0) & torch.where(after > 0, depth - 1 <= after, depth == 1),
            node & (depth <= left),
            node & (depth > 1)), 1)
        allowed = (kinds.unsqueeze(2) & self.of_kind.to(kinds.device)).any(1)
        allowed[:, END] = ~allowed.any(1)
        return allowed

    def advance(self, state: TetraState, symbols: Tensor) -> TetraState:
        """After `symbols` (N,); a tag never seen in training hangs what it stands for to the right, if it can."""
        of_kind, ended = self.of_kind.to(symbols.device), symbols == END
        left_word, right_node = of_kind[0][symbols], of_kind[3][symbols]
        known = of_kind.any(0)[symbols] | ended
        left_word = left_word | (~known & ~state.inner & (state.depth == 0))
        right_node = right_node | (~known & state.inner & (state.depth > 1))
        took = ~state.inner & ~ended
        depth = state.depth + (took & left_word).long() - (state.inner & right_node).long()
        return TetraState(state.words, state.taken + took.long(), depth.clamp(min=0), ~state.inner & ~ended)

    def focus(self, state: TetraState) -> Tensor:
        """(N,0): no source position is singled out."""
        return state.words.new_zeros(state.words.size(0), 0)

    def context(self, state: TetraState) -> Tensor:
        """(N,0)."""
        return self.focus(state)

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
        gained, symbols = scores.unsqueeze(2).masked_fill(~self.of_kind.to(scores.device), _NEVER).max(3)  # (B,C,4)
        count, deepest = scores.size(1), int(words.max()) + 1
        reached = torch.full((scores.size(0), deepest + 1), _NEVER, device=scores.device)  # by depth
        reached[:, 0] = 0.0
        back = []
        for step in range(count):
            deeper = torch.nn.functional.pad(reached, (1, 0), value=_NEVER)[:, :-1]
            shallower = torch.nn.functional.pad(reached, (0, 1), value=_NEVER)[:, 1:]
            if step % 2 == 0:  # a word: l deepens the stack, r needs something to hang to
                same = reached.index_fill(1, torch.zeros(1, dtype=torch.int64, device=scores.device), _NEVER)
                ways = torch.stack((deeper + gained[:, step, 0, None], same + gained[:, step, 1, None]), 2)
            else:  # a node: L keeps the depth, R takes one off, of two at least
                taken = shallower.index_fill(1, torch.zeros(1, dtype=torch.int64, device=scores.device), _NEVER)
                ways = torch.stack((reached + gained[:, step, 2, None], taken + gained[:, step, 3, None]), 2)
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
