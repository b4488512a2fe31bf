"""Intervals and paired tests: their laws, plain loops, and the tests of SciPy and sacreBLEU."""

import itertools
import math
import random

import numpy as np
import pytest
from daily import daily
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.metrics.answers import Gold, answer_scores
from seq2seq_suite.metrics.bleu import score_translations
from seq2seq_suite.metrics.error_rate import error_rates
from seq2seq_suite.metrics.evalb import evalb
from seq2seq_suite.metrics.labels import score_labels
from seq2seq_suite.metrics.likelihood import score_likelihood
from seq2seq_suite.metrics.significance import (
    FORMULAS,
    bleu,
    compare,
    compare_seeds,
    f1,
    figures_of_items,
    holm,
    interval,
    mean,
    scale_of,
    t_interval,
)

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


@pytest.mark.parametrize(
    "name", ["f1", "bleu", "bleu without case", "exact_match", "micro_f1", "bits_per_character", "wer"]
)
def test_the_counts_of_all_items_give_the_figure_of_the_corpus(name):
    gold, found = ["The red dog sees a cat.", "A man sings"], ["the red dog takes a cat.", "a man sings with it"]
    trees = [
        [next(read_trees(text))[1] for text in texts]
        for texts in (
            ("(S (NP (NN a) (NN b)) (VP (VB c)))", "(S (VB c))"),
            ("(S (NP (NN a)) (NN b) (VP (VB c)))", "(S (VP (VB c)))"),
        )
    ]
    if name == "wer":
        pytest.importorskip("jiwer", reason="comes with the extra `speech`")
    score = {
        "f1": lambda: evalb(*trees),
        "bleu": lambda: score_translations(found, gold),
        "bleu without case": lambda: score_translations(found, gold, lowercase=True),
        "exact_match": lambda: answer_scores(["The dog", None, "b c"], [Gold(("dog",)), Gold(("a",)), Gold(("b",))]),
        "micro_f1": lambda: score_labels([{"a", "b"}, {"c"}, {"a"}], [{"a"}, {"c", "a"}, None], labels="abc"),
        "bits_per_character": lambda: score_likelihood([-2.0, -5.0], gold, context="x"),
        "wer": lambda: error_rates(found, gold),
    }[name]()
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


def items(*columns):
    """(N,K) counts."""
    return np.stack(np.broadcast_arrays(*columns), 1).astype(float)


def like_bleu(sums):
    """A geometric mean of two precisions with a brevity penalty, of many rows at once."""
    precisions = np.maximum(sums[:, [0, 2]], 0.5) / np.maximum(sums[:, [1, 3]], 1.0)
    return 100.0 * np.sqrt(precisions.prod(1)) * np.exp(np.minimum(0.0, 1.0 - sums[:, 4] / np.maximum(sums[:, 1], 1.0)))


def two_equal_systems(kind, rng, count, rate):
    """Counts of two systems whose outputs are drawn alike."""
    if kind == "right or wrong":
        return [items(rng.random(count) > rate, 1.0) for _ in range(2)]
    if kind in ("continuous", "unlike spreads"):
        level = rng.normal(50.0, 15.0, count)
        return [
            items(level + rng.normal(0.0, spread, count), 1.0)
            for spread in ((10.0, 10.0) if kind == "continuous" else (3.0, 15.0))
        ]
    right, lengths = 1.0 - rng.beta(1.0, 1.0 / rate - 1.0, count), rng.integers(4, 25, count)
    written = [np.maximum(2, lengths + rng.integers(-1, 2, count)) for _ in range(2)]
    if kind == "f1":
        return [items(rng.binomial(np.minimum(one, lengths), right), lengths, one) for one in written]
    return [
        items(rng.binomial(one, right), one, rng.binomial(one - 1, right**1.3), one - 1, lengths) for one in written
    ]


FORMULA_OF = {"f1": f1, "bleu": like_bleu}


