"""From a text to a text, both in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.data.subwords import train_subwords
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.charts.words import judge_words, lengths
from seq2seq_suite.tasks.fields.text import Subwords, Text
from seq2seq_suite.tasks.presentation import Judgement, Presentation


class TextPresentation(Presentation):
    """Outputs are compared with the references word by word."""

    baselines = ("copied source", "nearest training example")

    def judge(self, prediction: str | None, reference: str, example: Example) -> Judgement:
        """By words, see `judge_words`; without case where targets are lower-cased."""
        if prediction in example.also.get("references", ()):
            return Judgement(True)
        return judge_words(prediction, reference, lower_case=self.task.target.lower_case)

    def charts(self, examples: Sequence[Example], predictions: Sequence[str | None]) -> list[dict[str, Any]]:
        """Lengths of outputs."""
        return [lengths([example.reference for example in examples], predictions)]


class TextToText(Task[Subwords, Text]):
    """Text -> text; where the source is `shared`, both have one vocabulary and one embedding."""

    rewritable = streams = several_references = True
    presented_by = TextPresentation

    def fit(self, examples: Iterable[Example]) -> None:
        """Pieces of each side, or of both together."""
        if not self.source.shared or self.pieces_from:
            super().fit(examples)
            return
        texts = chain(
            (self.source.normalised(example.source) for example in examples),
            (self.target.normalised(example.reference) for example in examples),
        )
        self.source.pieces = self.target.pieces = train_subwords(self.source.kind, texts, size=self.source.size)

    def score_examples(self, predictions: Sequence[str | None], examples: Sequence[Example]) -> Score:
        """With `valid` and `nearest` where examples have several right texts."""
        several = [example.also.get("references") or [example.reference] for example in examples]
        if max(map(len, several)) == 1:
            return super().score_examples(predictions, examples)
        return self.score_each(predictions, several)

    def score_each(self, predictions: Sequence[str | None], references: Sequence[Sequence[str]]) -> Score:
        """The metrics over outputs with right texts of their own."""
        raise NotImplementedError
