"""How objects are presented: boxes matched with the true ones, small pictures, which classes are confused."""

from __future__ import annotations

import io
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seq2seq_suite.common.examples import Example
from seq2seq_suite.data.pictures import Objects, paint
from seq2seq_suite.metrics.boxes import match
from seq2seq_suite.tasks.charts.common import panel
from seq2seq_suite.tasks.detection.boxes import confident
from seq2seq_suite.tasks.presentation import Judgement, Presentation

_SIDE = 200  # pixels of a picture in a page, at most
_LEAST_SHOWN = 0.05  # probability of boxes that a page gets


class DetectionPresentation(Presentation):
    """A picture and boxes in it."""

    verb, pipeline_tag, input_text = "Detect", "object-detection", "picture.png"
    drawing, length_unit, draws, baselines = "boxes", "objects", True, ("nearest training picture",)

    def judge(self, prediction: Objects | None, reference: Objects, example: Example) -> Judgement:
        """Right if the objects of probability above a half are the true ones, at IoU 0.5."""
        kinds = dict.fromkeys(kind for kind, _, _ in match(confident(prediction), reference) if kind != "right")
        return Judgement(not kinds, tuple(kinds))

    def length(self, example: Example) -> float:
        """Objects in the picture; 0 where they are not known."""
        return float(len(example.reference.boxes)) if example.reference is not None else 0.0

    def source_data(self, example: Example) -> dict[str, Any]:
        """The picture, made small, and its size, in whose pixels boxes are."""
        from PIL import Image

        pixels, jpeg = example.source.pixels(), io.BytesIO()
        picture = Image.fromarray(pixels)
        picture.thumbnail((_SIDE, _SIDE))
        picture.save(jpeg, "JPEG", quality=80)
        return {
            "picture": f"data:image/jpeg;base64,{b64encode(jpeg.getvalue()).decode()}",
            "height": pixels.shape[0],
            "width": pixels.shape[1],
        }

    def output_data(self, example: Example, prediction: Objects | None) -> dict[str, Any]:
        """Boxes in the picture's pixels, without those of almost no probability."""
        objects = prediction or Objects()
        scores = objects.scores or (1.0,) * len(objects.boxes)
        return {
            "boxes": [
                {"box": [round(value, 1) for value in box], "label": label, "score": round(score, 3)}
                for box, label, score in zip(objects.boxes, objects.labels, scores, strict=True)
                if score >= _LEAST_SHOWN
            ]
        }

    def charts(self, examples: Sequence[Example], predictions: Sequence[Objects | None]) -> list[dict[str, Any]]:
        """Which classes are confused with which, among objects of probability above a half."""
        pairs: Counter[tuple[str, str]] = Counter()
        for example, prediction in zip(examples, predictions, strict=True):
            gold, found = example.reference, confident(prediction)
            pairs.update(
                (gold.labels[ours] if ours >= 0 else "(nothing)", found.labels[theirs] if theirs >= 0 else "(nothing)")
                for _, ours, theirs in match(found, gold)
            )
        names = [*sorted({name for pair in pairs for name in pair} - {"(nothing)"}), "(nothing)"]
        return [
            panel(
                "matrix",
                "Confused classes",
                "Which classes are confused, missed or added?",
                x="predicted",
                y="gold",
                rows=names,
                columns=names,
                cells=[[pairs[gold, found] for found in names] for gold in names],
                note="Boxes of probability above 0.5, paired at IoU 0.5; poorly placed ones from 0.1 on.",
            )
        ]

    def draw(self, example: Example, prediction: Objects | None, path: Path) -> None:
        """Draw the objects of probability above a half into the picture."""
        paint(example.source.pixels(), confident(prediction), path, labels=self.task.target.labels)

    def for_terminal(self, prediction: Objects | None) -> str:
        """The objects of probability above a half, one per line."""
        objects = confident(prediction)
        lines = [
            f"{label} {score:.0%} at {box[0]:.0f},{box[1]:.0f} to {box[2]:.0f},{box[3]:.0f}"
            for box, label, score in zip(objects.boxes, objects.labels, objects.scores, strict=True)
        ]
        return "\n".join(lines) or self.no_output