@pytest.mark.parametrize("count", [10, 300, 5000])
@pytest.mark.parametrize("name", ["mean", "errors", "ratio", "f1", "bleu"])
def test_one_item_that_differs_has_p_1(name, count):
    rng = np.random.default_rng(count)
    lengths, hits = rng.integers(5, 20, count), rng.integers(0, 5, count)
    first = {
        "mean": items(rng.random(count) < 0.9, 1.0),
        "errors": items(hits, lengths),
        "ratio": items(rng.random(count), lengths),
        "f1": items(hits, lengths, lengths),
        "bleu": items(
            lengths,
            lengths,
            *(hits - np.minimum(hits, 1) * (order > 0) for order in range(4)),
            *(lengths - order for order in range(4)),
        ),
    }[name]
    second = first.copy()
    second[-1, 2 if name == "bleu" else 0] += 1.0 if name != "mean" else 1.0 - 2.0 * first[-1, 0]
    found = compare(first, second, FORMULAS.get(name, mean))
    assert found.p_value == 1.0 and found.first != found.second
    if count != 300 or name == "mean":
        expected = "no difference (within 0.5)" if count == 5000 and name != "ratio" else "not resolved"
        assert found.verdict(1.0, margin=0.0 if name == "ratio" else 0.5) == expected


EQUAL = (
    ("right or wrong", 50, 0.05),
    ("right or wrong", 50, 0.5),
    ("right or wrong", 300, 0.01),
    ("right or wrong", 300, 0.2),
    ("right or wrong", 1000, 0.01),
    ("right or wrong", 1000, 0.5),
    ("f1", 50, 0.02),
    ("f1", 300, 0.2),
    ("bleu", 50, 0.4),
    ("bleu", 300, 0.05),
    ("continuous", 50, 0.1),
    ("continuous", 1000, 0.1),
    ("unlike spreads", 300, 0.1),
)


@pytest.mark.parametrize(
    ("kind", "count", "rate"),
    daily(
        EQUAL,
        ("right or wrong", 50, 0.05),
        ("f1", 50, 0.02),
        ("bleu", 50, 0.4),
        ("continuous", 50, 0.1),
        ("unlike spreads", 300, 0.1),
    ),
)
def test_of_equal_systems_at_most_six_in_a_hundred_differ(kind, count, rate):
    rng = np.random.default_rng(0)
    found = [
        compare(*two_equal_systems(kind, rng, count, rate), FORMULA_OF.get(kind, mean), samples=60, seed=seed)
        for seed in range(2000)
    ]
    assert sum(one.p_value < 0.05 for one in found) / 2000 <= 0.06


@pytest.mark.parametrize(
    ("worse", "count"),
    daily(itertools.product([0.0, 0.001, 0.005], [300, 1000, 3000]), (0.0, 1000), (0.005, 300)),
)
def test_half_a_point_is_seldom_called_no_difference(count, worse):
    rng = np.random.default_rng(1)
    wrongly = 0
    for _ in range(1000):
        kinds = rng.choice(3, size=count, p=[worse + 0.005, worse, 1.0 - 2 * worse - 0.005])
        found = compare(items(kinds != 0, 1.0), items(kinds != 1, 1.0), mean)
        wrongly += found.verdict(1.0).startswith("no difference")
    assert wrongly / 1000 <= 0.06


@pytest.mark.parametrize("name", ["f1", "right or wrong", "continuous", "bleu"])
def test_ten_items_have_the_p_value_of_all_swaps(name):
    rng = np.random.default_rng(14)
    first, second = two_equal_systems(name, rng, 10, 0.5)
    formula, distances = FORMULA_OF.get(name, mean), []
    for swaps in itertools.product((False, True), repeat=10):
        swap = np.array(swaps)[:, None]
        one, two = np.where(swap, second, first).sum(0), np.where(swap, first, second).sum(0)
        distances.append(abs(formula(two[None])[0] - formula(one[None])[0]))
    expected = np.mean(np.array(distances) >= distances[0] - 1e-9)
    assert compare(first, second, formula).p_value == pytest.approx(expected) and 0.0 < expected < 1.0


