"""Intervals and paired tests, against plain loops and sacreBLEU's own test."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_suite.metrics.answers import Gold, answer_scores
from seq2seq_suite.metrics.bleu import score_translations
from seq2seq_suite.metrics.error_rate import error_rates
from seq2seq_suite.metrics.evalb import evalb
from seq2seq_suite.metrics.labels import score_labels
from seq2seq_suite.metrics.likelihood import score_likelihood
from seq2seq_suite.metrics.significance import FORMULAS, bleu, compare, f1, figures_of_items, interval, mean
from seq2seq_suite.trees import read_trees

WORDS = tuple("the a red blue small old dog cat man bird sees takes finds with in".split())  # noqa: SIM905


def sentences(rng: random.Random, count: int) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 12))) for _ in range(count)]


def noisy(rng: random.Random, lines: list[str], rate: float) -> list[str]:
    return [" ".join(rng.choice(WORDS) if rng.random() < rate else word for word in line.split()) for line in lines]


def test_f1_and_mean_are_their_definitions():
    sums = np.array([[3.0, 4.0, 8.0], [0.0, 0.0, 0.0]])
    assert f1(sums).tolist() == [50.0, 0.0]
    assert mean(np.array([[3.0, 4.0]])).tolist() == [75.0]
    assert FORMULAS["ratio"](np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [0.75, 0.0]


@pytest.mark.parametrize("name", ["f1", "bleu", "bleu without case", "exact_match", "micro_f1", "bits_per_character",
                                  "wer"])
def test_the_counts_of_all_items_give_the_figure_of_the_corpus(name):
    gold, found = ["The red dog sees a cat.", "A man sings"], ["the red dog takes a cat.", "a man sings with it"]
    trees = [[next(read_trees(text))[1] for text in texts] for texts in (
        ("(S (NP (NN a) (NN b)) (VP (VB c)))", "(S (VB c))"),
        ("(S (NP (NN a)) (NN b) (VP (VB c)))", "(S (VP (VB c)))"))]
    if name == "wer":
        pytest.importorskip("jiwer", reason="comes with the extra `speech`")
    score = {
        "f1": lambda: evalb(*trees), "bleu": lambda: score_translations(found, gold),
        "bleu without case": lambda: score_translations(found, gold, lowercase=True),
        "exact_match": lambda: answer_scores(["The dog", None, "b c"], [Gold(("dog",)), Gold(("a",)), Gold(("b",))]),
        "micro_f1": lambda: score_labels([{"a", "b"}, {"c"}, {"a"}], [{"a"}, {"c", "a"}, None], labels="abc"),
        "bits_per_character": lambda: score_likelihood([-2.0, -5.0], gold, context="x"),
        "wer": lambda: error_rates(found, gold)}[name]()
    sums = np.array(score.counts, dtype=float).sum(0, keepdims=True)
    figure = score.figures[name.partition(" ")[0]]
    assert FORMULAS[score.formula](sums)[0] == pytest.approx(figure) and 0.0 < figure < 100.0


def test_the_interval_is_that_of_a_plain_loop():
    rng = np.random.default_rng(0)
    counts = np.stack([rng.integers(0, 5, 40), rng.integers(5, 9, 40), rng.integers(5, 9, 40)], 1).astype(float)
    found = interval(counts, f1, samples=200, seed=7)
    draws = np.random.default_rng(7).choice(40, size=(200, 40), replace=True)
    values = sorted(200 * counts[row][:, 0].sum() / counts[row][:, 1:].sum() for row in draws)
    assert found.low == pytest.approx(values[5]) and found.high == pytest.approx(values[194])
    assert found.figure == pytest.approx(200 * counts[:, 0].sum() / counts[:, 1:].sum())
    assert interval(counts, f1) == interval(counts, f1, samples=1000, seed=12345)


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_the_interval_of_a_mean_holds_the_mean_and_shrinks_with_more_items(seed):
    rng = np.random.default_rng(seed)
    small = np.stack([rng.random(30) < 0.6, np.ones(30)], 1).astype(float)
    large = np.tile(small, (16, 1))
    one, many = interval(small, mean), interval(large, mean)
    assert one.low <= one.figure <= one.high
    assert many.high - many.low < max(one.high - one.low, 1e-9) or one.high == one.low


@pytest.mark.parametrize("rates", [(0.25, 0.27), (0.27, 0.25)])
@pytest.mark.parametrize("test, kind", [("bootstrap", "bs"), ("randomisation", "ar")])
def test_bleu_and_its_p_value_are_those_of_sacrebleu(test, kind, rates):
    sacrebleu = pytest.importorskip("sacrebleu", reason="comes with the translation task")
    from sacrebleu.significance import PairedTest

    rng = random.Random(3)
    references = sentences(rng, 60)
    first, second = (noisy(rng, references, rate) for rate in rates)
    metric = sacrebleu.metrics.BLEU(tokenize="none", force=True)
    _, theirs = PairedTest([("first", first), ("second", second)], {"BLEU": metric}, [references], kind, 300)()
    counts = [np.array(metric._extract_corpus_statistics(lines, [references]), dtype=float)
              for lines in (first, second)]
    ours = compare(*counts, bleu, test=test, samples=300)
    assert ours.p_value == pytest.approx(theirs["BLEU"][1].p_value) and 0.05 < ours.p_value < 0.95
    assert ours.first == pytest.approx(theirs["BLEU"][0].score)
    assert ours.second == pytest.approx(theirs["BLEU"][1].score)


def plain_p_value(first: np.ndarray, second: np.ndarray, test: str, *, samples: int, seed: int) -> float:
    """Of two systems' hits, two-sided, an item at a time."""
    rng, items, differences = np.random.default_rng(seed), range(len(first)), []
    if test == "bootstrap":
        for draw in rng.choice(len(first), size=(samples, len(first)), replace=True):
            differences.append(abs(sum(second[item] for item in draw) - sum(first[item] for item in draw)))
        centre = sum(differences) / samples
        differences = [difference - centre for difference in differences]
    else:
        for swap in rng.integers(2, size=(samples, len(first)), dtype=bool):
            pairs = [(second[item], first[item]) if swap[item] else (first[item], second[item]) for item in items]
            differences.append(abs(sum(one - other for one, other in pairs)))
    observed = abs(sum(first) - sum(second))
    return (sum(difference > observed + 1e-9 for difference in differences) + 1) / (samples + 1)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_the_p_value_is_two_sided_and_that_of_a_plain_loop(test, swapped):
    kinds = ([1.0, 1.0],) * 20 + ([1.0, 0.0],) * 14 + ([0.0, 1.0],) * 18 + ([0.0, 0.0],) * 12
    hits = np.array(kinds).T  # 34 and 38 of 64 items
    counts = [np.stack([one, np.ones(64)], 1) for one in hits]
    found = compare(*(counts[::-1] if swapped else counts), mean, test=test, samples=150, seed=7)
    expected = plain_p_value(*hits, test, samples=150, seed=7)
    assert found.p_value == pytest.approx(expected) and 0.1 < expected < 0.9
    figures = (found.second, found.first) if swapped else (found.first, found.second)
    assert figures == (100 * 34 / 64, 100 * 38 / 64)


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_systems_that_are_as_good_on_other_items_are_tested_as_any(test):
    hits = np.array(([1.0, 0.0],) * 9 + ([0.0, 1.0],) * 9 + ([1.0, 1.0],) * 14).T
    found = compare(*(np.stack([one, np.ones(32)], 1) for one in hits), mean, test=test, samples=150, seed=7)
    assert found.p_value == pytest.approx(plain_p_value(*hits, test, samples=150, seed=7)) and found.p_value < 1.0


