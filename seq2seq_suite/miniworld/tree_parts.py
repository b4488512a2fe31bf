"""What sentences with brackets are built with."""

from __future__ import annotations

from functools import cache

from seq2seq_suite.common.trees import Tree


@cache
def leaf(tag: str, word: str) -> Tree:
    """A word under its tag."""
    return Tree(tag, (word,))


def capitalised(tree: Tree) -> Tree:
    """The same tree with a capital at its first word."""
    first = tree.children[0]
    changed = first[0].upper() + first[1:] if isinstance(first, str) else capitalised(first)
    return Tree(tree.label, (changed, *tree.children[1:]))


def length(tree: Tree | str) -> int:
    """Number of words."""
    return 1 if isinstance(tree, str) else sum(length(child) for child in tree.children)


def first_word(tree: Tree) -> str:
    """Its first word."""
    first = tree.children[0]
    return first if isinstance(first, str) else first_word(first)
