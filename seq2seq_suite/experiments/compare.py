"""Compares runs: their metrics with intervals, and the cost of training and decoding."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_suite.experiments.opening import open_run, parse_config
from seq2seq_suite.experiments.parts import task_directories
from seq2seq_suite.metrics.significance import FORMULAS, compare, holm, interval
from seq2seq_suite.training.evaluate import Predictor
from seq2seq_suite.training.records import Summary, read_predictions, read_provenance, read_summary
from seq2seq_suite.types import DataError, Example

LATENCY_EXAMPLES = 20  # decoded one by one
THROUGHPUT_EXAMPLES = 256  # decoded 64 at a time
BATCH = 64
MOST_TESTED = 12  # runs of a task of which every two are tested
MOST_SECONDS = 10.0  # for each of the two measurements of a run


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run of the comparison.

    Args:
        run: the directory's name.
        task, split, metric: what was measured on what.
        figure, low, high: the primary metric and its 95 % bootstrap interval; the bounds are NaN if the run has no
            counts.
        invalid, empty, repeated, truncated: percent of outputs with that failure.
        core_parameters: of encoder and decoder stack, which tasks can share; own_parameters: all others.
        updates, tokens, minutes, tokens_per_second: of training.
        latency_ms: median time for one example at batch 1; NaN where it was not measured.
        sentences_per_second: examples decoded at batch 64.
        seed, commit: of the run.
        higher_is_better: of the figure.
        directory: of the run.
    """

    run: str
    task: str
    split: str
    metric: str
    figure: float
    low: float
    high: float
    invalid: float
    empty: float
    repeated: float
    truncated: float
    core_parameters: int
    own_parameters: int
    updates: int
    tokens: int
    minutes: float
    tokens_per_second: float
    latency_ms: float
    sentences_per_second: float
    seed: int
    commit: str
    higher_is_better: bool = True
    directory: str = ""


@dataclass(frozen=True)
class Pair:
    """Two runs of one task on the same examples: the second's figure minus the first's, and both tests' p-values.

    `holm_p` is the randomisation's, corrected for the number of tests of the task.
    """

    first: str
    second: str
    task: str
    metric: str
    difference: float
    bootstrap_p: float
    randomisation_p: float
    holm_p: float = 1.0


@dataclass(frozen=True)
class Comparison:
    """All runs, and all pairs of runs that were tested on the same examples."""

    rows: list[Row]
    pairs: list[Pair]

    def plain(self) -> dict[str, Any]:
        """The comparison as plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class _Predictions:
    examples: tuple[tuple[str, str], ...]  # source and reference
    counts: np.ndarray


def compare_runs(directories: Sequence[Path], *, split: str | None = "test", measure: bool = True) -> Comparison:
    """Compare finished runs by the files in their directories.

    Args:
        directories: of runs; a joint run counts as the runs of its tasks.
        split: on which they were evaluated; None for `test`, or the first that all have if one lacks it.
        measure: measure decoding speed, one run after the other, on the same machine; runs whose data or weights are
            missing get no speed.

    Raises:
        DataError: a directory is no finished run, or was not evaluated on the split.
    """
    directories = [part for directory in directories for part in task_directories(directory) or [directory]]
    names, split = _names(directories), split or _shared_split(directories)
    rows, predictions, formulas = [], [], []
    for name, directory in zip(names, directories, strict=True):
        summary, kept = _read(directory, split)
        predictions.append(kept)
        formulas.append(summary.formula)
        rows.append(_row(name, directory, summary, kept, split, _speed(directory, split) if measure else _UNMEASURED))
    pairs = [_pair(rows[one], rows[two], predictions[one], predictions[two], formulas[one])
             for one, two in _tested(rows) if _comparable(predictions[one], predictions[two])]
    for task in {pair.task for pair in pairs}:
        places = [place for place, pair in enumerate(pairs) if pair.task == task]
        for place, p_value in zip(places, holm([pairs[place].randomisation_p for place in places]), strict=True):
            pairs[place] = replace(pairs[place], holm_p=p_value)
    return Comparison(rows, pairs)


def _shared_split(directories: Sequence[Path]) -> str:
    known = [read_summary(directory).failures for directory in directories]
    shared = [split for split in known[0] if all(split in others for others in known)]
    return "test" if "test" in shared or not shared else shared[0]


_UNMEASURED = (float("nan"), float("nan"))


def _tested(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Numbers of the rows to be tested against each other: all of a task, or of many runs all against the best."""
    found = []
    for task in dict.fromkeys(row.task for row in rows):
        places = [place for place, row in enumerate(rows) if row.task == task]
        if len(places) <= MOST_TESTED:
            found += combinations(places, 2)
            continue
        sign = 1.0 if rows[places[0]].higher_is_better else -1.0
        best = max(places, key=lambda place: sign * rows[place].figure)
        found += [(min(best, place), max(best, place)) for place in places if place != best]
    return found


