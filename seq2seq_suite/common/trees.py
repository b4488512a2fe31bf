"""Constituency trees: the type, reading and writing brackets, and the usual clean-up of a treebank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from seq2seq_suite.common.errors import DataError, truncate
from seq2seq_suite.common.text import BLANKS

ROOT_LABELS = frozenset({"TOP", "ROOT", "S1", "VROOT", ""})
TRACE = "-NONE-"
DEEPEST = 150  # brackets around a word: about four times the Penn Treebank's, and safe for recursion
_TOKEN = re.compile(rf"[()]|[^{BLANKS}()]+")


@dataclass(frozen=True, slots=True)
class Tree:
    """A node of a constituency tree. A pre-terminal has one child, its word.

    >>> tree = next(read_trees("(S (NP (NN Learning)) (VP (VBZ is) (ADJP (JJ powerful))))"))[1]
    >>> tree.words()
    ['Learning', 'is', 'powerful']
    >>> print(tree.children[0])
    (NP (NN Learning))
    """

    label: str
    children: tuple[Tree | str, ...]

    def is_preterminal(self) -> bool:
        """True for a tag over one word."""
        return len(self.children) == 1 and isinstance(self.children[0], str)

    def preterminals(self) -> list[Tree]:
        """The tags over the words, from left to right; bare words appear as tags labelled `XX`."""
        if self.is_preterminal():
            return [self]
        return [
            leaf
            for child in self.children
            for leaf in ([Tree("XX", (child,))] if isinstance(child, str) else child.preterminals())
        ]

    def words(self) -> list[str]:
        """The words, from left to right."""
        found: list[str] = []
        rest: list[Tree | str] = [self]
        while rest:
            node = rest.pop()
            if isinstance(node, str):
                found.append(node)
            else:
                rest.extend(reversed(node.children))
        return found

    def tags(self) -> list[str]:
        """The labels of the pre-terminals, from left to right."""
        return [leaf.label for leaf in self.preterminals()]

    def spans(self, first: int = 0) -> list[tuple[int, int]]:
        """First and last word of each node above the tags, its own last; the tree's first word is number `first`.

        >>> next(read_trees("(S (NP (NN Learning)) (VP (VBZ is) (ADJP (JJ powerful))))"))[1].spans()
        [(0, 0), (2, 2), (1, 2), (0, 2)]
        """
        found, after = [], first
        for child in self.children:
            if isinstance(child, str) or child.is_preterminal():
                after += 1
            else:
                found += child.spans(after)
                after = found[-1][1] + 1
        return [*found, (first, after - 1)]

    def __str__(self) -> str:
        return f"({self.label} {' '.join(map(str, self.children))})"

    def _repr_html_(self) -> str:
        """For notebooks, drawn."""
        from nltk import Tree as DrawnTree
        from nltk.tree.prettyprinter import TreePrettyPrinter

        return TreePrettyPrinter(DrawnTree.fromstring(str(self))).svg()


def read_trees(text: str, *, file: str = "<text>", first_line: int = 1) -> Iterator[tuple[int, Tree]]:
    """Read bracketed trees, one or many, each over one line or several.

    Args:
        text: the brackets, e.g. the contents of a `.mrg` file.
        file: name used in errors.
        first_line: number of the text's first line.

    Yields:
        (line on which the tree begins, tree).

    Raises:
        DataError: brackets do not match or are nested deeper than `DEEPEST`, a node is empty, or there are words
            outside a tree.
    """
    stack: list[tuple[str, list[Tree | str]]] = []
    expecting_label = False
    line, line_ends_at, start = first_line, 0, first_line
    for match in _TOKEN.finditer(text):
        line += text.count("\n", line_ends_at, match.start())
        line_ends_at = match.start()
        token = match.group()
        if token == "(":
            if expecting_label:
                stack[-1] = ("", stack[-1][1])
            if not stack:
                start = line
            if len(stack) == DEEPEST:
                raise DataError(
                    f"brackets nested deeper than {DEEPEST}",
                    file=file,
                    line=line,
                    expected=f"at most {DEEPEST} around a word",
                    remedy="flatten the tree, or remove it",
                )
            stack.append(("", []))
            expecting_label = True
        elif token == ")":
            if not stack:
                raise DataError(
                    "a closing bracket without its opening one",
                    file=file,
                    line=line,
                    expected="(LABEL child ...)",
                    remedy="remove the bracket or complete the tree",
                )
            label, children = stack.pop()
            if not children:
                raise DataError(
                    f"the node '({truncate(label)})' has no children",
                    file=file,
                    line=line,
                    expected="a word or a node after the label",
                    remedy="remove the node or give it a word",
                )
            expecting_label = False
            node = Tree(label, tuple(children))
            if stack:
                stack[-1][1].append(node)
            else:
                yield start, node
        elif not stack:
            raise DataError(
                f"'{truncate(token)}' is outside a tree",
                file=file,
                line=line,
                expected="(LABEL child ...)",
                remedy="put one bracketed tree after another and nothing between them",
            )
        elif expecting_label:
            stack[-1] = (token, stack[-1][1])
            expecting_label = False
        else:
            stack[-1][1].append(token)
    if stack:
        raise DataError(
            f"the tree is cut short: {len(stack)} brackets are still open",
            file=file,
            line=start,
            expected="as many ')' as '('",
            remedy="complete the tree that begins on this line",
        )


def too_deep(tree: Tree) -> bool:
    """Whether brackets are nested deeper than `DEEPEST`.

    >>> flat, deep = Tree("NN", ("word",)), Tree("NN", ("word",))
    >>> for _ in range(DEEPEST):
    ...     deep = Tree("NP", (deep,))
    >>> too_deep(flat), too_deep(deep)
    (False, True)
    """
    level = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in node.children if isinstance(child, Tree)]
    return bool(level)


def bare_label(label: str) -> str:
    """A label without function tags and indices.

    >>> [bare_label(label) for label in ("NP-SBJ=1", "WHNP-2", "-NONE-", "-LRB-", "PRP$", "ADVP|PRT")]
    ['NP', 'WHNP', '-NONE-', '-LRB-', 'PRP$', 'ADVP']
    """
    return label if label.startswith("-") else re.split(r"[-=|]", label, maxsplit=1)[0] or label


def clean(tree: Tree) -> Tree | None:
    """A tree as parsers learn it: traces and the nodes they empty removed, function tags stripped.

    The outer bracket without a label that `.mrg` files put around each tree becomes `TOP`.
    Pre-terminals keep their label.

    Returns:
        The cleaned tree, None if nothing but traces was in it.
    """
    if tree.is_preterminal():
        return None if tree.label == TRACE else tree
    cleaned = (child if isinstance(child, str) else clean(child) for child in tree.children)
    children = tuple(child for child in cleaned if child is not None)
    return Tree(bare_label(tree.label) or "TOP", children) if children else None
