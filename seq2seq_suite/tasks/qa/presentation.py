"""How answers are presented: which questions are answered right, and the context with its question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seq2seq_suite.common.examples import Example
from seq2seq_suite.metrics.answers import Gold, answer_scores, natural
from seq2seq_suite.tasks.charts.common import one_series, range_of, ranges, rates
from seq2seq_suite.tasks.presentation import Judgement, Presentation
from seq2seq_suite.tasks.qa.passages import SEPARATOR, Passage, words_of

_EDGES = (1, 2, 4, 8)
_WORDS = (1, 2, 3, 5, 10)


class QuestionAnsweringPresentation(Presentation):
    """A question, its context, and the answer."""

    verb, pipeline_tag, drawing, no_output = "Answer", "question-answering", "answer", "(no answer)"
    input_text = f"Where is Mary? {SEPARATOR} Mary went home."
    baselines = ("most frequent output", "nearest training example")

    def judge(self, prediction: str | None, reference: Gold, example: Example) -> Judgement:
        """Equal as exact match has it: any right answer, without case, articles and punctuation."""
        if prediction is None:
            return Judgement(False, ("malformed",))
        score = answer_scores([prediction], [reference]).figures
        equal = score["exact_match"] > 0
        return Judgement(equal, () if equal else ("partly right",) if score["f1"] > 0 else ("another answer",))

    def length(self, example: Example) -> float:
        """Words of question and context."""
        return float(len(example.source))

    def facts(self, example: Example) -> dict[str, str | float]:
        """The kind of question, where rows name it."""
        category = example.reference.category if example.reference is not None else ""
        return {"kind": category} if category else {}

    def source_data(self, example: Example) -> dict[str, Any]:
        """The question and the sentences of its context."""
        passage: Passage = example.source
        return {
            "text": str(passage),
            "question": " ".join(passage.question),
            "sentences": [" ".join(sentence) for sentence in passage.sentences],
        }

    def output_data(self, example: Example, prediction: str | Gold | None) -> dict[str, Any]:
        """The answer, or all right ones."""
        answers = prediction.answers if isinstance(prediction, Gold) else (prediction or "",)
        return {"text": self.task.to_text(prediction), "answers": [" ".join(words_of(one)) for one in answers]}

    def charts(self, examples: Sequence[Example], predictions: Sequence[str | None]) -> list[dict[str, Any]]:
        """Answers right by kind of question, and by how far the answer's sentence is from the question."""
        right = [self.judge(found, one.reference, one).equal for one, found in zip(examples, predictions, strict=True)]
        return by_question([one.source for one in examples], [one.reference for one in examples], right)


def by_question(passages: Sequence[Passage], golds: Sequence[Gold], right: Sequence[bool]) -> list[dict[str, Any]]:
    """Charts of right answers by kind of question, by distance of the answer's sentence and by the answer's words."""
    kinds, back = [gold.category for gold in golds], list(map(distance, passages, golds))
    charts = {
        "By kind of question": (
            "kind",
            "Which questions are hard?",
            rates(
                [{kind: (equal, 1)} for kind, equal in zip(kinds, right, strict=True)], sorted(set(kinds), key=natural)
            ),
        ),
        "By distance of the answer": (
            "sentences back",
            "Are early sentences forgotten?",
            rates(
                [{range_of(far, _EDGES): (equal, 1)} if far else {} for far, equal in zip(back, right, strict=True)],
                ranges(_EDGES),
            ),
        ),
        "By length of the answer": (
            "words",
            "Are long answers harder?",
            rates(
                [
                    {range_of(len(words_of(gold.answers[0])), _WORDS): (equal, 1)}
                    for gold, equal in zip(golds, right, strict=True)
                ],
                ranges(_WORDS),
            ),
        ),
    }
    return [
        one_series("dots", title, question, points, x=x, y="answers right, % \u2191", note="")
        for title, (x, question, points) in charts.items()
        if len(points) > 1
    ]


def distance(passage: Passage, gold: Gold) -> int:
    """How many sentences back a right answer last stands in the context, 1 for the last sentence; 0 if nowhere.

    >>> distance(Passage.of("Where?", "Tom sat there. He left."), Gold(("there",)))
    2
    """
    for back, sentence in enumerate(reversed(passage.sentences), 1):
        text = f" {' '.join(sentence)} ".lower()
        if any(f" {' '.join(words_of(answer))} ".lower() in text for answer in gold.answers):
            return back
    return 0
