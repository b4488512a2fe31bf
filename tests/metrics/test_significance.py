"""Intervals and paired tests, against plain loops and sacreBLEU's own test."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_suite.metrics.bleu import score_translations
from seq2seq_suite.metrics.significance import FORMULAS, bleu, compare, f1, figures_of_items, interval, mean

WORDS = tuple("the a red blue small old dog cat man bird sees takes finds with in".split())  # noqa: SIM905


def sentences(rng: random.Random, count: int) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 12))) for _ in range(count)]


def noisy(rng: random.Random, lines: list[str], rate: float) -> list[str]:
    return [" ".join(rng.choice(WORDS) if rng.random() < rate else word for word in line.split()) for line in lines]


def test_f1_and_mean_are_their_definitions():
    sums = np.array([[3.0, 4.0, 8.0], [0.0, 0.0, 0.0]])
    assert f1(sums).tolist() == [50.0, 0.0]
    assert mean(np.array([[3.0, 4.0]])).tolist() == [75.0]


def test_the_interval_is_that_of_a_plain_loop():
    rng = np.random.default_rng(0)
    counts = np.stack([rng.integers(0, 5, 40), rng.integers(5, 9, 40), rng.integers(5, 9, 40)], 1).astype(float)
    found = interval(counts, f1, samples=200, seed=7)
    draws = np.random.default_rng(7).choice(40, size=(200, 40), replace=True)
    values = sorted(200 * counts[row][:, 0].sum() / counts[row][:, 1:].sum() for row in draws)
    assert found.low == pytest.approx(values[5]) and found.high == pytest.approx(values[194])
    assert found.figure == pytest.approx(200 * counts[:, 0].sum() / counts[:, 1:].sum())


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_the_interval_of_a_mean_holds_the_mean_and_shrinks_with_more_items(seed):
    rng = np.random.default_rng(seed)
    small = np.stack([rng.random(30) < 0.6, np.ones(30)], 1).astype(float)
    large = np.tile(small, (16, 1))
    one, many = interval(small, mean), interval(large, mean)
    assert one.low <= one.figure <= one.high
    assert many.high - many.low < max(one.high - one.low, 1e-9) or one.high == one.low


@pytest.mark.parametrize("test, kind", [("bootstrap", "bs"), ("randomisation", "ar")])
def test_bleu_and_its_p_value_are_those_of_sacrebleu(test, kind):
    sacrebleu = pytest.importorskip("sacrebleu", reason="comes with the translation task")
    from sacrebleu.significance import PairedTest

    rng = random.Random(3)
    references = sentences(rng, 60)
    first, second = noisy(rng, references, 0.25), noisy(rng, references, 0.33)
    metric = sacrebleu.metrics.BLEU(tokenize="none", force=True)
    _, theirs = PairedTest([("first", first), ("second", second)], {"BLEU": metric}, [references], kind, 300)()
    counts = [np.array(metric._extract_corpus_statistics(lines, [references]), dtype=float)
              for lines in (first, second)]
    ours = compare(*counts, bleu, test=test, samples=300)
    assert ours.p_value == pytest.approx(theirs["BLEU"][1].p_value)
    assert ours.first == pytest.approx(theirs["BLEU"][0].score)
    assert ours.second == pytest.approx(theirs["BLEU"][1].score)


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
