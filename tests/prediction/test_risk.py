"""Minimum-Bayes-risk decoding: by hand, against loops, for every task of the table, and over a run's own candidates."""

import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_run import small_config, start, write_trees
from task_tools import examples_of, installed, make_task, others

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.common.types import Hypothesis
from seq2seq_suite.config.config_file import load
from seq2seq_suite.experiments import verbs
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.prediction.risk import by_risk
from seq2seq_suite.tasks import TASKS

SAMPLED = SearchOptions(risk=4)
WITHOUT = ("detection", "language_model")  # no metric of theirs compares two outputs
OUTPUTS = {  # three outputs of one source
    "parsing": [
        next(read_trees(f"(TOP (S ({one} (NN cats)) (VP (VBP sleep) ({other} (RB well)))))"))[1]
        for one, other in (("NP", "ADVP"), ("NP", "ADJP"), ("FRAG", "ADJP"))
    ],
    "translation": ["cats sleep all day long", "cats sleep all the day", "a dog barks at night"],
    "speech_translation": ["cats sleep all day long", "cats sleep all the day", "a dog barks at night"],
    "summarisation": ["cats sleep all day long", "cats sleep all the day", "a dog barks at night"],
    "qa": ["two cats", "the two cats", "dogs"],
    "multilabel": [("cats", "dogs"), ("cats",), ("wolves", "cats", "dogs")],
    "asr": ["cats sleep all day", "cats sleep the day", "a dog barks"],
    "tagging": [("NNS", "VBP", "RB"), ("NNS", "VBP", "NN"), ("NN", "VBP", "NN")],
}
OUTPUTS |= {name: [one.reference for one in examples_of(name, size=3)] for name in others(*OUTPUTS, *WITHOUT)}


class Sets:
    """A task whose outputs are strings of letters, compared as sets by F1, or by the share of wrong letters."""

    primary_metric = "figure"

    def __init__(self, *, higher_is_better=True):
        self.higher_is_better = higher_is_better

    def read_hypothesis(self, hypothesis, example):
        text = "".join(map(chr, hypothesis.symbols))
        return None if "?" in text else text

    def to_text(self, output):
        return output

    def score(self, outputs, references):
        pairs = [(set(one), set(other)) for one, other in zip(outputs, references, strict=True)]
        if self.higher_is_better:
            return Score({}, "", formula="f1", counts=tuple((len(a & b), len(b), len(a)) for a, b in pairs))
        return Score({}, "", formula="mean", counts=tuple((len(a ^ b), len(b)) for a, b in pairs))


def texts_of(*texts):
    return [Hypothesis(tuple(map(ord, text)), -float(place)) for place, text in enumerate(texts)]


def ranked(task, candidates, options=SAMPLED, example=None):
    """Those of one example."""
    return by_risk(task, [example or Example("")], [candidates], options)[0]


def chosen(task, *texts):
    return ["".join(map(chr, one.symbols)) for one in ranked(task, texts_of(*texts))]


def test_three_candidates_by_hand():
    """F1: ab and abc 0.8, abc and cd 0.4, ab and cd 0; an output agrees with itself."""
    found = ranked(Sets(), texts_of("ab", "cd", "abc"))
    assert [one.symbols for one in found] == [tuple(map(ord, text)) for text in ("abc", "ab", "cd")]
    assert [one.score for one in found] == pytest.approx([220 / 3, 180 / 3, 140 / 3])


def test_three_candidates_by_hand_of_an_error_rate():
    """Letters too many or too few by those of the other: abc to ab 1/2, ab to abc 1/3, ab to cd 2, no less than 0."""
    found = ranked(Sets(higher_is_better=False), texts_of("ab", "cd", "abc"))
    assert [one.symbols for one in found] == [tuple(map(ord, text)) for text in ("ab", "abc", "cd")]
    assert [one.score for one in found] == pytest.approx([(300 - 400 / 3) / 3, 150 / 3, 100 / 3])