def _names(directories: Sequence[Path]) -> list[str]:
    """Short names, with as many parent folders as needed to make them unique."""
    whole = [directory.resolve() for directory in directories]
    shown = [path.parent.parent / path.name if path in task_directories(path.parent.parent) else path for path in whole]
    for depth in range(1 if shown == whole else 2, 6):
        names = ["/".join(path.parts[-depth:]) for path in shown]
        if len(set(names)) == len(set(whole)):
            return names
    return [str(path) for path in whole]


def _read(directory: Path, split: str) -> tuple[Summary, _Predictions]:
    parse_config(directory)
    summary = read_summary(directory)
    if split not in summary.failures or summary.primary(split) is None:
        raise DataError(f"the run was not evaluated on '{split}'", file=str(directory),
                        expected=f"one of {', '.join(summary.failures)}" if summary.failures else "a split of it",
                        remedy="choose it with --split, or add it to data.test_splits")
    found = read_predictions(directory, split)
    return summary, _Predictions(tuple((row.source, row.reference) for row in found),
                                 np.array([row.counts for row in found], dtype=float))


def _row(name: str, directory: Path, summary: Summary, kept: _Predictions, split: str,
         speed: tuple[float, float]) -> Row:
    failed = summary.failures[split]
    figure, low, high = summary.primary(split), float("nan"), float("nan")
    if kept.counts.size:  # of the predictions, which `evaluate` may have made anew
        found = interval(kept.counts, FORMULAS[summary.formula])
        figure, low, high = found.figure, found.low, found.high
    origin, core = read_provenance(directory), summary.core_parameters
    return Row(run=name, task=summary.task, split=split, metric=summary.primary_metric, figure=figure,
               low=low, high=high, invalid=failed.invalid, empty=failed.empty, repeated=failed.repeated,
               truncated=failed.truncated, core_parameters=core, own_parameters=summary.parameters - core,
               updates=summary.updates, tokens=summary.tokens, minutes=summary.seconds / 60,
               tokens_per_second=summary.tokens_per_second, latency_ms=speed[0], sentences_per_second=speed[1],
               seed=origin.seed, commit=origin.commit, higher_is_better=summary.higher_is_better,
               directory=str(directory))


def _comparable(first: _Predictions, second: _Predictions) -> bool:
    return first.examples == second.examples and first.counts.shape == second.counts.shape and first.counts.size > 0


def _pair(first: Row, second: Row, one: _Predictions, two: _Predictions, formula: str) -> Pair:
    found = compare(one.counts, two.counts, FORMULAS[formula])
    shuffled = compare(one.counts, two.counts, FORMULAS[formula], test="randomisation", samples=2000)
    return Pair(first.run, second.run, first.task, first.metric, found.second - found.first, found.p_value,
                shuffled.p_value)


def _speed(directory: Path, split: str) -> tuple[float, float]:
    """Median milliseconds an example at batch 1, and examples a second at batch 64, encoding included."""
    try:
        loaded = open_run(directory, [])
        examples = loaded.task.read(split)
    except DataError as error:
        print(f"{directory}: its speed is not measured: {error.got}")
        return _UNMEASURED
    step = max(1, len(examples) // THROUGHPUT_EXAMPLES)
    chosen = examples[::step][:THROUGHPUT_EXAMPLES]
    _decode(loaded.predictor, chosen[:1])  # warms up
    times = []
    for example in chosen[:: max(1, len(chosen) // LATENCY_EXAMPLES)]:
        times.append(_decode(loaded.predictor, [example]))
        if sum(times) > MOST_SECONDS:
            break
    wide = loaded.predictor.options.changed(batch_sentences=BATCH)
    predictor, seconds, decoded = replace(loaded.predictor, options=wide), 0.0, 0
    for first in range(0, len(chosen), BATCH):
        seconds += _decode(predictor, chosen[first : first + BATCH])
        decoded += len(chosen[first : first + BATCH])
        if seconds > MOST_SECONDS:
            break
    return 1000.0 * statistics.median(times), decoded / seconds


def _decode(predictor: Predictor, examples: Sequence[Example]) -> float:
    """Seconds from text to predictions."""
    begun = time.perf_counter()
    predictor.predictions(examples, predictor.hypotheses(predictor.task.encode(examples)))
    return time.perf_counter() - begun
