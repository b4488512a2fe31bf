"""Which questions are answered right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seq2seq_suite.metrics.answers import Gold, natural
from seq2seq_suite.tasks.charts.common import one_series, range_of, ranges, rates
from seq2seq_suite.tasks.qa.passages import Passage, words_of

_EDGES = (1, 2, 4, 8)
_WORDS = (1, 2, 3, 5, 10)


def by_question(passages: Sequence[Passage], golds: Sequence[Gold], right: Sequence[bool]
                         ) -> list[dict[str, Any]]:
    """Charts of right answers by kind of question, by distance of the answer's sentence and by the answer's words."""
    kinds, back = [gold.category for gold in golds], list(map(distance, passages, golds))
    charts = {
        "By kind of question": ("kind", "Which questions are hard?", rates(
            [{kind: (equal, 1)} for kind, equal in zip(kinds, right, strict=True)], sorted(set(kinds), key=natural))),
        "By distance of the answer": ("sentences back", "Are early sentences forgotten?", rates(
            [{range_of(far, _EDGES): (equal, 1)} if far else {} for far, equal in zip(back, right, strict=True)],
            ranges(_EDGES))),
        "By length of the answer": ("words", "Are long answers harder?", rates(
            [{range_of(len(words_of(gold.answers[0])), _WORDS): (equal, 1)}
             for gold, equal in zip(golds, right, strict=True)], ranges(_WORDS)))}
    return [one_series("dots", title, question, points, x=x, y="answers right, % \u2191", note="")
            for title, (x, question, points) in charts.items() if len(points) > 1]


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
