"""What is written of a split: rows that say what is equal, and what a page draws."""

import json

import pytest
from task_tools import make_task

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.metrics.answers import Gold
from seq2seq_suite.prediction.evaluate import MOST_SHOWN, record, rows_to_show
from seq2seq_suite.runs.run_directory import RunDirectory


@pytest.fixture
def written(tmp_path):
    task = make_task("translation")
    examples = [Example("the old dog", "der alte Hund", "a:1"), Example("a cat", "eine Katze", "a:2")]
    record(RunDirectory(tmp_path), task, "test", examples, ["der alte Hund", None])
    folder = tmp_path / "predictions"
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()]
    return rows, *(json.loads((folder / f"test.{kind}.json").read_text()) for kind in ("details", "shown"))


def test_each_row_says_whether_it_is_equal_and_how_long_its_source_is(written):
    rows = written[0]
    assert [(row["equal"], row["kinds"], row["length"], row["facts"]) for row in rows] == [
        (True, [], 3.0, {}),
        (False, ["malformed"], 2.0, {}),
    ]


def test_the_details_say_how_outputs_are_drawn(written):
    assert written[1]["drawing"] == "text" and written[1]["length_unit"] == "words"
    assert isinstance(written[1]["panels"], list)


def test_what_a_page_draws_is_kept_for_the_chosen_rows(written):
    assert list(written[2]) == ["0", "1"]
    assert written[2]["0"]["source"]["text"] == "the old dog"
    assert written[2]["1"]["reference"]["text"] == "eine Katze" and written[2]["1"]["prediction"]["text"] == ""


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_at_most_so_many_rows_are_chosen_with_the_worst_the_longest_and_each_kind(higher_is_better):
    rows = [
        {
            "equal": number % 2 == 0,
            "kinds": ("rare",) if number == 701 else ("order",) if number % 2 else (),
            "length": number % 77,
        }
        for number in range(1000)
    ]
    chosen = rows_to_show(rows, [float(number) for number in range(1000)], higher_is_better=higher_is_better)
    assert len(chosen) == len(set(chosen)) == MOST_SHOWN and chosen[0] == (1 if higher_is_better else 999)
    assert (1 if higher_is_better else 999) in chosen and 701 in chosen
    assert any(rows[row]["length"] == 76 for row in chosen) and any(rows[row]["equal"] for row in chosen)
    assert chosen == rows_to_show(rows, [float(number) for number in range(1000)], higher_is_better=higher_is_better)


def test_without_figures_of_examples_the_wrong_ones_come_first():
    rows = [{"equal": number != 5, "kinds": (), "length": 1} for number in range(1000)]
    assert 5 in rows_to_show(rows, [None] * 1000, higher_is_better=True)


def judged(name, prediction, reference, source="a b"):
    return make_task(name).presentation.judge(prediction, reference, Example(source, reference))


def test_texts_are_equal_whatever_their_blanks():
    assert judged("translation", "der Hund .", "der Hund.").equal
    assert judged("translation", "ein Hund.", "der Hund.").kinds == ("substituted",)


def test_a_wrong_tag_is_named_with_the_right_one():
    found = judged("tagging", ("DT", "VB"), ("DT", "NN"), ("the", "dog"))
    assert not found.equal and found.kinds == ("NN as VB",)
    assert judged("tagging", ("DT", "NN"), ("DT", "NN"), ("the", "dog")).equal


def test_trees_are_equal_where_evalb_sees_the_same_brackets():
    trees = [
        next(read_trees(text))[1]
        for text in (
            "(TOP (S (NP (NN it)) (VP (VBZ is)) (. .)))",
            "(S (NP (NN it)) (VP (VBZ is) (. .)))",
            "(S (ADJP (NN it)) (VP (VBZ is)) (. .))",
        )
    ]
    assert judged("parsing", trees[1], trees[0]).equal
    assert judged("parsing", trees[2], trees[0]).kinds == ("label",)
    assert judged("parsing", None, trees[0]).kinds == ("malformed",)


def test_labels_are_judged_as_sets_and_answers_as_exact_match_does():
    assert judged("multilabel", ("b", "a"), ("a", "b")).equal
    assert judged("multilabel", ("a", "c"), ("a", "b")).kinds == ("missing", "added")
    assert judged("qa", "The Kitchen.", Gold(("kitchen",))).equal
    assert judged("qa", "big kitchen", Gold(("kitchen",))).kinds == ("partly right",)
