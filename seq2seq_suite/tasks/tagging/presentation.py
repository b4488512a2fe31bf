"""How tags are presented: wrong ones by name, words above their tags, charts by tag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from seq2seq_suite.common.examples import Example
from seq2seq_suite.tasks.charts.common import confusion, one_series, rates
from seq2seq_suite.tasks.presentation import Judgement, Presentation

Tags = tuple[str, ...]
_TAGS_SHOWN = 24


class TaggingPresentation(Presentation):
    """Words and tags."""

    verb, pipeline_tag, drawing = "Tag", "token-classification", "tags"
    baselines = ("most frequent tag of each word",)

    def judge(self, prediction: Tags | None, reference: Tags, example: Example) -> Judgement:
        """Each wrong tag is a kind of error: `NN as VB`."""
        if prediction is None:
            return Judgement(False, ("malformed",))
        return Judgement(
            prediction == reference,
            tuple(f"{right} as {given}" for (right, given), _ in Counter(_wrong(reference, prediction)).most_common()),
        )

    def output_data(self, example: Example, prediction: Tags | None) -> dict[str, Any]:
        """Words and their tags."""
        return {"text": self.task.to_text(prediction), "words": list(example.source), "tags": list(prediction or ())}

    def charts(self, examples: Sequence[Example], predictions: Sequence[Tags | None]) -> list[dict[str, Any]]:
        """Accuracy by tag, and which tag is given instead of which."""
        shares, errors, frequent = [], [], Counter[str]()
        for example, given in zip(examples, predictions, strict=True):
            right, whole = Counter[str](), Counter(example.reference)
            if given is not None:
                right.update(tag for tag, guess in zip(example.reference, given, strict=True) if tag == guess)
                errors += _wrong(example.reference, given)
            shares.append({tag: (right[tag], count) for tag, count in whole.items()})
            frequent += whole
        names = [tag for tag, _ in frequent.most_common(_TAGS_SHOWN)]
        note = f"The {_TAGS_SHOWN} most frequent of {len(frequent)}." if len(frequent) > _TAGS_SHOWN else ""
        return [
            one_series(
                "dots", "Accuracy by tag", "Which tags fail?", rates(shares, names), x="tag", y="% ↑", note=note
            ),
            *confusion(errors, "Wrong tags", "Which tag is given instead of which?", x="given", y="right"),
        ]


def _wrong(reference: Tags, prediction: Tags) -> list[tuple[str, str]]:
    """(right, given) where they differ."""
    return [(right, given) for right, given in zip(reference, prediction, strict=True) if right != given]
