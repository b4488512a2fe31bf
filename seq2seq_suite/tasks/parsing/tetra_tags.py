"""Trees as tags of known length: one for each word and one between each two, whatever the tree.

A sentence of n words has 2n - 1 tags, so that a parallel decoder need not guess a length, and
which sequences are trees depends on a single number, the depth of a stack: the best one is found exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seq2seq_suite.common.trees import Tree
from seq2seq_suite.tasks.parsing.linearisation import ROOT, with_root, without_root

LEAF_LEFT, LEAF_RIGHT, NODE_LEFT, NODE_RIGHT = "l", "r", "L", "R"
KINDS = (LEAF_LEFT, LEAF_RIGHT, NODE_LEFT, NODE_RIGHT)


class TetraTags:
    """The nodes of the binary tree from left to right: l or r for a word, L or R for a node above, with its labels.

    The case says word or node, the letter whether it is a left or a right child. Nodes with more than two children
    become chains of nodes to the right that have no label; chains of nodes with one child are one node.

    >>> from seq2seq_suite.common.trees import read_trees
    >>> text = "(S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (RB very) (JJ powerful))) (. .))"
    >>> tree = next(read_trees(text))[1]
    >>> print(", ".join(TetraTags().write(tree)))
    l, L NP, r, L S, l, L VP, l, R ADJP, r, R, r
    >>> print(TetraTags().read(TetraTags().write(tree), tree.words(), tree.tags()))
    (TOP (S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (RB very) (JJ powerful))) (. .)))

    Source: Kitaev & Klein 2020, section 3.
    """

    def takes_word(self, symbol: str) -> bool:
        """Whether a symbol represents a word."""
        return symbol[:1] in (LEAF_LEFT, LEAF_RIGHT)

    def write(self, tree: Tree) -> list[str]:
        """The tags of a tree, its root node left out if it has one child."""
        return list(self._write([without_root(tree)], "l"))

    def _write(self, nodes: Sequence[Tree | str], side: str) -> Iterator[str]:
        """Of one node, or of several that hang together under a node without a label."""
        while True:
            labels: list[str] = []
            while len(nodes) == 1 and isinstance(nodes[0], Tree) and not nodes[0].is_preterminal():
                labels.append(nodes[0].label)
                nodes = nodes[0].children
            chain = " ".join(labels)
            if len(nodes) == 1:
                yield f"{side} {chain}".strip()
                return
            yield from self._write(nodes[:1], "l")
            yield f"{side.upper()} {chain}".strip()
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


def guided(count: int) -> dict[str, np.ndarray]:
    """`focus` (2n,2) and `context` (2n,0) of the tags and END for n words, a sentinel before them: words, or -1.

    >>> guided(2)["focus"].tolist()
    [[1, -1], [1, 2], [2, -1], [2, 3]]
    """
    step = np.arange(2 * count)
    return {"focus": np.stack(words_at((step + 1) // 2, step % 2 == 1), 1), "context": np.zeros((2 * count, 0), int)}


def words_at(tagged: Any, inner: Any) -> tuple[Any, Any]:
    """The positions that a tag reads after `tagged` words have theirs: its word and -1, or the words on both sides."""
    return tagged + 1 - 1 * inner, (tagged + 2) * inner - 1


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
        nodes: list[_Node] = [self]
        while nodes[-1].right is not None:
            nodes.append(nodes[-1].right)
        return nodes
