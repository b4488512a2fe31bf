"""Decodes splits, scores them, and writes the results."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from seq2seq_suite.data.batching import collate, in_sorted_batches, indices, lengths
from seq2seq_suite.metrics.significance import figures_of_items, interval_of
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.report.progress import preparing
from seq2seq_suite.strategies.drafting import with_drafts
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.strategies.rescoring import rescore
from seq2seq_suite.strategies.search import SearchOptions
from seq2seq_suite.training.distributed import ALONE, Ranks
from seq2seq_suite.training.run_directory import RunDirectory
from seq2seq_suite.types import PAD, Batch, ConfigError, Constraint, Encoded, Example, Hypothesis, Score

if TYPE_CHECKING:
    from seq2seq_suite.tasks.base import Task

MOST_SHOWN = 200  # examples of a split whose pictures are stored
_FEW, _MEDIA = 40, 16
_OF_TARGETS = ("ctc_target", "paths", "bigrams")  # losses that leave out what is `too_long`


@dataclass(frozen=True)
class Metric:
    """The metric that chooses the best checkpoint."""

    name: str
    higher_is_better: bool


@dataclass(frozen=True)
class Predictor:
    """A model with everything that is needed to predict.

    Args:
        task, learner: of one run.
        options: how to search.
        device: of the model.
        rescorer: an autoregressive model of the same symbols that rescores the outputs, or None.
        drafter: of the parallel run that drafts the outputs, or None.
        ranks: the processes that share the batches of a split; each of them gets all hypotheses.
    """

    task: Task
    learner: Learner
    options: SearchOptions
    device: torch.device
    rescorer: Learner | None = None
    drafter: Predictor | None = None
    ranks: Ranks = ALONE

    @property
    def model(self) -> Seq2Seq:
        """The learner's model."""
        return self.learner.model

    def constraint(self) -> Constraint | None:
        """The task's automaton; a guided model needs it even if the search may break its rules."""
        return self.task.constraint() if self.options.constraint or self.model.guide is not None else None

    def hypotheses(self, encoded: Sequence[Encoded], *, between: Callable[[], None] = lambda: None
                   ) -> list[list[Hypothesis]]:
        """The hypotheses of each example, in the given order; `between` is called before each batch."""
        self.check_least(encoded)
        constraint = self.constraint()
        found: dict[int, list[Hypothesis]] = {}
        place = {index: position for position, index in enumerate(indices(encoded))}
        was_training = self.learner.training
        if was_training:  # visiting all modules takes longer than a layer on one short sentence
            self.learner.eval()
        try:
            for batch in self.ranks.deal(in_sorted_batches(encoded, self.task.name, self.options.batch_sentences)):
                between()
                if batch is None:
                    continue
                batch = batch.to(self.device)
                for index, hypotheses in zip(batch.indices, self._generate(batch, constraint), strict=True):
                    found[place[index]] = hypotheses
        finally:
            if was_training:
                self.learner.train()
        found = self.ranks.union(found)
        return [found[position] for position in range(len(encoded))]

    def _generate(self, batch: Batch, constraint: Constraint | None) -> list[list[Hypothesis]]:
        asked = self.options.num_hypotheses
        wide = asked if self.rescorer is None else max(self.options.beam_size, asked)
        options = self.options.changed(num_hypotheses=wide)
        if self.drafter is not None:
            batch = with_drafts(batch, self.drafter._generate(batch, self.drafter.constraint()))
        found = self.learner.generate(batch, options=options, limit=self.limits(batch), constraint=constraint)
        if self.rescorer is not None:
            found = [hypotheses[:asked] for hypotheses in rescore(self.rescorer, batch, found, options=options)]
        return found

    def predictions(self, examples: Sequence[Example], hypotheses: Sequence[list[Hypothesis]]) -> list[Any | None]:
        """The best prediction of each example; None where it is malformed."""
        return [self.task.read_hypothesis(found[0], example) if found else None
                for found, example in zip(hypotheses, examples, strict=True)]

    def score(self, examples: Sequence[Example], encoded: Sequence[Encoded], *,
              between: Callable[[], None] = lambda: None) -> tuple[Score, list[Any | None]]:
        """The task's metrics over the examples, and the predictions."""
        predictions = self.predictions(examples, self.hypotheses(encoded, between=between))
        return self.task.score(predictions, [example.reference for example in examples]), predictions

    def losses(self, encoded: Sequence[Encoded], *, between: Callable[[], None] = lambda: None) -> dict[str, float]:
        """The mean losses over the examples, named as in training, without dropout.

        What a strategy draws at random is the same each time; training's random generators stay as they are.
        """
        sums, counts = Counter[str](), Counter[str]()
        was_training = self.learner.training
        self.learner.eval()
        devices = [self.device] if self.device.type == "cuda" else []
        try:
            with torch.no_grad(), torch.random.fork_rng(devices):
                torch.manual_seed(0)
                for batch in in_sorted_batches(encoded, self.task.name, self.options.batch_sentences):
                    between()
                    loss = self.learner(batch.to(self.device))
                    sums.update({name: float(value) for name, value in loss.sums.items()})
                    counts.update({name: int(value) for name, value in loss.counts.items()})
        finally:
            self.learner.train(was_training)
        return of_something({name: total / max(1, counts[name]) for name, total in sums.items()})

    def check_least(self, encoded: Sequence[Encoded]) -> None:
        """Raises ConfigError where `search.min_length` is more than the shortest source's output may have."""
        least = self.options.min_length
        if least and len(encoded):
            shortest = encoded[int(lengths(encoded)[0].argmin())]
            most = int(self.limits(collate([shortest], self.task.name))[0]) - 1
            if least > most:
                raise ConfigError(f"search.min_length {least}, but the output of the shortest source may have {most} "
                                  "symbols", expected="search.max_length_factor * length of the source + "
                                  "search.max_length_extra above it", remedy="lower search.min_length, or raise "
                                  "search.max_length_extra")

    def limits(self, batch: Batch) -> torch.Tensor:
        """(B,) the longest output of each item, END included."""
        options, begin = self.options, batch.auxiliary.get("begin")
        most = (batch.source_mask.sum(1) * options.max_length_factor).long() + options.max_length_extra
        return most if begin is None else most + begin.ne(PAD).sum(1)


