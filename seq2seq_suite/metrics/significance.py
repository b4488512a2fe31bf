"""Statistical significance: bootstrap intervals, and paired tests of two systems on the same items.

A corpus figure is a formula over sums of counts that each item contributes: matched, gold and predicted brackets for
F1, say. Resampling the items resamples the counts, so that any task's figure can be tested without scoring again.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from seq2seq_suite.types import Score

SEED = 12345  # sacreBLEU's, so that its p-values are ours
INTERVAL_SAMPLES = 1000
BOOTSTRAP_SAMPLES = 1000
RANDOMISATION_SAMPLES = 10_000

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
    """Two systems on the same items: their metrics, and the p-value of the difference."""

    first: float
    second: float
    p_value: float


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

    `effective_order` leaves out n-grams longer than a sentence, for sentences alone.

    Source: Papineni et al. 2002; Post 2018 (sacreBLEU), which computes it.
    """
    from sacrebleu.metrics import BLEU

    compute = partial(BLEU.compute_bleu, smooth_method="exp", effective_order=effective_order)
    return np.array([compute(correct=row[2:6], total=row[6:10], sys_len=int(row[0]), ref_len=int(row[1])).score
                     for row in sums.tolist()])


FORMULAS: dict[str, Formula] = {"mean": mean, "ratio": ratio, "f1": f1, "bleu": bleu}
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


def compare(first: Counts, second: Counts, formula: Formula, *,
            test: Literal["bootstrap", "randomisation"] = "bootstrap", samples: int = 0, seed: int = SEED
            ) -> Difference:
    """Two-sided paired test of the null hypothesis that the two systems are equally good.

    bootstrap: with d the difference of a resample, p = (#{|d| - mean |d| > |observed|} + 1) / (samples + 1).
    randomisation: each item's outputs are swapped with probability 1/2, p = (#{|d| > |observed|} + 1) / (samples + 1).
    Equal counts have p = 1, which neither formula gives.

    Args:
        first, second: (N,K) counts of the same items in the same order.
        formula: from sums of counts to the figure.
        test: which scheme; both are sacreBLEU's, so that BLEU gets its p-values.
        samples: 0 is 1,000 for the bootstrap and 10,000 for the randomisation.
        seed: of the draws.

    Raises:
        ValueError: the numbers of items differ.

    Source: Koehn 2004; Riezler & Maxwell 2005, section 3.
    """
    if first.shape != second.shape:
        raise ValueError(f"counts of shape {first.shape} and {second.shape}: not the same items")
    observed = [float(formula(counts.sum(0, keepdims=True))[0]) for counts in (first, second)]
    if np.array_equal(first, second):
        return Difference(*observed, 1.0)
    if test == "bootstrap":
        drawn = draws(len(first), samples or BOOTSTRAP_SAMPLES, seed)
        differences = np.abs(formula(resampled(second, drawn)) - formula(resampled(first, drawn)))
        differences -= differences.mean()
    else:
        random = np.random.default_rng(seed)
        swap = random.integers(2, size=(samples or RANDOMISATION_SAMPLES, len(first)), dtype=bool)
        differences = np.abs(formula(swap @ first + ~swap @ second) - formula(~swap @ first + swap @ second))
    beyond = int((differences > abs(observed[0] - observed[1])).sum())
    return Difference(*observed, (beyond + 1) / (len(differences) + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, in the given order: the chance of any false alarm stays below the level.

    Source: Holm 1979; with m values in rising order, p_(i) becomes max over j <= i of min(1, (m - j + 1) p_(j)).

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = corrected[place] = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
    return corrected


def draws(items: int, samples: int, seed: int = SEED) -> np.ndarray:
    """(samples,items) int64: the items of each resample, drawn with replacement."""
    return np.random.default_rng(seed).choice(items, size=(samples, items), replace=True)


def resampled(counts: Counts, drawn: np.ndarray) -> Counts:
    """(samples,K) sums of counts (N,K) over the drawn items (samples,N)."""
    return np.stack([np.bincount(items, minlength=len(counts)) @ counts for items in drawn])


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.zeros_like(above, dtype=float), where=below != 0)


def t_interval(figures: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of independent values.

    >>> low, high = t_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    if len(figures) < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit  # scipy.stats has it too, but takes a second to import

    half = float(stdtrit(len(figures) - 1, 0.975)) * statistics.stdev(figures) / math.sqrt(len(figures))
    return statistics.fmean(figures) - half, statistics.fmean(figures) + half
