"""How sets of labels are presented: those missing and added, the probabilities, charts by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seq2seq_suite.common.examples import Example
from seq2seq_suite.tasks.charts.common import (
    LEAST_PROBABILITY,
    by_label,
    calibration,
    confusion,
    one_series,
    range_of,
    ranges,
    rates,
)
from seq2seq_suite.tasks.multilabel.label_names import to_line
from seq2seq_suite.tasks.multilabel.marginals import Labels
from seq2seq_suite.tasks.presentation import Judgement, Presentation

_MOST_PROBABILITIES = 6  # on a page, of a text


class MultilabelPresentation(Presentation):
    """Labels."""

    verb, pipeline_tag, drawing = "Label", "text-classification", "labels"
    baselines = ("most frequent output", "nearest training example")

    def judge(self, prediction: Labels | None, reference: Labels, example: Example) -> Judgement:
        """Equal as sets."""
        if prediction is None:
            return Judgement(False, ("malformed",))
        missed, added = set(reference) - set(prediction), set(prediction) - set(reference)
        return Judgement(not missed | added, ("missing",) * bool(missed) + ("added",) * bool(added))

    def output_data(self, example: Example, prediction: Labels | None) -> dict[str, Any]:
        """The labels, and the likeliest ones with their probabilities where these are known."""
        probabilities = getattr(prediction, "probabilities", {})
        likeliest = sorted(probabilities, key=lambda name: -probabilities[name])[:_MOST_PROBABILITIES]
        known = [
            [name, round(probabilities[name], 3)] for name in likeliest if probabilities[name] >= LEAST_PROBABILITY
        ]
        found = {"text": self.task.to_text(prediction), "labels": list(prediction or ())}
        return {**found, "chances": known} if known else found

    def charts(self, examples: Sequence[Example], predictions: Sequence[Labels | None]) -> list[dict[str, Any]]:
        """Precision and recall by label and by number of labels; which label is given where another is missed."""
        gold, found = [set(one.reference) for one in examples], [set(one or ()) for one in predictions]
        sides = {"gold": gold, "predicted": found, "matched": [a & b for a, b in zip(gold, found, strict=True)]}
        counts = {side: [dict.fromkeys(labels, 1) for labels in some] for side, some in sides.items()}
        edges = (1, 2, 3, 4)
        right = rates(
            [{range_of(len(a), edges): (a == b, 1)} for a, b in zip(gold, found, strict=True) if a], ranges(edges)
        )
        pairs = [(missed, added) for a, b in zip(gold, found, strict=True) for missed in a - b for added in b - a]
        return [
            *by_label(counts, "Precision and recall by label", "Which labels are hard?", what="label"),
            one_series(
                "dots",
                "By number of labels",
                "Are large sets harder?",
                right,
                x="labels of the text",
                y="sets right, % ↑",
            ),
            *calibration([getattr(one, "probabilities", {}) for one in predictions], gold),
            *confusion(
                pairs, "Labels given where others are missed", "Which labels stand in for which?", x="given", y="missed"
            ),
        ]

    def for_terminal(self, prediction: Labels | None) -> str:
        """The labels on one line, since they have no picture."""
        return "(no set of labels)" if prediction is None else to_line(prediction) or "(no label)"