@pytest.mark.parametrize("penalty", [0.0, 1.5])
def test_outputs_of_a_beam_count_by_their_probabilities(penalty):
    """Of ab 0.6, cd 0.3 and abc 0.1, F1 as above; the score is one after the length penalty."""
    options = SearchOptions(risk=3, beam_size=3, length_penalty=penalty)
    outputs = [
        Hypothesis(tuple(map(ord, text)), options.normalise(math.log(share / 5), len(text) + 1))
        for text, share in (("ab", 0.6), ("cd", 0.3), ("abc", 0.1))
    ]
    found = ranked(Sets(), outputs, options)
    assert [one.symbols for one in found] == [tuple(map(ord, text)) for text in ("abc", "ab", "cd")]
    assert [one.score for one in found] == pytest.approx([48 + 12 + 10, 60 + 8, 30 + 4])
    unlikely = [replace(one, score=one.score - 1e4) for one in outputs[:1]] + outputs[1:]
    assert ranked(Sets(), unlikely, options)[0].symbols == outputs[1].symbols


def test_candidates_count_as_often_as_they_were_found_and_equal_ones_keep_their_order():
    assert chosen(Sets(), "x", "y", "y") == ["y", "y", "x"]
    assert chosen(Sets(), "x", "y") == ["x", "y"] and chosen(Sets(), "y", "x") == ["y", "x"]
    assert chosen(Sets(), "q") == ["q"] and chosen(Sets()) == []


@pytest.mark.parametrize("better", [True, False])
def test_malformed_candidates_are_last_and_empty_ones_agree_with_themselves_alone(better):
    task = Sets(higher_is_better=better)
    assert chosen(task, "?", "?", "ab", "?") == ["ab", "?", "?", "?"] and chosen(task, "?", "?") == ["?", "?"]
    assert chosen(task, "ab", "", "")[0] == "" and chosen(task, "ab", "", "ab")[0] == "ab"
    found = ranked(task, texts_of("ab", "", "?"))
    assert [one.score for one in found] == [50.0, 50.0, 0.0]


def test_where_only_equal_outputs_agree_the_mode_of_the_samples_is_chosen():
    task, draw = make_task("qa"), random.Random(1)
    task.read_hypothesis = lambda hypothesis, example: "abcde"[hypothesis.symbols[0]]
    for _ in range(20):
        drawn = draw.choices(range(5), [5, 4, 3, 2, 1], k=draw.choice([1, 8, 64]))
        best = ranked(task, [Hypothesis((one,), 0.0) for one in drawn])[0]
        count = Counter(drawn)
        assert count[best.symbols[0]] == max(count.values())
        assert best.score == pytest.approx(100 * max(count.values()) / len(drawn))