def of_something(losses: Mapping[str, float]) -> dict[str, float]:
    """Mean losses by name, NaN for those of targets that all were `too_long`, which are means of nothing.

    >>> of_something({"ctc_target": 0.0, "too_long": 1.0, "ctc": 2.0}), of_something({"paths": 3.0, "too_long": 0.5})
    ({'ctc_target': nan, 'too_long': 1.0, 'ctc': 2.0}, {'paths': 3.0, 'too_long': 0.5})
    """
    lost = {task for task, _, name in (one.rpartition("/") for one in losses)
            if name == "too_long" and losses[f"{task}/{name}" if task else name] > 1.0 - 1e-6}
    return {name: math.nan if name.rpartition("/")[0] in lost and name.rpartition("/")[2] in _OF_TARGETS else mean
            for name, mean in losses.items()}


def evaluate_splits(run_directory: RunDirectory, predictor: Predictor, splits: dict[str, list[Example]]
                    ) -> dict[str, Any]:
    """Decode and score splits; predictions and details go to `predictions/<split>.*`."""
    task = predictor.task
    scores, failed = {}, {}
    for split, examples in splits.items():
        with preparing(f"decoding {len(examples):,} examples of {split}"):
            encoded = task.encode(examples)
            hypotheses = predictor.hypotheses(encoded)
        predictions = predictor.predictions(examples, hypotheses)
        scores[split] = record(run_directory, task, split, examples, predictions)
        failed[split] = failures(hypotheses, predictions, encoded)
    search = predictor.options.model_dump() if splits else {}
    return outcome(task, scores, failed) | {"search": dict.fromkeys(splits, search)}


