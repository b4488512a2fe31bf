"""A student's own task in the suite: examples, symbols, answers and a score are four functions of his.

The functions of this module stand for them: `plug` puts his in their places. His examples are drawn by a seed, so that
a grader can draw some that no run has seen.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.lab.given import GIVEN
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import Section
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.fields.base import Place
from seq2seq_suite.tasks.fields.text import Symbols, Words
from seq2seq_suite.tasks.options import TaskOptions

SEEDS = {"train": 1, "validation": 2, "test": 3}  # of the examples of a split
UNSEEN = 1000  # a grader's seeds are this and more


def own_examples(seed: int) -> list[tuple[str, Any]]:
    """Pairs of a source and its answer, others by another seed."""
    return GIVEN.own_examples(seed)


def write_answer(answer: Any) -> list[str]:
    """The symbols of an answer."""
    return GIVEN.write_answer(answer)


def read_answer(symbols: list[str]) -> Any | None:
    """What symbols say; None for nothing."""
    return GIVEN.read_answer(symbols)


def score_answers(gold: list[Any], predicted: list[Any | None]) -> float:
    """From 0 to 100."""
    return GIVEN.score_answers(gold, predicted)


def _own(name: str, *arguments: Any) -> Any:
    """What stands in this module now: a configuration that names this file loads another copy of it."""
    return getattr(importlib.import_module("seq2seq_suite.lab.task"), name)(*arguments)


class OwnOptions(TaskOptions):
    """No options."""


class Answers(Symbols):
    """An answer by its symbols."""

    def symbols(self, reference: Any) -> list[str]:
        """As the student writes them."""
        return list(_own("write_answer", reference))

    def parse(self, symbols: Sequence[str], example: Example) -> Any | None:
        """As the student reads them."""
        return _own("read_answer", list(symbols))

    def to_text(self, prediction: Any | None) -> str:
        """The symbols on a line."""
        return "" if prediction is None else " ".join(self.symbols(prediction))

    def from_line(self, line: str, place: Place) -> Any | None:
        """The inverse."""
        return _own("read_answer", line.split())


class OwnTask(Task):
    """Words -> a student's answers."""

    name = "own"
    sections: ClassVar[Mapping[str, type[Section]]] = {"own": OwnOptions}
    primary_metric = "score"

    def __init__(self, options: OwnOptions, data: Data, **others: Any):
        super().__init__(options, data, **others)
        self.source, self.target = Words(longest=data.max_length), Answers()

    def read(self, split: str) -> list[Example]:
        """The examples of a split."""
        return self.rows(SEEDS[split])

    def rows(self, seed: int) -> list[Example]:
        """The examples that a seed draws, without those that stand in training, too; raises DataError for none."""
        pairs = list(_own("own_examples", seed))
        seen = set() if seed == SEEDS["train"] else {source for source, _ in _own("own_examples", SEEDS["train"])}
        found = [
            Example(
                self.source.from_text(source, {"file": "own_examples", "line": number}),
                answer,
                f"own_examples:{number}",
            )
            for number, (source, answer) in enumerate(pairs, 1)
            if source not in seen
        ]
        if not found:
            raise DataError(
                f"seed {seed} draws nothing that training has not",
                file="own_examples",
                expected="other examples by another seed",
                remedy="`lab check` says more",
            )
        return found

    def score(self, predictions: Sequence[Any | None], references: Sequence[Any]) -> Score:
        """As the student scores, all together and each alone."""
        pairs = zip(references, predictions, strict=True)
        return Score(
            {"score": float(_own("score_answers", list(references), list(predictions)))},
            "own score",
            counts=tuple((float(_own("score_answers", [right], [found])) / 100.0, 1.0) for right, found in pairs),
        )
