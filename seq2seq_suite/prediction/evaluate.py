"""Decodes splits, scores them, and writes the results."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seq2seq_suite.common.examples import Encoded, Example, Score
from seq2seq_suite.common.types import Hypothesis
from seq2seq_suite.metrics.significance import figures_of_items, interval_of
from seq2seq_suite.prediction.likelihood import likelihood
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.prediction.speed import speed
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.tasks.scoring import with_metrics
from seq2seq_suite.terminal.progress import preparing

if TYPE_CHECKING:
    from seq2seq_suite.tasks.base import Task

MOST_SHOWN = 200  # examples of a split whose pictures are stored
_FEW, _MEDIA = 40, 16


def evaluate_splits(
    run_directory: RunDirectory, predictor: Predictor, splits: Mapping[str, Sequence[Example]]
) -> dict[str, Any]:
    """Decode and score splits; predictions and details go to `predictions/<split>.*`.

    Beside the scores the summary has by split what decoding took, as `speed` says, and how likely the targets are.
    """
    task = predictor.task
    scores: dict[str, Score] = {}
    failed: dict[str, dict[str, float]] = {}
    beside: dict[str, dict[str, Any]] = {"decoding": {}, "likelihood": {}}
    for split, examples in splits.items():
        with preparing(f"decoding {len(examples):,} examples of {split}"):
            encoded = task.encode(examples)
            begun = time.perf_counter()
            hypotheses = predictor.hypotheses(encoded, examples)
            seconds = time.perf_counter() - begun
        beside["decoding"][split] = speed(predictor, hypotheses, seconds)
        beside["likelihood"][split] = likelihood(predictor, encoded)
        predictions = predictor.predictions(examples, hypotheses)
        scores[split] = record(run_directory, task, split, examples, predictions)
        failed[split] = failures(hypotheses, predictions, encoded)
    search = predictor.options.model_dump() if splits else {}
    known = {name: {split: one for split, one in found.items() if one} for name, found in beside.items()}
    return {
        **outcome(task, scores, failed),
        "search": dict.fromkeys(splits, search),
        **{name: found for name, found in known.items() if found},
    }


def record(
    run_directory: RunDirectory, task: Task, name: str, examples: Sequence[Example], predictions: Sequence[Any | None]
) -> Score:
    """Score and judge predictions; write them, the score's details and the pages' drawings to `predictions/NAME.*`."""
    presentation = task.presentation
    score = with_metrics(
        task, task.score_examples(predictions, examples), predictions, [example.reference for example in examples]
    )
    own = figures_of_items(score) or [None] * len(examples)
    rows = []
    for example, prediction, counts, figure in zip(
        examples, predictions, score.counts or [()] * len(examples), own, strict=True
    ):
        judged = presentation.judge(prediction, example.reference, example)
        rows.append(
            {
                "source": task.source.to_text(example.source),
                "reference": task.to_text(example.reference),
                "prediction": task.to_text(prediction),
                "origin": example.origin,
                "counts": counts,
                "figures": {} if figure is None else {task.primary_metric: figure},
                "equal": judged.equal,
                "kinds": judged.kinds,
                "length": presentation.length(example),
                "facts": presentation.facts(example),
            }
        )
    chosen = rows_to_show(rows, own, higher_is_better=task.higher_is_better)
    with_media = {*chosen[:_MEDIA], *chosen[-_MEDIA // 2 :]}
    shown = {
        str(row): {
            "source": {
                **presentation.source_data(examples[row]),
                **(presentation.media(examples[row]) if row in with_media else {}),
            },
            "reference": presentation.output_data(examples[row], examples[row].reference),
            "prediction": presentation.output_data(examples[row], predictions[row]),
        }
        for row in sorted(chosen)
    }
    details = {
        **score.details,
        "drawing": presentation.drawing,
        "length_unit": presentation.length_unit,
        "panels": [*score.details.get("panels", ()), *presentation.charts(examples, predictions)],
    }
    run_directory.write_predictions(name, rows, {"details": details, "shown": shown})
    run_directory.log(
        f"{name}: "
        + "  ".join(f"{metric} {value:.4g}" for metric, value in score.figures.items())
        + f"  [{score.signature}]"
    )
    for note in score.notes:
        run_directory.say(f"{name}: {note}")
    return score


def rows_to_show(
    rows: Sequence[Mapping[str, Any]], figures: Sequence[float | None], *, higher_is_better: bool
) -> list[int]:
    """The rows that a page draws: the worst first, some of each kind of error, the longest, and some at random.

    >>> rows = [{"equal": True, "kinds": (), "length": length} for length in range(1000)]
    >>> rows[3] = {"equal": False, "kinds": ("order",), "length": 3}
    >>> found = rows_to_show(rows, [0.0] * 1000, higher_is_better=True)
    >>> len(found) <= MOST_SHOWN, 3 in found, 999 in found
    (True, True, True)
    """

    def badness(row: int) -> tuple[bool, float]:
        figure = figures[row]
        return rows[row]["equal"], 0.0 if figure is None else figure if higher_is_better else -figure

    worst = sorted(range(len(rows)), key=badness)
    chosen = dict.fromkeys(worst[:_FEW])
    for kind in dict.fromkeys(kind for row in rows for kind in row["kinds"]):
        chosen |= dict.fromkeys([row for row in worst if kind in rows[row]["kinds"]][: _FEW // 4])
    chosen |= dict.fromkeys(sorted(range(len(rows)), key=lambda row: -rows[row]["length"])[: _FEW // 2])
    chosen |= dict.fromkeys(random.Random(len(rows)).sample(range(len(rows)), min(MOST_SHOWN, len(rows))))
    return list(chosen)[:MOST_SHOWN]


def outcome(task: Task, scores: dict[str, Score], failed: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The part of a summary with the results, from the score and the failures of each split."""
    last = next(reversed(scores.values()), None)  # there may be no test split
    return {
        "task": task.name,
        "primary_metric": task.primary_metric,
        "higher_is_better": task.higher_is_better,
        "splits": {split: score.figures for split, score in scores.items()},
        "failures": dict(failed),
        "intervals": {
            split: {task.primary_metric: bounds} for split, score in scores.items() if (bounds := interval_of(score))
        },
        "signature": last.signature if last else "",
        "formula": last.formula if last else "",
    }