def test_the_table_of_outputs_has_all_tasks():
    assert {*OUTPUTS, *WITHOUT} == {*TASKS}


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_utility_is_the_task_s_own_metric_of_each_pair(name):
    installed(name)
    task, outputs = make_task(name), OUTPUTS[name]
    task.read_hypothesis = lambda hypothesis, example: outputs[hypothesis.symbols[0]]
    found = ranked(task, [Hypothesis((place,), 0.0) for place in (0, 1, 2, 2)])
    means = {}
    for place, one in enumerate(outputs):
        figures = [
            100.0 * task.higher_is_better if other is one else task.score([one], [other]).figures[task.primary_metric]
            for other in (*outputs, outputs[2])
        ]
        means[place] = sum(one if task.higher_is_better else max(0.0, 100.0 - one) for one in figures) / 4
    assert {one.symbols[0]: one.score for one in found} == pytest.approx(means)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_a_task_without_counts_has_the_figure_of_each_pair_alone():
    class Plain(Sets):
        def score(self, outputs, references):
            pairs = zip(outputs, references, strict=True)
            return Score({"figure": sum(100.0 * (one[0] == other[0]) for one, other in pairs)}, "")

    assert chosen(Plain(), "xa", "ya", "yb") == ["ya", "yb", "xa"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = write_trees(tmp_path_factory.mktemp("data"))
    directory = tmp_path_factory.mktemp("run") / "run"
    start(small_config(folder, max_updates=30, learning_rate=1e-2), directory)
    return directory


def opened(run, *settings):
    loaded = open_run(run, list(settings))
    examples = loaded.task.read("test")
    return loaded.predictor, examples, loaded.task.encode(examples)


def test_one_candidate_is_the_plain_output(run):
    for settings in ([], ["search.beam_size=3"]):
        predictor, examples, encoded = opened(run, *settings)
        plain = predictor.hypotheses(encoded)
        for risk in (0, 1):
            one = replace(predictor, options=predictor.options.changed(risk=risk))
            assert one.hypotheses(encoded, examples) == plain


def test_samples_are_the_same_each_time_and_leave_the_random_state(run):
    predictor, examples, encoded = opened(run, "search.risk=4")
    before = torch.get_rng_state()
    found = predictor.hypotheses(encoded, examples)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert predictor.hypotheses(encoded, examples) == found and all(len(one) == 1 for one in found)
    predictor.task.seed += 1
    other = predictor.hypotheses(encoded, examples)
    assert other != found


def test_candidates_are_the_samples_or_the_beam(run):
    for settings in (["search.beam_size=3"], ["search.sampling=true"], ["search.sampling=true", "search.top_p=0.9"]):
        predictor, examples, encoded = opened(run, *settings)
        several = replace(predictor, options=predictor.options.changed(num_hypotheses=3))
        torch.manual_seed(predictor.task.seed)
        candidates = several.hypotheses(encoded)
        risky, *_ = opened(run, *settings, "search.risk=3")
        found = risky.hypotheses(encoded, examples)
        expected = by_risk(predictor.task, examples, candidates, risky.options)
        alone = zip(examples, candidates, strict=True)
        assert expected == [ranked(predictor.task, some, risky.options, example) for example, some in alone]
        assert found == [one[:1] for one in expected]
        wide = replace(risky, options=risky.options.changed(num_hypotheses=3))
        assert wide.hypotheses(encoded, examples) == expected


def test_all_ways_to_a_run_s_outputs_have_the_same(run):
    predictor, examples, encoded = opened(run, "search.risk=4")
    own = predictor.predictions(examples, predictor.hypotheses(encoded, examples))
    assert predictor.score(examples, encoded)[1] == own
    loaded = open_run(run, ["search.risk=4"])
    assert [found[0][0] for found in loaded.predict(examples)] == own
    assert [found[0][0] for found in loaded.predict(examples, num_hypotheses=3)] == own
    summary = verbs.evaluate(run, split="test", data=None, overrides=["search.risk=4"])
    assert list(summary["splits"]) == ["test@risk=4"]


@pytest.mark.parametrize(
    ("task", "settings", "said"),
    [
        ("translation", "strategy.kind=blocks", "search.risk 4 has no effect with strategy.kind blocks"),
        ("translation", "strategy.kind=cut_at_end", "search.risk 4 has no effect with strategy.kind cut_at_end"),
        ("detection", "strategy.kind=slots", "search.risk 4 has no effect with strategy.kind slots"),
        ("detection", "", "search.risk 4 has no effect with task detection"),
        ("language_model", "", "search.risk 4 has no effect with task language_model"),
        ("translation", "strategy.kind=ctc", "search.risk 4 has no effect with search.beam_size 1"),
        ("translation", "strategy.kind=length_head", "search.risk 4 has no effect with search.beam_size 1"),
        ("translation", "search.beam_size=3", "search.risk 4 exceeds search.beam_size 3"),
        ("translation", "search.drafter=runs/other", "search.drafter runs/other has no effect with search.risk 4"),
        ("asr", "search.ctc_weight=1.0 strategy.ctc_weight=0.3", "search.risk 4 has no effect with search.ctc_weight"),
        (
            "parsing",
            "strategy.kind=length_head parsing.linearisation=tetra_tags parsing.guide=false search.beam_size=4",
            "has no effect with parsing.linearisation tetra_tags",
        ),
    ],
)
def test_what_has_no_candidates_or_no_metric_is_refused_by_name(tmp_path, monkeypatch, task, settings, said):
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(f"task: {task}\n")
    with pytest.raises(ConfigError) as found:
        load(Path("p.yaml"), [*settings.split(), "search.risk=4"])
    assert said in str(found.value)


@pytest.mark.parametrize(
    "settings",
    [
        "search.top_p=0.9 search.temperature=0.8",
        "search.beam_size=4",
        "strategy.kind=ctc search.beam_size=4",
        "strategy.kind=dag search.beam_size=4",
        "strategy.kind=mask_predict search.beam_size=4",
    ],
)
def test_samples_and_beams_of_any_decoder_are_candidates(tmp_path, settings):
    (tmp_path / "p.yaml").write_text("task: translation\n")
    assert load(tmp_path / "p.yaml", [*settings.split(), "search.risk=4"]).search.risk == 4


def test_the_exit_code_of_a_refusal_is_2(run, capsys):
    assert cli.main(["evaluate", str(run), "search.risk=4", "search.beam_size=2"]) == 2
    assert "search.risk 4 exceeds search.beam_size 2" in capsys.readouterr().err
