"""Ways to write a tree: what is no tree is refused, with the reason in the name of each case."""

import itertools

import pytest

from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.tasks.parsing.linearisation import Brackets, InOrder, with_root, without_root
from seq2seq_suite.tasks.parsing.tetra_tags import TetraTags

WORDS, TAGS = ["a", "b"], ["X", "Y"]
WRITERS = {"brackets": Brackets(), "in order": InOrder(), "tetra-tags": TetraTags()}
MALFORMED = {
    "brackets": {
        "nothing": "",
        "words alone": "XX XX",
        "a bracket that is not closed": "(S XX XX",
        "a word too few": "(S XX )",
        "a word too many": "(S XX XX XX )",
        "a bracket closed twice": "(S XX XX ) )",
        "closed first": ") (S XX XX )",
        "an empty bracket": "(S (NP ) XX XX )",
        "an empty bracket at the end": "(S XX XX (NP ) )",
        "two trees": "(S XX ) (S XX )",
        "a bracket opened behind the tree": "(S XX XX ) (S",
        "a word before the tree": "XX (S XX )",
        "a word behind it": "(S XX ) XX",
        "an unknown symbol": "(S XX <unknown> XX )",
        "the other way's symbols": "SHIFT PJ-S SHIFT REDUCE",
    },
    "in order": {
        "nothing": "",
        "words alone": "SHIFT SHIFT",
        "a bracket that is not closed": "SHIFT PJ-S SHIFT",
        "a word too few": "SHIFT PJ-S REDUCE",
        "a word too many": "SHIFT PJ-S SHIFT SHIFT REDUCE",
        "a bracket closed twice": "SHIFT PJ-S SHIFT REDUCE REDUCE",
        "closed first": "REDUCE SHIFT PJ-S SHIFT REDUCE",
        "opened first": "PJ-S SHIFT SHIFT REDUCE",
        "two brackets on one first child": "SHIFT PJ-NP PJ-S SHIFT REDUCE REDUCE",
        "two brackets on a phrase": "SHIFT PJ-NP REDUCE PJ-S PJ-S SHIFT REDUCE REDUCE",
        "two trees": "SHIFT PJ-S REDUCE SHIFT PJ-S REDUCE",
        "a word behind the tree": "SHIFT PJ-S REDUCE SHIFT",
        "a bracket opened around the tree": "SHIFT PJ-S SHIFT REDUCE PJ-S",
        "an unknown symbol": "SHIFT PJ-S <unknown> SHIFT REDUCE",
        "the other way's symbols": "(S XX XX )",
    },
    "tetra-tags": {
        "nothing": "",
        "a word too few": "l",
        "a word too many": "l L r R r",
        "a node too few": "l r",
        "two left words": "l L S l",
        "a right word first": "r L S r",
        "a right node at the top": "l R S r",
        "a word for a node": "l l r",
        "a node for a word": "L S L r",
        "a case that is none": "x L S r",
        "the other way's symbols": "SHIFT PJ-S SHIFT",
    },
}


@pytest.mark.parametrize(("writer", "case"), [(writer, case) for writer, cases in MALFORMED.items() for case in cases])
def test_what_is_no_tree_over_the_words_is_none(writer, case):
    text = MALFORMED[writer][case]
    symbols = text.replace(" S", "_S").split() if writer == "tetra-tags" else text.split()
    assert WRITERS[writer].read([symbol.replace("_", " ") for symbol in symbols], WORDS, TAGS) is None


@pytest.mark.parametrize(
    ("writer", "text", "tree"),
    [
        ("brackets", "(S (NP XX ) XX )", "(TOP (S (NP (X a)) (Y b)))"),
        ("brackets", "(TOP XX XX )", "(TOP (X a) (Y b))"),
        ("in order", "SHIFT PJ-NP REDUCE PJ-S SHIFT REDUCE", "(TOP (S (NP (X a)) (Y b)))"),
        ("in order", "SHIFT PJ-S SHIFT PJ-NP REDUCE REDUCE", "(TOP (S (X a) (NP (Y b))))"),
        ("in order", "SHIFT PJ-NP SHIFT REDUCE PJ-S REDUCE", "(TOP (S (NP (X a) (Y b))))"),
        ("tetra-tags", "l_NP L_S_VP r", "(TOP (S (VP (NP (X a)) (Y b))))"),
        ("tetra-tags", "l L r", "(TOP (X a) (Y b))"),
    ],
)
def test_what_is_one_is_read(writer, text, tree):
    assert str(WRITERS[writer].read([symbol.replace("_", " ") for symbol in text.split()], WORDS, TAGS)) == tree


@pytest.mark.parametrize(
    ("writer", "symbols", "words"),
    [
        ("brackets", ["(XX", "XX", ")", "<unknown>"], [False, True, False, False]),
        ("in order", ["PJ-SHIFT", "SHIFT", "REDUCE"], [False, True, False]),
        ("tetra-tags", ["l", "r NP", "L S", "R", "<unknown>"], [True, True, False, False, False]),
    ],
)
def test_a_symbol_stands_for_a_word_or_does_not(writer, symbols, words):
    assert [WRITERS[writer].takes_word(symbol) for symbol in symbols] == words


def is_binary_tree(symbols) -> bool:
    """l pushes a word, r completes the top; L gives the top a place to its right, R puts that into the one below."""
    stack, fine = [], True  # of nodes, True where one waits for what hangs on its right
    for place, symbol in enumerate(symbols):
        fine &= symbol[0] in ("LR" if place % 2 else "lr")
        if symbol[0] == "l":
            fine &= not stack or stack[-1]
            stack.append(False)
        elif symbol[0] == "r":
            fine &= bool(stack) and stack[-1]
            stack[-1:] = [False]
        elif symbol[0] == "L":
            fine &= bool(stack) and not stack[-1]
            stack[-1:] = [True]
        else:
            fine &= len(stack) > 1 and not stack[-1]
            stack[-2:] = [True]
    return fine and stack == [False]


def test_tetra_tags_are_trees_exactly_where_a_stack_of_binary_nodes_ends_with_one():
    for symbols in itertools.product("lrLR", repeat=5):
        tree = TetraTags().read(symbols, ["a", "b", "c"], ["X", "Y", "Z"])
        assert (tree is not None) == is_binary_tree(symbols), symbols
        assert tree is None or str(tree) == "(TOP (X a) (Y b) (Z c))"  # nodes without labels are none


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("(TOP (S (X a)))", "(S (X a))"),
        ("(ROOT (S (X a)))", "(S (X a))"),
        ("(TOP (S (X a)) (. b))", "(TOP (S (X a)) (. b))"),
        ("(S (NP (X a)))", "(S (NP (X a)))"),
        ("(TOP a)", "(TOP a)"),
    ],
)
def test_a_root_over_one_constituent_is_left_out_and_put_back(text, inside):
    found = without_root(next(read_trees(text))[1])
    assert str(found) == inside
    assert str(with_root(found)) == (inside if inside.startswith("(TOP") else f"(TOP {inside})")