def failures(
    hypotheses: Sequence[list[Hypothesis]], predictions: Sequence[Any | None], encoded: Sequence[Encoded]
) -> dict[str, float]:
    """Percent of outputs that fail, independent of the metric.

    invalid: the output could not be parsed. empty: no symbol but END. truncated: the length limit forced the end.
    repeated: one to four symbols occur three or more times in a row, more often than in the reference.
    """
    best = [found[0] if found else None for found in hypotheses]
    looped = 0
    for hypothesis, item in zip(best, encoded, strict=True):
        run = longest_repetition(hypothesis.symbols) if hypothesis else 0
        looped += run >= 3 and run > longest_repetition(item.target.tolist())
    counts = {
        "invalid": sum(prediction is None for prediction in predictions),
        "empty": sum(hypothesis is None or not hypothesis.symbols for hypothesis in best),
        "repeated": looped,
        "truncated": sum(hypothesis is not None and not hypothesis.complete for hypothesis in best),
    }
    return {name: 100.0 * count / max(1, len(best)) for name, count in counts.items()}


def longest_repetition(symbols: Sequence[int], *, longest: int = 4) -> int:
    """The most consecutive repetitions of a block of at most `longest` symbols.

    >>> longest_repetition([5, 7, 8, 7, 8, 7, 8, 9]), longest_repetition([1, 2, 3]), longest_repetition([])
    (3, 1, 0)
    """
    most = min(1, len(symbols))
    for size in range(1, longest + 1):
        equal = 0  # consecutive symbols that equal the one `size` before them
        for place in range(size, len(symbols)):
            equal = equal + 1 if symbols[place] == symbols[place - size] else 0
            most = max(most, 1 + equal // size)
    return most
