"""Intervals of figures, and paired tests of two systems: one test for each kind of figure.

A corpus figure is a formula over sums of counts that each item contributes: matched, gold and predicted brackets for
F1, say. Resampling the items resamples the counts, so that any task's figure can be tested without scoring again.

Which test: McNemar's exact test where every item counts 0 or 1, approximate randomisation for all other figures of the
same items, Student's paired t test for the figures of the same seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from seq2seq_suite.common.examples import Score

SEED = 12345
INTERVAL_SAMPLES = 1000
TEST_SAMPLES = 10_000  # sacreBLEU's number for the randomisation
LEVEL = 0.05  # of corrected p-values
PAIRED_T = "paired t test"
MARGIN = 0.5  # points; systems whose difference has its interval within them do not differ

Counts = np.ndarray  # (N,K) float64, a row for each item
Formula = Callable[[Counts], np.ndarray]  # (R,K) sums -> (R,) figures


@dataclass(frozen=True)
class Interval:
    """A figure with the bounds between which 95 % of its resampled values lie."""

    figure: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """Two systems' figures, the 95 % interval of second - first, and the p-value of `test`; NaN where there is none."""

    first: float
    second: float
    low: float
    high: float
    p_value: float
    test: str

    def verdict(self, p_value: float, *, higher_is_better: bool = True, margin: float = MARGIN) -> str:
        """What may be said of the second system.

        better, worse: p < 0.05. tie: the figures are equal. no difference: the interval lies within the margin
        (equivalence; Schuirmann 1987, at the stricter 95 %). not resolved: neither, there are too few items or seeds.

        Args:
            p_value: corrected for the number of tests.
            higher_is_better: of the figure.
            margin: in the figure's unit; 0 for none.

        >>> Difference(90.0, 90.1, -0.2, 0.4, 0.5, "randomisation").verdict(0.5)
        'no difference (within 0.5)'
        """
        if p_value < LEVEL:
            return "better" if (self.second > self.first) == higher_is_better else "worse"
        if math.isclose(self.first, self.second, rel_tol=1e-9):
            return "tie"
        within = margin > 0.0 and -margin <= self.low and self.high <= margin
        return f"no difference (within {margin:g})" if within else "not resolved"


def mean(sums: Counts) -> np.ndarray:
    """Percent of sum / weight: exact match, accuracy, any mean over items. Counts: (value, 1)."""
    return 100.0 * _ratio(sums[:, 0], sums[:, 1])


def f1(sums: Counts) -> np.ndarray:
    """Percent of 2 matched / (gold + predicted). Counts: (matched, gold, predicted)."""
    return 100.0 * _ratio(2.0 * sums[:, 0], sums[:, 1] + sums[:, 2])


def ratio(sums: Counts) -> np.ndarray:
    """sum / weight, as bits per character. Counts: (value, weight)."""
    return _ratio(sums[:, 0], sums[:, 1])


def bleu(sums: Counts, *, effective_order: bool = False) -> np.ndarray:
    """BLEU with exponential smoothing. Counts: (hypothesis length, reference length, 4 matches, 4 totals).

    `effective_order` leaves out n-grams longer than any output, for sentences alone and for short references.

    Source: Papineni et al. 2002; Post 2018 (sacreBLEU), which computes it.
    """
    from sacrebleu.metrics.bleu import BLEU

    compute = partial(BLEU.compute_bleu, smooth_method="exp", effective_order=effective_order)
    found = np.array(
        [
            compute(correct=row[2:6], total=row[6:10], sys_len=int(row[0]), ref_len=int(row[1])).score
            for row in sums.tolist()
        ]
    )
    return np.minimum(found, 100.0)  # rounding lifts a perfect output above


FORMULAS: dict[str, Formula] = {
    "mean": mean,
    "ratio": ratio,
    "f1": f1,
    "bleu": bleu,
    "bleu_effective": partial(bleu, effective_order=True),
}
_OF_ITEMS: dict[str, Formula] = FORMULAS | {"bleu": partial(bleu, effective_order=True)}


def figures_of_items(score: Score) -> list[float]:
    """The primary metric of each item alone.

    >>> figures_of_items(Score({}, "", formula="f1", counts=((1.0, 2.0, 2.0), (0.0, 1.0, 0.0))))
    [50.0, 0.0]
    """
    return _OF_ITEMS[score.formula](np.array(score.counts, dtype=float)).tolist() if score.counts else []