def record(run_directory: RunDirectory, task: Task, name: str, examples: Sequence[Example],
           predictions: Sequence[Any | None]) -> Score:
    """Score and judge predictions; write them, the score's details and what a page draws to `predictions/NAME.*`."""
    score = task.score(predictions, [example.reference for example in examples])
    own = figures_of_items(score) or [None] * len(examples)
    rows = []
    for example, prediction, counts, figure in zip(examples, predictions, score.counts or [()] * len(examples), own,
                                                   strict=True):
        judged = task.judge(prediction, example.reference, example)
        rows.append({"source": task.source.to_text(example.source), "reference": task.to_text(example.reference),
                     "prediction": task.to_text(prediction), "origin": example.origin, "counts": counts,
                     "figures": {} if figure is None else {task.primary_metric: figure}, "equal": judged.equal,
                     "kinds": judged.kinds, "length": task.length(example), "facts": task.facts(example)})
    chosen = rows_to_show(rows, own, higher_is_better=task.higher_is_better)
    with_media = {*chosen[:_MEDIA], *chosen[-_MEDIA // 2 :]}
    shown = {str(row): {"source": {**task.shown_source(examples[row]),
                                   **(task.media(examples[row]) if row in with_media else {})},
                        "reference": task.shown(examples[row], examples[row].reference),
                        "prediction": task.shown(examples[row], predictions[row])} for row in sorted(chosen)}
    details = {**score.details, "drawing": task.drawing, "length_unit": task.length_unit,
               "panels": [*score.details.get("panels", ()), *task.panels(examples, predictions)]}
    run_directory.write_predictions(name, rows, {"details": details, "shown": shown})
    run_directory.log(f"{name}: " + "  ".join(f"{metric} {value:.4g}" for metric, value in score.figures.items())
                      + f"  [{score.signature}]")
    for note in score.notes:
        run_directory.say(f"{name}: {note}")
    return score


def rows_to_show(rows: Sequence[Mapping[str, Any]], figures: Sequence[float | None], *, higher_is_better: bool
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
        chosen |= dict.fromkeys([row for row in worst if kind in rows[row]["kinds"]][:_FEW // 4])
    chosen |= dict.fromkeys(sorted(range(len(rows)), key=lambda row: -rows[row]["length"])[:_FEW // 2])
    chosen |= dict.fromkeys(random.Random(len(rows)).sample(range(len(rows)), min(MOST_SHOWN, len(rows))))
    return list(chosen)[:MOST_SHOWN]


def outcome(task: Task, scores: Mapping[str, Score], failed: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The part of a summary with the results, from the score and the failures of each split."""
    last = next(reversed(scores.values()), None)  # there may be no test split
    return {"task": task.name, "primary_metric": task.primary_metric, "higher_is_better": task.higher_is_better,
            "splits": {split: score.figures for split, score in scores.items()}, "failures": dict(failed),
            "intervals": {split: {task.primary_metric: bounds} for split, score in scores.items()
                          if (bounds := interval_of(score))},
            "signature": last.signature if last else "", "formula": last.formula if last else ""}



def failures(hypotheses: Sequence[list[Hypothesis]], predictions: Sequence[Any | None],
             encoded: Sequence[Encoded]) -> dict[str, float]:
    """Percent of outputs that fail, independent of the metric.

    invalid: no prediction could be read. empty: END came first. truncated: the length limit forced the end.
    repeated: one to four symbols occur three or more times in a row, more often than in the reference.
    """
    best = [found[0] if found else None for found in hypotheses]
    looped = 0
    for hypothesis, item in zip(best, encoded, strict=True):
        run = longest_repetition(hypothesis.symbols) if hypothesis else 0
        looped += run >= 3 and run > longest_repetition(item.target.tolist())
    counts = {"invalid": sum(prediction is None for prediction in predictions),
              "empty": sum(hypothesis is None or not hypothesis.symbols for hypothesis in best), "repeated": looped,
              "truncated": sum(hypothesis is not None and not hypothesis.complete for hypothesis in best)}
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
