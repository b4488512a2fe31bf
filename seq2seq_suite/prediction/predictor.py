"""A model ready to predict: with task, search, constraint and device."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.examples import Encoded, Example, Score
from seq2seq_suite.common.types import PAD, Batch, Constraint, Hypothesis
from seq2seq_suite.data.batching import collate, in_sorted_batches, indices, lengths
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.prediction.risk import by_risk
from seq2seq_suite.runs.distributed import ALONE, Ranks
from seq2seq_suite.search.speculative import with_drafts
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.strategies.rescoring import rescore
from seq2seq_suite.tasks.scoring import with_metrics

if TYPE_CHECKING:
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.tasks.base import Task

_OF_TARGETS = ("ctc_target", "paths", "bigrams")  # losses that leave out what is `too_long`


@contextmanager
def in_mode(module: nn.Module, *, training: bool) -> Iterator[None]:
    """Within, a module is in training or in evaluation mode, afterwards as it was."""
    changes = module.training != training  # visiting all modules takes longer than a layer on one short sentence
    if changes:
        module.train(training)
    try:
        yield
    finally:
        if changes:
            module.train(not training)


@dataclass(frozen=True)
class Predictor:
    """A model with everything that is needed to predict.

    Args:
        task, learner: of one run.
        options: how to search.
        device: of the model.
        rescorer: an autoregressive model of the same symbols that rescores the outputs, or None.
        drafter: of the parallel run that drafts the outputs, or None.
        seed: of the samples of `search.risk`; None: the task's.
        ranks: the processes that share the batches of a split; each of them gets all hypotheses.
    """

    task: Task
    learner: Learner
    options: SearchOptions
    device: torch.device
    rescorer: Learner | None = None
    drafter: Predictor | None = None
    seed: int | None = None
    ranks: Ranks = ALONE

    @property
    def model(self) -> Seq2Seq:
        """The learner's model."""
        return self.learner.model

    def constraint(self) -> Constraint | None:
        """The task's automaton; a guided model needs it even if the search may break its rules."""
        return self.task.constraint() if self.options.constraint or self.model.reads else None

    def hypotheses(
        self,
        encoded: Sequence[Encoded],
        examples: Sequence[Example] = (),
        *,
        between: Callable[[], None] = lambda: None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each example, in the given order; `between` is called before each batch.

        With `search.risk` those of the least risk come first, for which the examples are needed as well; samples are
        drawn from `seed` then, and leave PyTorch's random generators as they are.
        """
        self.check_least(encoded)
        devices, risks = [self.device] if self.device.type == "cuda" else [], self.options.risk > 1
        constraint = self.constraint()
        found: dict[int, list[Hypothesis]] = {}
        place = {index: position for position, index in enumerate(indices(encoded))}
        with in_mode(self.learner, training=False), torch.random.fork_rng(devices, enabled=risks):
            if risks:
                torch.manual_seed(self.task.seed if self.seed is None else self.seed)
            for batch in self.ranks.deal(in_sorted_batches(encoded, self.task.name, self.options.batch_sentences)):
                between()
                if batch is None:
                    continue
                batch = batch.to(self.device)
                for index, hypotheses in zip(batch.indices, self.generate(batch, constraint), strict=True):
                    found[place[index]] = hypotheses
        found = self.ranks.union(found)
        ordered = [found[position] for position in range(len(encoded))]
        if risks:
            size = self.options.batch_sentences
            parts = [slice(begin, begin + size) for begin in range(0, len(ordered), size)]
            ordered = [
                one[: self.options.num_hypotheses]
                for part in parts
                for one in by_risk(self.task, examples[part], ordered[part], self.options)
            ]
        return ordered

    def generate(
        self,
        batch: Batch,
        constraint: Constraint | None,
        search: Callable[..., list[list[Hypothesis]]] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each item of a batch, by the learner's `generate` or a `search`, rescored if asked for."""
        asked = max(self.options.num_hypotheses, self.options.risk)
        wide = asked if self.rescorer is None else max(self.options.beam_size, asked)
        options = self.options.changed(num_hypotheses=wide, sampling=self.options.samples)
        if self.drafter is not None:
            batch = with_drafts(batch, self.drafter.generate(batch, self.drafter.constraint()))
        search = search or self.learner.generate
        found = search(batch, options=options, limit=self.limits(batch), constraint=constraint)
        if self.rescorer is not None:
            found = [hypotheses[:asked] for hypotheses in rescore(self.rescorer, batch, found, options=options)]
        return found

    def predictions(self, examples: Sequence[Example], hypotheses: Sequence[list[Hypothesis]]) -> list[Any | None]:
        """The best prediction of each example; None where it is malformed."""
        return [
            self.task.read_hypothesis(found[0], example) if found else None
            for found, example in zip(hypotheses, examples, strict=True)
        ]

    def score(
        self, examples: Sequence[Example], encoded: Sequence[Encoded], *, between: Callable[[], None] = lambda: None
    ) -> tuple[Score, list[Any | None]]:
        """The task's metrics over the examples, and the predictions."""
        predictions = self.predictions(examples, self.hypotheses(encoded, examples, between=between))
        return with_metrics(
            self.task,
            self.task.score_examples(predictions, examples),
            predictions,
            [example.reference for example in examples],
        ), predictions

    def losses(self, encoded: Sequence[Encoded], *, between: Callable[[], None] = lambda: None) -> dict[str, float]:
        """The mean losses over the examples, named as in training, without dropout.

        What a strategy draws at random is the same each time; training's random generators stay as they are.
        """
        sums, counts = Counter[str](), Counter[str]()
        devices = [self.device] if self.device.type == "cuda" else []
        with in_mode(self.learner, training=False), torch.no_grad(), torch.random.fork_rng(devices):
            torch.manual_seed(0)
            for batch in in_sorted_batches(encoded, self.task.name, self.options.batch_sentences):
                between()
                loss = self.learner(batch.to(self.device))
                sums.update({name: float(value) for name, value in loss.sums.items()})
                counts.update({name: int(value) for name, value in loss.counts.items()})
        return defined_means({name: total / max(1, counts[name]) for name, total in sums.items()})

    def check_least(self, encoded: Sequence[Encoded]) -> None:
        """Raises ConfigError where `search.min_length` is more than the shortest source's output may have."""
        least = self.options.min_length
        if least and len(encoded):
            shortest = encoded[int(lengths(encoded)[0].argmin())]
            most = int(self.limits(collate([shortest], self.task.name))[0]) - 1
            if least > most:
                raise ConfigError(
                    f"search.min_length {least}, but the output of the shortest source may have {most} symbols",
                    expected="search.max_length_factor * length of the source + search.max_length_extra above it",
                    remedy="lower search.min_length, or raise search.max_length_extra",
                )

    def limits(self, batch: Batch) -> torch.Tensor:
        """(B,) the longest output of each item, END included."""
        options, begin = self.options, batch.auxiliary.get("begin")
        most = (batch.source_mask.sum(1) * options.max_length_factor).long() + options.max_length_extra
        return most if begin is None else most + begin.ne(PAD).sum(1)


def defined_means(losses: Mapping[str, float]) -> dict[str, float]:
    """Mean losses by name, NaN for those of targets that all were `too_long`, which have no mean.

    >>> defined_means({"ctc_target": 0.0, "too_long": 1.0, "ctc": 2.0}), defined_means({"paths": 3.0, "too_long": 0.5})
    ({'ctc_target': nan, 'too_long': 1.0, 'ctc': 2.0}, {'paths': 3.0, 'too_long': 0.5})
    """
    lost = {
        task
        for task, _, name in (one.rpartition("/") for one in losses)
        if name == "too_long" and losses[f"{task}/{name}" if task else name] > 1.0 - 1e-6
    }
    return {
        name: math.nan if name.rpartition("/")[0] in lost and name.rpartition("/")[2] in _OF_TARGETS else mean
        for name, mean in losses.items()
    }
