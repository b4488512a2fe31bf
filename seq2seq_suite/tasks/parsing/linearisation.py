"""Trees as sequences of symbols, and back.

Words are not predicted: each is one terminal symbol, so that the output vocabulary is a few dozen symbols and an
output's words are always the sentence's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seq2seq_suite.common.trees import ROOT_LABELS, Tree, too_deep

ROOT = "TOP"


class Bracketing:
    """What both bracket linearisations share: a word is one symbol, and a root over one node is left out.

    `top_down` says whether a bracket opens before or after its first child; `opening` is written before its label.
    """

    shift: str
    opening: str
    close: str
    top_down: bool

    def takes_word(self, symbol: str) -> bool:
        """Whether a symbol represents a word."""
        return symbol == self.shift

    def write(self, tree: Tree) -> list[str]:
        """The symbols of a tree, its root node left out if it has one child."""
        return list(self._write(without_root(tree)))

    def _write(self, tree: Tree | str) -> Iterator[str]:
        if isinstance(tree, str) or tree.is_preterminal():
            yield self.shift
            return
        before = 0 if self.top_down else 1
        for child in tree.children[:before]:
            yield from self._write(child)
        yield f"{self.opening}{tree.label}"
        for child in tree.children[before:]:
            yield from self._write(child)
        yield self.close

    def read(self, symbols: Sequence[str], words: Sequence[str], tags: Sequence[str]) -> Tree | None:
        """The tree over `words`; None if the symbols do not make one tree over exactly these words, or too deep a
        one."""
        leaves = [Tree(tag, (word,)) for word, tag in zip(words, tags, strict=True)][::-1]
        done: list[Tree | str] = []  # finished nodes, those inside an open bracket after those outside
        opened: list[tuple[str, int]] = []  # label, and where in `done` the bracket's first child stands
        for symbol in symbols:
            if symbol == self.shift:
                if not leaves:
                    return None
                done.append(leaves.pop())
            elif symbol == self.close:
                if not opened or opened[-1][1] == len(done):
                    return None
                label, first = opened.pop()
                done[first:] = [Tree(label, tuple(done[first:]))]
            elif symbol.startswith(self.opening):
                first = len(done) if self.top_down else len(done) - 1
                if first < 0 or (not self.top_down and opened and opened[-1][1] == first):
                    return None
                opened.append((symbol.removeprefix(self.opening), first))
            else:
                return None
        return None if opened or len(done) != 1 or leaves else with_root(done[0])


class Brackets(Bracketing):
    """Depth-first brackets, each word normalised to XX.

    >>> from seq2seq_suite.common.trees import read_trees
    >>> tree = next(read_trees("(S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (RB very) (JJ powerful))))"))[1]
    >>> print(*Brackets().write(tree))
    (S (NP XX XX ) (VP XX (ADJP XX XX ) ) )
    >>> print(Brackets().read(Brackets().write(tree), tree.words(), tree.tags()))
    (TOP (S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (RB very) (JJ powerful)))))

    Source: Vinyals et al. 2015, section 3.1. Differs: closing brackets carry no label, as in the course's notes.
    """

    shift, opening, close, top_down = "XX", "(", ")", True


class InOrder(Bracketing):
    """Shift-reduce with a bracket opened after its first child: bottom-up evidence, then top-down expectation.

    SHIFT takes the next word, PJ-X puts a bracket X around what was finished last, REDUCE closes the open bracket.

    >>> from seq2seq_suite.common.trees import read_trees
    >>> tree = next(read_trees("(S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (RB very) (JJ powerful))))"))[1]
    >>> print(*InOrder().write(tree))
    SHIFT PJ-NP SHIFT REDUCE PJ-S SHIFT PJ-VP SHIFT PJ-ADJP SHIFT REDUCE REDUCE REDUCE
    >>> print(InOrder().read(InOrder().write(tree), tree.words(), tree.tags()))
    (TOP (S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (RB very) (JJ powerful)))))

    Source: Liu & Zhang 2017, section 3.2; as sequence-to-sequence, Fernández-González & Gómez-Rodríguez 2020.
    """

    shift, opening, close, top_down = "SHIFT", "PJ-", "REDUCE", False


def without_root(tree: Tree) -> Tree:
    """A tree without its root node, if that has one child."""
    child = tree.children[0]
    return child if tree.label in ROOT_LABELS and len(tree.children) == 1 and isinstance(child, Tree) else tree


def with_root(node: Tree | str) -> Tree | None:
    """The tree with a root node again; None if it is deeper than trees may be."""
    assert isinstance(node, Tree)
    tree = node if node.label in ROOT_LABELS else Tree(ROOT, (node,))
    return None if too_deep(tree) else tree
