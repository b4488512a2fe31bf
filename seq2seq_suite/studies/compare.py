"""Compares runs: their metrics with intervals, and the cost of training and decoding."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.config import config_file
from seq2seq_suite.metrics.significance import FORMULAS, MARGIN, compare, compare_seeds, holm, interval, interval_of
from seq2seq_suite.prediction.load_run import config_of, open_run, parse_config
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.report.variants import groups, settings, units
from seq2seq_suite.runs.joint_directories import task_directories
from seq2seq_suite.runs.records import Summary, read_predictions, read_provenance, read_summary
from seq2seq_suite.tasks.scoring import score_files

LATENCY_EXAMPLES = 20  # decoded one by one
THROUGHPUT_EXAMPLES = 256  # decoded 64 at a time
BATCH = 64
MOST_TESTED = 12  # runs or variants of a task of which every two are tested
MOST_SECONDS = 10.0  # for each of the two measurements of a run
_NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run of the comparison.

    Args:
        run: the directory's name; with other settings than the run's own, these behind an @.
        task, split, metric: what was measured on what.
        figure, low, high: the primary metric and its 95 % bootstrap interval; the bounds are NaN if the run has no
            counts.
        invalid, empty, repeated, truncated: percent of outputs with that failure.
        core_parameters: of encoder and decoder stack, which tasks can share; own_parameters: all others.
        updates, tokens, minutes, tokens_per_second: of training; no updates for another system's outputs.
        latency_ms: median time for one example at batch 1; NaN where it was not measured.
        sentences_per_second: examples decoded at batch 64.
        passes_per_symbol, milliseconds: through the decoder, and for a sentence, as `evaluate` or `run` measured them.
        seed, commit: of the run.
        higher_is_better: of the figure.
        directory: of the run.
        baseline, ceiling: the best figure without learning, and the best possible one, where they are known.
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
    repeated: float = _NAN
    truncated: float = _NAN
    core_parameters: int = 0
    own_parameters: int = 0
    updates: int = 0
    tokens: int = 0
    minutes: float = _NAN
    tokens_per_second: float = _NAN
    latency_ms: float = _NAN
    sentences_per_second: float = _NAN
    passes_per_symbol: float = _NAN
    milliseconds: float = _NAN
    seed: int = 0
    commit: str = ""
    higher_is_better: bool = True
    directory: str = ""
    baseline: float | None = None
    ceiling: float | None = None


@dataclass(frozen=True)
class Pair:
    """Two runs of one task on the same examples, or two variants under the same seeds.

    Args:
        first, second: runs; or variants, the names of runs that differ in their seed alone.
        task, metric: of both.
        difference, low, high: the second's figure minus the first's, with its 95 % interval.
        test, p_value: see `metrics.significance`; `holm_p` is corrected for all tests of the comparison.
        verdict: on the second: better, worse, tie, no difference (within 0.5), not resolved.
        seeds: by which variants are paired; empty for runs.
    """

    first: str
    second: str
    task: str
    metric: str
    difference: float
    low: float
    high: float
    test: str
    p_value: float
    holm_p: float
    verdict: str
    seeds: tuple[int, ...] = ()


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
    """Compare finished runs by the files in their directories, and other systems by their outputs.

    Args:
        directories: of runs; a joint run counts as the runs of its tasks. A file has another system's outputs for the
            split of the first run.
        split: on which they were evaluated; None for `test`, or the first that all have if one lacks it.
        measure: measure decoding speed, one run after the other, on the same machine; runs whose data or weights are
            missing get no speed.

    Raises:
        DataError: a directory is no finished run, or was not evaluated on the split; outputs do not fit it.
    """
    files = [one for one in directories if one.is_file()]
    directories = [one for one in directories if one not in files]
    if not directories:
        raise DataError(
            "outputs of other systems alone",
            file=str(files[0]),
            expected="a run, then files of outputs",
            remedy="name a run that was evaluated on the same examples first; `score` needs none",
        )
    directories = [part for directory in directories for part in task_directories(directory) or [directory]]
    names, split = _names(directories), split or _shared_split(directories)
    rows, predictions, formulas = [], [], []
    for name, directory in zip(names, directories, strict=True):
        parse_config(directory)
        others = [one for one in read_summary(directory).settings if one.startswith(f"{split}@")]
        for one in (split, *others):  # with the run's own settings, and with those of `evaluate`
            summary, outputs = _read(directory, one)
            predictions.append(outputs)
            formulas.append(summary.formula)
            speed = _speed(directory, one, summary.settings.get(one, {})) if measure else _UNMEASURED
            rows.append(_row(name + one.removeprefix(split), directory, summary, outputs, one, speed))
    for file in files:
        row, outputs, formula = _outside(file, directories[0], split, predictions[0])
        rows.append(row)
        predictions.append(outputs)
        formulas.append(formula)
    return Comparison(rows, _pairs(rows, predictions, formulas))


def _shared_split(directories: Sequence[Path]) -> str:
    known = [read_summary(directory).failures for directory in directories]
    shared = [split for split in known[0] if all(split in others for others in known)]
    return "test" if "test" in shared or not shared else shared[0]


_UNMEASURED = (_NAN, _NAN)


def _pairs(rows: Sequence[Row], predictions: Sequence[_Predictions], formulas: Sequence[str]) -> list[Pair]:
    plain, order = [asdict(row) for row in rows], {row.run: place for place, row in enumerate(rows)}
    made, unmade = [], 0
    for of_task in units(plain, groups(plain, settings(plain))).values():
        names = list(combinations(of_task, 2))
        chosen = names if len(of_task) <= MOST_TESTED else names[: len(of_task) - 1]  # of many all against the first
        unmade += len(names) - len(chosen)
        for pair in chosen:
            first, second = sorted(pair, key=lambda name: order[of_task[name][0]["run"]])
            one, two = ([order[row["run"]] for row in of_task[name]] for name in (first, second))
            if not _comparable(predictions[one[0]], predictions[two[0]], counts=len(one) == 1):
                continue
            found = (
                compare_seeds(*([rows[place].figure for place in places] for places in (one, two)))
                if len(one) > 1
                else compare(predictions[one[0]].counts, predictions[two[0]].counts, FORMULAS[formulas[one[0]]])
            )
            made.append((first, second, one, found))
    corrected = holm([found.p_value for *_, found in made], tests=len(made) + unmade)
    return [
        Pair(
            first,
            second,
            rows[one[0]].task,
            rows[one[0]].metric,
            found.second - found.first,
            found.low,
            found.high,
            found.test,
            found.p_value,
            p_value,
            found.verdict(
                p_value,
                higher_is_better=rows[one[0]].higher_is_better,
                margin=0.0 if formulas[one[0]] == "ratio" else MARGIN,
            ),
            tuple(rows[place].seed for place in one if len(one) > 1),
        )
        for (first, second, one, found), p_value in zip(made, corrected, strict=True)
    ]


def _names(directories: Sequence[Path]) -> list[str]:
    """Short names, with as many parent folders as needed to make them unique."""
    whole = [directory.resolve() for directory in directories]
    paths = [path.parent.parent / path.name if path in task_directories(path.parent.parent) else path for path in whole]
    for depth in range(1 if paths == whole else 2, 6):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(set(whole)):
            return [
                f"{name} ({names[:place].count(name) + 1})" if name in names[:place] else name  # a run twice
                for place, name in enumerate(names)
            ]
    return [str(path) for path in whole]


def _read(directory: Path, split: str) -> tuple[Summary, _Predictions]:
    summary = read_summary(directory)
    if split not in summary.failures or summary.primary(split) is None:
        raise DataError(
            f"the run was not evaluated on '{split}'",
            file=str(directory),
            expected=f"one of {', '.join(summary.failures)}" if summary.failures else "a split of it",
            remedy=f"python -m seq2seq_suite evaluate {directory} --split {split}, or compare on another split",
        )
    found = read_predictions(directory, split)
    return summary, _Predictions(
        tuple((row.source, row.reference) for row in found), np.array([row.counts for row in found], dtype=float)
    )


def _row(
    name: str, directory: Path, summary: Summary, outputs: _Predictions, split: str, speed: tuple[float, float]
) -> Row:
    failed = summary.failures[split]
    figure, low, high = summary.splits[split][summary.primary_metric], float("nan"), float("nan")
    if outputs.counts.size:  # of the predictions, which `evaluate` may have made anew
        found = interval(outputs.counts, FORMULAS[summary.formula])
        figure, low, high = found.figure, found.low, found.high
    origin, core = read_provenance(directory), summary.core_parameters
    decoding = summary.decoding.get(split, {})
    return Row(
        run=name,
        task=summary.task,
        split=split,
        metric=summary.primary_metric,
        figure=figure,
        low=low,
        high=high,
        invalid=failed.invalid,
        empty=failed.empty,
        repeated=failed.repeated,
        truncated=failed.truncated,
        core_parameters=core,
        own_parameters=summary.parameters - core,
        updates=summary.updates,
        tokens=summary.tokens,
        minutes=summary.seconds / 60,
        tokens_per_second=summary.tokens_per_second,
        latency_ms=speed[0],
        sentences_per_second=speed[1],
        passes_per_symbol=float(decoding.get("passes_per_symbol", _NAN)),
        milliseconds=float(decoding.get("milliseconds_per_sentence", _NAN)),
        seed=origin.seed,
        commit=origin.commit,
        higher_is_better=summary.higher_is_better,
        directory=str(directory),
        baseline=summary.baseline.get(split.partition("@")[0]),
        ceiling=summary.ceiling.get(split.partition("@")[0]),
    )


def _outside(file: Path, run: Path, split: str, beside: _Predictions) -> tuple[Row, _Predictions, str]:
    """The row of another system, its counts and their formula; unknown values are NaN, or 0 for integers.

    Args:
        file: an output for each example, in their order and in the format of `predict`.
        run: evaluated on the split; its task, options and references are used.
        split: its name.
        beside: the run's outputs.

    Raises:
        DataError: the outputs cannot be read, or are not as many as the split has examples.
    """
    config = config_of(run, [])
    task = open_task(config.task, config)
    task.load(run / "vocabulary")
    with tempfile.TemporaryDirectory() as folder:
        references = Path(folder, f"references of {run}'s {split}".replace("/", "_"))
        references.write_text("".join(f"{row.reference}\n" for row in read_predictions(run, split)), encoding="utf-8")
        score = score_files(task, [references], file)
    own = read_summary(run).signature
    unlike = [] if own == score.signature else [f"scored as {score.signature}, but the run as {own}"]
    for note in (*unlike, *score.notes):
        print(f"{file}: {note}", file=sys.stderr)
    low, high = interval_of(score) or _UNMEASURED
    row = Row(
        run=str(file),
        task=task.name,
        split=split,
        metric=task.primary_metric,
        figure=score.figures[task.primary_metric],
        low=low,
        high=high,
        invalid=score.figures.get("invalid_rate", _NAN),
        empty=score.figures.get("empty_rate", _NAN),
        higher_is_better=task.higher_is_better,
        directory=str(file),
    )
    return row, _Predictions(beside.examples, np.array(score.counts, dtype=float)), score.formula


def _comparable(first: _Predictions, second: _Predictions, *, counts: bool) -> bool:
    return first.examples == second.examples and (
        not counts or (first.counts.shape == second.counts.shape and first.counts.size > 0)
    )


def _speed(directory: Path, split: str, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Median milliseconds an example at batch 1, and examples a second at batch 64, encoding included."""
    try:
        loaded = open_run(directory, config_file.as_overrides(settings))
        examples = loaded.task.read(split.partition("@")[0])
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
    predictor.predictions(examples, predictor.hypotheses(predictor.task.encode(examples), examples))
    return time.perf_counter() - begun