@pytest.mark.parametrize("swapped", [False, True])
def test_right_and_wrong_items_have_scipys_binomial_p_value(swapped):
    for only_first, only_second in ((3, 0), (5, 1), (18, 4), (9, 9), (30, 12)):
        hits = np.array(([1, 0],) * only_first + ([0, 1],) * only_second + ([1, 1],) * 40).T
        counts = [items(one, 1.0) for one in (hits[::-1] if swapped else hits)]
        found = compare(*counts, mean)
        assert found.test == "McNemar's test" and found.p_value == pytest.approx(
            stats.binomtest(only_first, only_first + only_second).pvalue
        )


def test_continuous_items_have_scipys_p_values():
    rng = np.random.default_rng(2)
    for shift in (0.0, 0.8, 1.5, 2.5):
        first = rng.normal(50.0, 15.0, 150)
        second = first + rng.normal(shift, 10.0, 150)
        found = compare(items(first, 1.0), items(second, 1.0), mean)
        theirs = stats.permutation_test(
            (first, second), lambda one, two: np.mean(one - two), n_resamples=2000, permutation_type="samples", rng=1
        )
        assert found.test == "randomisation test" and found.p_value == pytest.approx(theirs.pvalue, abs=0.03)
        assert found.p_value == pytest.approx(stats.ttest_rel(first, second).pvalue, abs=0.02)
        assert (found.low, found.high) == pytest.approx(
            [100.0 * end for end in stats.ttest_rel(second, first).confidence_interval()], abs=10.0
        )


def test_the_test_finds_as_much_as_a_paired_t_test():
    rng, found = np.random.default_rng(3), []
    for seed in range(400):
        first = rng.normal(50.0, 15.0, 100)
        second = first + rng.normal(2.5, 10.0, 100)
        found.append(
            (
                compare(items(first, 1.0), items(second, 1.0), mean, samples=200, seed=seed).p_value < 0.05,
                stats.ttest_rel(first, second).pvalue < 0.05,
            )
        )
    ours, theirs = np.mean(found, axis=0)
    assert 0.6 < theirs < 0.8 and abs(ours - theirs) < 0.03


@pytest.mark.parametrize("rates", [(0.25, 0.27), (0.27, 0.25)])
def test_bleu_is_sacrebleus_and_so_is_its_p_value_where_nothing_ties(rates):
    sacrebleu = pytest.importorskip("sacrebleu", reason="comes with the translation task")
    from sacrebleu.significance import PairedTest

    rng = random.Random(3)
    references = sentences(rng, 60)
    first, second = (noisy(rng, references, rate) for rate in rates)
    metric = sacrebleu.metrics.BLEU(tokenize="none", force=True)
    _, theirs = PairedTest([("first", first), ("second", second)], {"BLEU": metric}, [references], "ar", 2000)()
    counts = [
        np.array(metric._extract_corpus_statistics(lines, [references]), dtype=float) for lines in (first, second)
    ]
    ours = compare(*counts, bleu, samples=2000)
    assert ours.p_value == pytest.approx(theirs["BLEU"][1].p_value, abs=0.03) and 0.05 < ours.p_value < 0.95
    assert ours.first == pytest.approx(theirs["BLEU"][0].score)
    assert ours.second == pytest.approx(theirs["BLEU"][1].score)


def test_sacrebleu_gives_one_other_sentence_the_least_p_value():
    """Why its tests are not ours: it counts > instead of >=."""
    sacrebleu = pytest.importorskip("sacrebleu", reason="comes with the translation task")
    from sacrebleu.significance import PairedTest

    references = sentences(random.Random(5), 50)
    second = ["a red dog", *references[1:]]
    metric = sacrebleu.metrics.BLEU(tokenize="none", force=True)
    _, theirs = PairedTest([("first", references), ("second", second)], {"BLEU": metric}, [references], "ar", 200)()
    assert theirs["BLEU"][1].p_value < 0.01
    counts = [
        np.array(metric._extract_corpus_statistics(lines, [references]), dtype=float) for lines in (references, second)
    ]
    assert compare(*counts, bleu).p_value == 1.0


