"""Baselines without learning: what they predict, and that a run records their figures."""

import json
import math
from collections import Counter

import pytest
from small_run import small_config, start, write_trees
from task_tools import examples_of, installed, make_task, others

from seq2seq_suite import miniworld
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.tasks import trivial

TRAIN = [
    Example(text, f"output {place}", "")
    for place, text in enumerate(
        ("a cat sees the dog", "a dog sees the cat and the bird", "the bird sings", "a fish", "狗 看见 猫", "鸟 唱歌")
    )
]


def test_a_training_source_itself_is_nearest_to_its_own_words():
    assert trivial.nearest(TRAIN, TRAIN) == [example.reference for example in TRAIN]
    turned = [Example(" ".join(reversed(example.source.split())), None, "") for example in TRAIN]
    assert trivial.nearest(TRAIN, turned) == [example.reference for example in TRAIN]
    assert trivial.nearest(TRAIN, [Example("nothing known", None, "")]) == ["output 0"]


def test_a_rare_word_counts_for_more_than_a_frequent_one():
    assert trivial.nearest(TRAIN, [Example("the the the fish", None, "")]) == ["output 3"]


def test_frequencies_of_letters_are_a_distribution():
    train = [Example("", text, "") for text in ("abba", "ab", "c")]
    end, *letters = (
        math.exp(value)
        for value in trivial.likelihood_of_letters(train, [Example("", text, "") for text in ("", "a", "b", "c", "?")])
    )
    assert end + sum(letter / end for letter in letters) == pytest.approx(1.0)


def test_tags_of_words_are_the_most_frequent_of_each_word_and_of_all():
    rows = miniworld.rows("tags", "train", size=200)
    examples = [Example(tuple(row["words"]), tuple(row["tags"]), "") for row in rows]
    (found,) = trivial.tags_of_words(examples, [Example(("The", "xyz"), None, "")])
    pairs = [(word, tag) for one in examples for word, tag in zip(one.source, one.reference, strict=True)]
    assert found == tuple(
        Counter(tag for word, tag in pairs if word == "The" or whole).most_common(1)[0][0] for whole in (False, True)
    )


def test_right_branching_trees_have_the_words_and_tags_of_the_reference():
    tree = next(read_trees("(S (NP (D the) (N cat)) (VP (V sees) (NP (D a) (N dog))))"))[1]
    (found,) = trivial.right_branching([Example((), tree, "")], [Example((), tree, "")])
    assert (found.words(), found.tags()) == (tree.words(), tree.tags())
    assert str(found) == "(NP (D the) (NP (N cat) (NP (V sees) (NP (D a) (N dog)))))"
    one = next(read_trees("(S (N cat))"))[1]
    assert str(trivial.right_branching([Example((), tree, "")], [Example((), one, "")])[0]) == "(NP (N cat))"


@pytest.mark.parametrize("name", others())
def test_each_baseline_of_a_task_has_a_figure(name):
    installed(name)
    task = make_task(name)
    train, test = (examples_of(name, split, size=40) for split in ("train", "test"))
    task.fit(train)
    figures = trivial.figures(task, iter(train), test)
    assert list(figures) == list(task.presentation.baselines)
    assert all(0.0 <= figure <= 100.0 for figure in figures.values())
    assert trivial.figures(task, iter(train), []) == {}
    known = trivial.figures(task, iter(train), train)
    assert known.get("nearest training example", 100.0) > 90.0


def test_a_run_records_the_figures_of_its_baselines(tmp_path):
    summary = start(
        small_config(write_trees(tmp_path / "data"), max_updates=2, validate_every=2, log_every=2), tmp_path / "run"
    )
    figure = summary["baselines"]["test"]["right-branching trees"]
    assert 0.0 < figure < 100.0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["baselines"] == summary["baselines"]
    assert f"right-branching trees {figure:.2f}" in (tmp_path / "run" / "report.html").read_text()
