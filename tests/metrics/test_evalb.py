"""EVALB's rules, one hand-computed case each, and the C program's own figures on two corpora."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_suite import __version__
from seq2seq_suite.common.trees import Tree, read_trees
from seq2seq_suite.metrics.evalb import evalb

GOLD = "(TOP (S (NP (NNP Ann)) (VP (VBZ reads) (NP (NNS books))) (. .)))"


def tree(text: str) -> Tree:
    return next(read_trees(text))[1]


def score(gold: str, predicted: str | None, **options):
    return evalb([tree(gold)], [None if predicted is None else tree(predicted)], **options)


def counts(gold: str, predicted: str | None) -> tuple[int, int, int]:
    """(matched, gold, predicted) of one sentence."""
    return score(gold, predicted).details["sentences"][0]


def test_a_tree_against_itself_scores_100():
    figures = score(GOLD, GOLD).figures
    assert figures == {
        "f1": 100.0,
        "precision": 100.0,
        "recall": 100.0,
        "exact_match": 100.0,
        "invalid_rate": 0.0,
        "average_crossing": 0.0,
        "no_crossing": 100.0,
        "two_or_less_crossing": 100.0,
        "tagging_accuracy": 100.0,
    }


@pytest.mark.parametrize("root", ["TOP", "ROOT", "S1", "VROOT", ""])
def test_root_brackets_do_not_count(root):
    # brackets of the gold tree: S, NP, VP, NP
    assert counts(GOLD.replace("TOP", root), GOLD) == (4, 4, 4)
    assert counts(GOLD, GOLD.removeprefix("(TOP ").removesuffix(")")) == (4, 4, 4)


@pytest.mark.parametrize("mark", [",", ":", "``", "''", "."])
def test_a_deleted_preterminal_deletes_its_word(mark):
    # the NP covers the mark in one tree only; without the mark both NPs are (0, 1)
    gold = f"(S (NP (NN one) ({mark} x)) (VP (VB go)))"
    predicted = f"(S (NP (NN one)) ({mark} x) (VP (VB go)))"
    assert counts(gold, predicted) == (3, 3, 3)


def test_punctuation_is_known_by_its_tag_and_not_by_its_word():
    gold = "(S (NP (NN one) (NN .)) (VP (VB go)))"
    predicted = "(S (NP (NN one)) (NN .) (VP (VB go)))"
    assert counts(gold, predicted) == (2, 3, 3)  # the NPs end in different places


@pytest.mark.parametrize("tag", ["?", "!", "-LRB-", "#", "$"])
def test_tags_outside_the_parameter_file_are_kept(tag):
    gold = f"(S (NP (NN one) ({tag} x)) (VP (VB go)))"
    predicted = f"(S (NP (NN one)) ({tag} x) (VP (VB go)))"
    assert counts(gold, predicted) == (2, 3, 3)


def test_a_deleted_nonterminal_loses_only_its_bracket():
    assert counts("(S (: (NP (NN one))) (VP (VB go)))", "(S (NP (NN one)) (VP (VB go)))") == (3, 3, 3)


def test_a_bracket_over_deleted_words_alone_does_not_count():
    # (PRN (, ,)) holds no word, nor does the SBAR over it
    gold = "(S (NP (NN one)) (SBAR (PRN (, ,))) (VP (VB go)))"
    assert counts(gold, "(S (NP (NN one)) (, ,) (VP (VB go)))") == (3, 3, 3)


def test_traces_are_deleted_from_the_gold_tree():
    gold = "(S (NP (NN one)) (VP (VB go) (NP (-NONE- *T*-1))))"
    assert counts(gold, "(S (NP (NN one)) (VP (VB go)))") == (3, 3, 3)


def test_advp_and_prt_are_equal():
    predicted = score("(S (VP (VB go) (ADVP (RB on))))", "(S (VP (VB go) (PRT (RB on))))")
    assert predicted.details["sentences"] == [(3, 3, 3)]
    assert predicted.details["labels"]["ADVP"] == (1, 1, 1)


def test_function_tags_and_indices_are_stripped():
    assert counts("(S (NP-SBJ=2 (NN one)) (VP=1 (VB go)))", "(S (NP (NN one)) (VP-TPC-3 (VB go)))") == (3, 3, 3)


def test_labels_must_match_and_not_only_spans():
    assert counts("(S (NP (NN one)) (VP (VB go)))", "(S (VP (NN one)) (VP (VB go)))") == (2, 3, 3)


def test_unary_duplicates_match_as_a_multiset():
    once = "(S (NP (NN one)) (VP (VB go)))"
    twice = "(S (NP (NP (NN one))) (VP (VB go)))"
    assert counts(twice, once) == (3, 4, 3)
    assert counts(once, twice) == (3, 3, 4)
    assert counts(twice, twice) == (4, 4, 4)


def test_the_order_within_a_unary_chain_does_not_matter():
    assert counts("(S (NP (VP (VB go))))", "(NP (S (VP (VB go))))") == (3, 3, 3)


def test_preterminals_are_tags_and_not_brackets():
    assert counts("(NN one)", "(NN one)") == (0, 0, 0)
    figures = score("(S (NN one) (VB go))", "(S (NN one) (NN go))").figures
    assert figures["f1"] == 100.0
    assert figures["tagging_accuracy"] == 50.0


def test_figures_are_micro_averages_over_the_corpus():
    # 4 of 4 brackets and 1 of 2 brackets, 3 predicted: recall 5/6, precision 5/7
    gold = [tree(GOLD), tree("(S (NP (NN one) (NN two)) (NN three))")]
    predicted = [tree(GOLD), tree("(S (NN one) (NP (VP (NN two) (NN three))))")]
    found = evalb(gold, predicted)
    assert found.figures["recall"] == pytest.approx(100 * 5 / 6)
    assert found.figures["precision"] == pytest.approx(100 * 5 / 7)
    assert found.figures["f1"] == pytest.approx(100 * 10 / 13)
    assert found.figures["exact_match"] == 50.0
    assert found.details["sentences"] == [(4, 4, 4), (1, 2, 3)]
    # NP (1,3) and VP (1,3) both cross NP (0,2)
    assert found.figures["average_crossing"] == 1.0
    assert found.figures["no_crossing"] == 50.0
    assert found.figures["two_or_less_crossing"] == 100.0


def test_a_predicted_bracket_crosses_at_most_once():
    # VP (1,4) crosses (0,2) and (0,3): counted once. NP (0,3) crosses nothing.
    gold = "(S (NP (NP (A a) (B b)) (C c)) (D d))"
    assert score(gold, "(S (A a) (VP (B b) (C c) (D d)))").figures["average_crossing"] == 1.0
    assert score("(S (A a) (VP (B b) (C c) (D d)))", gold).figures["average_crossing"] == 2.0


def test_a_bracket_inside_another_crosses_nothing_though_they_begin_or_end_together():
    flat = "(S (A a) (B b) (C c))"
    for predicted in ("(S (NP (A a) (B b)) (C c))", "(S (A a) (NP (B b) (C c)))"):
        assert score(flat, predicted).figures["average_crossing"] == 0.0
    beside = score("(S (NP (A a) (B b)) (C c) (D d))", "(S (A a) (B b) (NP (C c) (D d)))")
    assert beside.figures["average_crossing"] == 0.0


def test_crossings_are_averaged_over_the_sentences_that_have_a_tree():
    gold = tree("(S (NP (A a) (B b)) (C c))")
    figures = evalb([gold, gold], [None, tree("(S (A a) (NP (B b) (C c)))")]).figures
    assert figures["average_crossing"] == 1.0 and figures["no_crossing"] == 0.0


def test_a_word_without_a_tag_is_a_word():
    assert counts("(S (NP (NN one)) two)", "(S (NP (NN one) two))") == (1, 2, 2)


def test_more_than_two_crossings_are_counted_apart():
    gold = "(S (NP (A a) (B b)) (C c))"
    figures = score(gold, "(S (A a) (X (Y (Z (B b) (C c)))))").figures
    assert (figures["average_crossing"], figures["two_or_less_crossing"]) == (3.0, 0.0)


@pytest.mark.parametrize("predicted", [None, "(S (NP (NN one)))", "(S (NP (NN one)) (VP (VB went)))", "(S (, ,))"])
def test_an_invalid_prediction_misses_every_gold_bracket(predicted):
    gold = "(S (NP (NN one)) (VP (VB go)))"
    found = evalb([tree(gold), tree(gold)], [tree(gold), None if predicted is None else tree(predicted)])
    assert found.details["sentences"] == [(3, 3, 3), (0, 3, 0)]
    assert found.details["invalid"] == [1]
    assert found.figures == {
        "f1": pytest.approx(200 / 3),
        "precision": 100.0,
        "recall": 50.0,
        "exact_match": 50.0,
        "invalid_rate": 50.0,
        "average_crossing": 0.0,
        "no_crossing": 50.0,
        "two_or_less_crossing": 50.0,
        "tagging_accuracy": 50.0,
    }


def test_a_wrong_tag_on_punctuation_makes_the_sentence_invalid():
    assert score(GOLD, GOLD.replace("(. .)", "(NN .)")).figures["invalid_rate"] == 100.0


def test_a_sentence_of_punctuation_alone_is_left_out():
    found = evalb([tree("(S (. .))"), tree(GOLD)], [tree("(X (. .))"), tree(GOLD)])
    assert found.details["counts"] == {"sentences": 2, "invalid": 0, "empty": 1, "scored": 1}
    assert found.figures["exact_match"] == found.figures["no_crossing"] == 100.0


def test_nothing_predicted_gives_zeros_and_not_nan():
    for figures in (score(GOLD, None).figures, evalb([], []).figures):
        assert figures["f1"] == figures["precision"] == figures["recall"] == figures["exact_match"] == 0.0


def test_sequences_of_different_length_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        evalb([tree(GOLD)], [])


def test_the_signature_says_how_the_figures_were_computed():
    assert (
        score(GOLD, GOLD).signature
        == f"evalb|prm:COLLINS+ROOT,S1,VROOT|tags:gold|errors:count|len:all|version:{__version__}"
    )
    assert "|tags:predicted|" in score(GOLD, GOLD.replace("NNS", "NN")).signature
    assert "|tags:gold|" in score(GOLD, None).signature
    assert score("(S (VB go) (PRT on))", "(S (VB go) (ADVP on))").figures["tagging_accuracy"] == 100.0


def brackets_over(words: list[str]) -> st.SearchStrategy[Tree]:
    """Random trees over the given words, punctuation among them."""

    def split(start: int, end: int) -> st.SearchStrategy[Tree]:
        label = st.sampled_from(["NP", "VP", "ADVP", "PRT", "S-1", "TOP"])
        if end - start == 1:
            leaf = Tree("," if words[start] == "," else "NN", (words[start],))
            return st.one_of(st.just(leaf), label.map(lambda name: Tree(name, (leaf,))))
        return st.integers(start + 1, end - 1).flatmap(
            lambda middle: st.builds(
                lambda name, left, right: Tree(name, (left, right)), label, split(start, middle), split(middle, end)
            )
        )

    return split(0, len(words))


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(["a", "b", ","]), min_size=1, max_size=7).flatmap(
        lambda words: st.tuples(brackets_over(words), brackets_over(words))
    )
)
def test_exchanging_the_trees_exchanges_precision_and_recall(pair):
    first, second = pair
    one, other = evalb([first], [second]), evalb([second], [first])
    assert one.figures["precision"] == other.figures["recall"]
    assert one.figures["f1"] == other.figures["f1"]
    assert evalb([first], [first]).figures["invalid_rate"] == 0.0
    assert sum(row[2] for row in one.details["labels"].values()) == one.details["sentences"][0][0]


def shared_folder() -> Path:
    found = Path(os.environ.get("S2S_SHARED") or Path(__file__).resolve().parents[2] / ".." / "shared")
    if not (found / "fixtures" / "evalb").is_dir():
        pytest.skip(
            "the corpora with the C program's figures lie in a folder `shared` beside the checkout "
            "(or where S2S_SHARED points), and it is not there"
        )
    return found


@pytest.mark.parametrize("name", ["light", "heavy"])
def test_every_figure_of_the_c_program_is_reproduced(name):
    folder = shared_folder() / "fixtures" / "evalb"
    gold, predicted = (
        [found for _, found in read_trees((folder / f"{name}.{kind}").read_text(encoding="utf-8"))]
        for kind in ("gold", "pred")
    )
    theirs = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    names = {
        "recall": "Bracketing Recall",
        "precision": "Bracketing Precision",
        "f1": "Bracketing FMeasure",
        "exact_match": "Complete match",
        "average_crossing": "Average crossing",
        "no_crossing": "No crossing",
        "two_or_less_crossing": "2 or less crossing",
        "tagging_accuracy": "Tagging accuracy",
    }
    ours = evalb(gold, predicted)
    assert {key: f"{ours.figures[key]:.2f}" for key in names} == {
        key: f"{theirs[label]:.2f}" for key, label in names.items()
    }
    assert ours.details["counts"] == {
        "sentences": theirs["Number of sentence"],
        "invalid": 0,
        "empty": 0,
        "scored": theirs["Number of Valid sentence"],
    }