def test_the_jackknifes_interval_is_that_of_a_plain_loop():
    rng = np.random.default_rng(6)
    first, second = two_equal_systems("f1", rng, 40, 0.3)
    found = compare(first, second, f1)

    def difference(kept):
        return f1(second[kept].sum(0, keepdims=True))[0] - f1(first[kept].sum(0, keepdims=True))[0]

    every = np.arange(40)
    shares = [39 * (difference(every) - difference(np.delete(every, item))) for item in every]
    half = stats.t.ppf(0.975, 39) * np.std([*shares, max(map(abs, shares)), -max(map(abs, shares))]) / 42**0.5
    assert (found.low, found.high) == pytest.approx((difference(every) - half, difference(every) + half))


def test_a_system_beside_itself_ties_and_a_far_better_one_is_better():
    rng = np.random.default_rng(1)
    for width in (2, 3):
        poor = np.stack([rng.random(200) < 0.5, *[np.ones(200)] * (width - 1)], 1).astype(float)
        good = poor.copy()
        good[:60, 0] = 1.0
        formula = mean if width == 2 else f1
        found, same = compare(poor, good, formula), compare(poor, poor, formula)
        assert found.p_value < 0.001 and found.low > 0.0 and found.verdict(found.p_value) == "better"
        assert compare(good, poor, formula).verdict(0.01) == found.verdict(0.01, higher_is_better=False) == "worse"
        assert same.first == same.second and same.p_value == 1.0 and same.verdict(1.0) == "tie" and same.low != same.low


def test_seeds_are_paired_as_scipy_does():
    first, second = [90.1, 91.0, 89.4], [90.9, 91.5, 90.6]
    found, theirs = compare_seeds(first, second), stats.ttest_rel(second, first)
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval()))
    for some in ([90.0], [90.0, 91.0, 92.0]):  # one seed, or differences without spread
        alone = compare_seeds(some, [figure + 0.1 for figure in some])
        assert alone.p_value != alone.p_value and alone.verdict(alone.p_value) == "not resolved"
    assert compare_seeds([90.0, 91.0], [91.0, 90.0]).verdict(1.0) == "tie"


def test_an_interval_that_would_leave_the_scale_is_none():
    assert all(end != end for end in t_interval([6.1, 20.4, 19.9], scale_of([6.1, 20.4, 19.9], higher_is_better=True)))
    assert all(end != end for end in t_interval([99.9, 99.99, 100.0], (0.0, 100.0)))
    assert t_interval([80.0, 80.5, 81.0], (0.0, 100.0)) == t_interval([80.0, 80.5, 81.0])


def test_holm_counts_tests_that_are_not_shown_and_those_without_a_p_value():
    assert holm([0.01, 0.04], tests=5) == pytest.approx([0.05, 0.16])
    first, none = holm([0.01, math.nan])
    assert first == 0.02 and none != none


def test_different_items_are_refused():
    with pytest.raises(ValueError, match="not the same items"):
        compare(np.ones((3, 2)), np.ones((4, 2)), mean)


def test_every_formula_takes_many_rows_at_once():
    rows = {
        "mean": [[1.0, 2.0]],
        "ratio": [[1.0, 2.0]],
        "f1": [[1.0, 2.0, 2.0]],
        "bleu": [[9.0, 9.0, 9, 8, 7, 6, 9, 8, 7, 6]],
        "bleu_effective": [[9.0, 9.0, 9, 8, 7, 0, 9, 8, 7, 0]],
    }
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
    assert found == pytest.approx(
        [judge.sentence_score(output, [reference]).score for output, reference in zip(outputs, references, strict=True)]
    )