@pytest.mark.parametrize("test, samples", [("bootstrap", 1000), ("randomisation", 10_000)])
def test_tests_draw_as_often_as_sacrebleu_does(test, samples):
    poor = np.array([[0.0, 1.0]] * 40)
    good = np.array([[1.0, 1.0]] * 40)
    assert compare(poor, good, mean, test=test).p_value == pytest.approx(1 / (samples + 1))


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_a_system_beside_itself_is_not_different_and_a_far_better_one_is(test):
    rng = np.random.default_rng(1)
    poor = np.stack([rng.random(200) < 0.5, np.ones(200)], 1).astype(float)
    good = poor.copy()
    good[:60, 0] = 1.0
    assert compare(poor, good, mean, test=test).p_value < 0.01
    same = compare(poor, poor, mean, test=test)
    assert same.first == same.second and same.p_value == 1.0


def test_different_items_are_refused():
    with pytest.raises(ValueError, match="not the same items"):
        compare(np.ones((3, 2)), np.ones((4, 2)), mean)


def test_every_formula_takes_many_rows_at_once():
    rows = {"mean": [[1.0, 2.0]], "ratio": [[1.0, 2.0]], "f1": [[1.0, 2.0, 2.0]],
            "bleu": [[9.0, 9.0, 9, 8, 7, 6, 9, 8, 7, 6]]}
    if "bleu" in FORMULAS:
        pytest.importorskip("sacrebleu", reason="comes with the translation task")
    assert rows.keys() == FORMULAS.keys()
    for name, formula in FORMULAS.items():
        one = formula(np.array(rows[name], dtype=float))
        assert formula(np.array(rows[name] * 3, dtype=float)).tolist() == pytest.approx(one.tolist() * 3)


def test_an_items_own_figure_is_sacrebleus_sentence_score():
    outputs = ["a red dog", "the cat sat on the mat", "", "no"]
    references = ["a red dog", "a cat sat on a mat", "x", "no"]
    found = figures_of_items(score_translations(outputs, references))
    from sacrebleu.metrics import BLEU

    judge = BLEU(effective_order=True)
    assert found == pytest.approx([judge.sentence_score(output, [reference]).score
                                   for output, reference in zip(outputs, references, strict=True)])
