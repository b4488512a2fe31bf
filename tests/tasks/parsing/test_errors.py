"""How two trees differ, each kind of error by a pair of trees made by hand."""

import pytest

from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.tasks.parsing.errors import kinds_of

PAIRS = {
    "label": (
        "(S (NP (DT the) (NN dog)) (VP (VBZ runs) (ADVP (RB home) (RB now))))",
        "(S (NP (DT the) (NN dog)) (VP (VBZ runs) (NP (RB home) (RB now))))",
    ),
    "unary": (
        "(S (NP (NN dog)) (VP (VBZ runs) (NP (RB home))))",
        "(S (NP (NN dog)) (VP (VBZ runs) (NP (ADVP (RB home)))))",
    ),
    "coordination": (
        "(S (VP (VBD saw) (NP (NNS men) (CC and) (NNS women))))",
        "(S (VP (VBD saw) (NNS men) (CC and) (NNS women)))",
    ),
    "PP attachment": (
        "(S (NP (PRP I)) (VP (VBD saw) (NP (NN her)) (PP (IN in) (NP (NN town)))))",
        "(S (NP (PRP I)) (VP (VBD saw) (NP (NP (NN her)) (PP (IN in) (NP (NN town))))))",
    ),
    "clause attachment": (
        "(S (NP (PRP I)) (VP (VBD knew) (NP (NN her)) (SBAR (IN when) (S (VP (VBD left))))))",
        "(S (NP (PRP I)) (VP (VBD knew) (NP (NP (NN her)) (SBAR (IN when) (S (VP (VBD left)))))))",
    ),
    "span": (
        "(S (NP (DT the) (NN dog) (NN house)) (VP (VBZ is) (ADJP (JJ red))))",
        "(S (NP (DT the) (NN dog)) (VP (NN house) (VBZ is) (ADJP (JJ red))))",
    ),
}


def tree(text):
    ((_, found),) = read_trees(text)
    return found


@pytest.mark.parametrize("kind", PAIRS)
def test_a_pair_that_differs_in_one_way_is_called_by_it_from_both_sides(kind):
    gold, predicted = map(tree, PAIRS[kind])
    assert kinds_of(gold, predicted) == kinds_of(predicted, gold) == (kind,)
    assert kinds_of(gold, gold) == kinds_of(predicted, predicted) == ()


def test_kinds_come_by_the_number_of_their_brackets():
    gold = tree("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (NN her)) (PP (IN in) (NP (NN town)))))")
    found = tree("(S (ADJP (DT the) (NN dog)) (VP (VBD saw) (NP (NP (NN her)) (PP (IN in) (NP (NN town))))))")
    assert kinds_of(gold, found) == ("label", "PP attachment")  # two brackets and one


def test_other_words_have_no_kind_and_what_evalb_leaves_out_is_no_error():
    gold = tree("(S (NP (NN dog)) (VP (VBZ runs)) (. .))")
    assert kinds_of(gold, tree("(S (NP (NN cat)) (VP (VBZ runs)) (. .))")) is None
    assert kinds_of(gold, tree("(S (NP (NN dog)) (VP (NNS runs) (. .)))")) == ()
