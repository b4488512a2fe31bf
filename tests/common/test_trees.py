"""Trees in brackets: reading what was printed gives the tree, and spans are counted by hand."""

from hypothesis import given
from hypothesis import strategies as st

from seq2seq_suite.common.trees import Tree, read_trees

names = st.text("abcXYZ-=$.,'äß中", min_size=1, max_size=4)
words = st.builds(lambda tag, word: Tree(tag, (word,)), names, names)
trees = st.recursive(
    words,
    lambda inner: st.builds(
        lambda label, children: Tree(label, tuple(children)), names, st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(trees, min_size=1, max_size=3))
def test_printed_trees_are_read_as_they_were(several):
    text = "\n".join(map(str, several))
    assert list(read_trees(text)) == list(enumerate(several, start=1))


def brackets(tree: Tree, first: int) -> tuple[list[tuple[int, int]], int]:
    """Spans of the nodes above the tags, by counting words, and the word behind the tree."""
    if tree.is_preterminal():
        return [], first + 1
    found, behind = [], first
    for child in tree.children:
        inner, behind = brackets(child, behind)
        found += inner
    return [*found, (first, behind - 1)], behind


@given(trees)
def test_spans_are_those_of_the_words_below(tree):
    whole = Tree("S", (tree,))
    assert whole.spans() == brackets(whole, 0)[0]
    assert len(whole.words()) == len(whole.tags()) == brackets(whole, 0)[1]