def interval(counts: Counts, formula: Formula, *, samples: int = INTERVAL_SAMPLES, seed: int = SEED) -> Interval:
    """The metric with its bootstrap interval.

    Args:
        counts: (N,K), a row for each item.
        formula: from sums of counts to the figure.
        samples: how often N items are drawn with replacement.
        seed: of the draws.

    Source: Efron & Tibshirani 1993, section 13.3 (percentile interval).

    >>> interval(np.array([[1.0, 1.0]] * 10), mean)
    Interval(figure=100.0, low=100.0, high=100.0)
    """
    values = np.sort(formula(resampled(counts, draws(len(counts), samples, seed))))
    edge = samples // 40
    return Interval(float(formula(counts.sum(0, keepdims=True))[0]), float(values[edge]), float(values[-edge - 1]))


def interval_of(score: Score) -> list[float]:
    """The bounds of the primary metric's bootstrap interval; empty for a score that has neither counts nor its own.

    >>> interval_of(Score({}, "", formula="mean", counts=((1.0, 1.0),) * 10)), interval_of(Score({}, ""))
    ([100.0, 100.0], [])
    """
    if score.interval is not None or not score.counts or not score.formula:
        return score.interval() if score.interval is not None else []
    found = interval(np.array(score.counts, dtype=float), FORMULAS[score.formula])
    return [found.low, found.high]


def compare(
    first: Counts, second: Counts, formula: Formula, *, samples: int = TEST_SAMPLES, seed: int = SEED
) -> Difference:
    """Two-sided paired test of the null hypothesis that the two systems are equally good, by their items.

    McNemar's exact test where each item counts 0 or 1: p = 2 P(X <= min(b,c)), X of the binomial distribution
    B(b + c, 1/2), b and c the items that one system alone has right.
    Randomisation for all others: each item's outputs are swapped with probability 1/2, and with d the difference of
    what results, p = (#{|d| >= |observed|} + 1) / (samples + 1). Where the items that differ are so few that no more
    than `samples` swaps exist, each is made once, and p = #{|d| >= |observed|} / swaps is exact.

    The interval is Student's, from the jackknife over the items, with two more items that differ as much as any, one
    for each system: few differences that are seen leave room for others.

    Args:
        first, second: (N,K) counts of the same items in the same order.
        formula: from sums of counts to the figure.
        samples: of the randomisation.
        seed: of the randomisation.

    Raises:
        ValueError: the numbers of items differ.

    Source: McNemar 1947; Noreen 1989; Riezler & Maxwell 2005, section 3; Efron & Tibshirani 1993, section 11.5 (the
        jackknife's error); Bonett & Price 2012 (two more items).
    Differs: multeval and sacreBLEU count > where this counts >=, so that they give few, equal differences the least p.
    """
    if first.shape != second.shape:
        raise ValueError(f"counts of shape {first.shape} and {second.shape}: not the same items")
    sums = [counts.sum(0, keepdims=True) for counts in (first, second)]
    one, two = (float(formula(total)[0]) for total in sums)
    interval = _jackknife(formula(sums[1] - second) - formula(sums[0] - first), two - one)
    unlike = (first != second).any(1)
    every = np.concatenate([first, second])
    if formula is mean and (every[:, 1] == 1).all() and np.isin(every[:, 0], (0, 1)).all():
        from scipy.special import bdtr  # that of scipy.stats takes a second to import

        fewer = min(first[unlike, 0].sum(), second[unlike, 0].sum())
        return Difference(one, two, *interval, min(1.0, 2.0 * float(bdtr(fewer, unlike.sum(), 0.5))), "McNemar's test")
    moved, exact = _swaps(second[unlike] - first[unlike], samples, seed)
    distances = np.abs(formula(sums[1] - moved) - formula(sums[0] + moved))
    beyond = int((distances >= abs(two - one) - 1e-9 * max(abs(one), abs(two))).sum())  # sums of floats may differ
    p_value = beyond / len(moved) if exact else (beyond + 1) / (len(moved) + 1)
    return Difference(one, two, *interval, p_value, "randomisation test")


def _swaps(changes: Counts, samples: int, seed: int) -> tuple[Counts, bool]:
    """What swaps of items add to the first system's sums (R,K), and whether they are all that exist."""
    items = len(changes)
    if 2**items <= samples:
        return (np.arange(2**items)[:, None] >> np.arange(items) & 1) @ changes, True
    random = np.random.default_rng(seed)
    return np.concatenate(
        [
            random.integers(2, size=(min(500, samples - begin), items), dtype=bool) @ changes
            for begin in range(0, samples, 500)
        ]
    ), False  # a part at a time, for memory's sake


def _jackknife(without: np.ndarray, difference: float) -> tuple[float, float]:
    """The interval of a difference, from those without each item (N,)."""
    shares = (len(without) - 1) * (difference - without)
    if not shares.any():  # one item, or none that differs
        return math.nan, math.nan
    from scipy.special import stdtrit

    most = np.abs(shares).max()
    half = float(stdtrit(len(without) - 1, 0.975) * np.std([*shares, most, -most]) / math.sqrt(len(without) + 2))
    return difference - half, difference + half


def compare_seeds(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Student's paired t test of two variants' figures under the same seeds, in the same order.

    Differences of one seed, or that are all equal, have no spread to judge by: no p-value, no interval.

    >>> found = compare_seeds([80.0, 81.0, 82.0], [81.0, 82.5, 83.0])
    >>> round(found.p_value, 3), round(found.low, 2), round(found.high, 2)
    (0.02, 0.45, 1.88)
    """
    changes = [two - one for one, two in zip(first, second, strict=True)]
    figures, (low, high) = (statistics.fmean(first), statistics.fmean(second)), t_interval(changes)
    if not high - low > 1e-9 * max(map(abs, [*first, *second])):
        return Difference(*figures, math.nan, math.nan, math.nan, PAIRED_T)
    from scipy.special import stdtr

    error = statistics.stdev(changes) / math.sqrt(len(changes))
    p_value = 2.0 * float(stdtr(len(changes) - 1, -abs(statistics.fmean(changes)) / error))
    return Difference(*figures, low, high, p_value, PAIRED_T)


def holm(p_values: Sequence[float], *, tests: int = 0) -> list[float]:
    """p-values corrected for their number, in the given order: the chance of any false alarm stays below the level.

    Args:
        p_values: NaN where there is none, which counts as a test.
        tests: how many were made, if more than these, all others with larger p-values.

    Source: Holm 1979; with m values in rising order, p_(i) becomes max over j <= i of min(1, (m - j + 1) p_(j)).

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    corrected, largest, count = list(p_values), 0.0, max(tests, len(p_values))
    known = [place for place, p_value in enumerate(p_values) if p_value == p_value]
    for rank, place in enumerate(sorted(known, key=p_values.__getitem__)):
        largest = corrected[place] = max(largest, min(1.0, (count - rank) * p_values[place]))
    return corrected


def draws(items: int, samples: int, seed: int = SEED) -> np.ndarray:
    """(samples,items) int64: the items of each resample, drawn with replacement."""
    return np.random.default_rng(seed).choice(items, size=(samples, items), replace=True)


def resampled(counts: Counts, drawn: np.ndarray) -> Counts:
    """(samples,K) sums of counts (N,K) over the drawn items (samples,N)."""
    return np.stack([np.bincount(items, minlength=len(counts)) @ counts for items in drawn])


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.zeros_like(above, dtype=float), where=below != 0)


def t_interval(figures: Sequence[float], scale: tuple[float, float] = (-math.inf, math.inf)) -> tuple[float, float]:
    """95 % interval of the mean of independent values; NaN for one value, and where an end would leave the scale.

    >>> low, high = t_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    >>> t_interval([1.0, 2.0, 3.0], (0.0, 100.0))
    (nan, nan)
    """
    if len(figures) < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit  # scipy.stats has it too, but takes a second to import

    half = float(stdtrit(len(figures) - 1, 0.975)) * statistics.stdev(figures) / math.sqrt(len(figures))
    low, high = statistics.fmean(figures) - half, statistics.fmean(figures) + half
    return (low, high) if scale[0] <= low and high <= scale[1] else (math.nan, math.nan)


def scale_of(figures: Sequence[float], *, higher_is_better: bool) -> tuple[float, float]:
    """Where a mean of such figures can lie: percentages between 0 and 100, error rates and the like above 0.

    >>> scale_of([99.0, 99.5], higher_is_better=True), scale_of([250.0, 99.0], higher_is_better=True)
    ((0.0, 100.0), (0.0, inf))
    """
    return (
        0.0 if min(figures) >= 0.0 else -math.inf,
        100.0 if higher_is_better and max(figures) <= 100.0 else math.inf,
    )
