"""Objects as symbols, five for each: four bins of coordinates and a class."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.files import atomic_write_text, read_json
from seq2seq_suite.common.shapes import GROUP, BoxShape
from seq2seq_suite.common.types import SPECIALS, UNKNOWN
from seq2seq_suite.data.pictures import Objects
from seq2seq_suite.metrics.boxes import area
from seq2seq_suite.tasks.detection.object_rows import NOISE, read_objects
from seq2seq_suite.tasks.fields.base import Place, Target

if TYPE_CHECKING:
    from seq2seq_suite.tasks.detection.task import DetectionOptions

MIN_CONFIDENCE = 0.5  # of the objects that are printed and drawn


class Boxes(Target):
    """Five symbols for each object: four bins and a class."""

    def __init__(self, options: DetectionOptions):
        self.options, self.labels = options, ()
        self.size = max(options.height, options.width)

    def fit(self, values: Sequence[Objects]) -> None:
        """The classes of the training split, in the order of their names."""
        self.labels = tuple(sorted({label for objects in values for label in objects.labels}))

    def save(self, folder: Path) -> None:
        """Write the classes."""
        atomic_write_text(folder / "labels.json", json.dumps(self.labels, ensure_ascii=False) + "\n")

    def load(self, folder: Path) -> None:
        """Load a file of `save`."""
        file, remedy = folder / "labels.json", "copy the file from where the run was trained"
        labels = read_json(file, remedy=remedy)
        if (
            not isinstance(labels, list)
            or not all(isinstance(label, str) for label in labels)
            or len(set(labels)) < len(labels)
        ):
            raise DataError("no list of different names", file=str(file), expected='["cat", "dog"]', remedy=remedy)
        self.labels = tuple(labels)

    def shape(self) -> BoxShape:
        """An output for each bin and class, and the options of the strategy."""
        options, count = self.options, len(self.labels)
        height, width, patch = (
            side / self.size * options.bins for side in (options.height, options.width, options.stride)
        )
        return BoxShape(
            len(SPECIALS) + options.bins + count + 1,
            bins=options.bins,
            labels=count,
            instances=options.instances,
            extent=(height, width),
            patch=patch,
            rows=options.patches()[0],
            smoothing=options.smoothing,
            noise_weight=options.noise_weight,
            source_labels=(("patches", count + 1, options.patch_loss),) if options.patch_loss else (),
        )

    def group(self, box: Sequence[float], label: str) -> list[int]:
        """y1 x1 y2 x2 class; a box is at least a bin wide and high."""
        x1, y1, x2, y2 = (min(int(value / self.size * self.options.bins), self.options.bins - 1) for value in box)
        last = self.options.bins - 1
        y1, x1 = min(y1, last - 1), min(x1, last - 1)
        bins = (y1, x1, max(y2, y1 + 1), max(x2, x1 + 1))
        kinds = (*self.labels, NOISE)
        known = len(SPECIALS) + self.options.bins + kinds.index(label) if label in kinds else UNKNOWN
        return [*(len(SPECIALS) + value for value in bins), known]

    def symbols(self, reference: Objects) -> list[str]:
        """Bins and classes by name, for boxes in a picture of the model's size."""
        return [
            self.name(symbol)
            for box, label in zip(reference.boxes, reference.labels, strict=True)
            for symbol in self.group(box, label)
        ]

    def encode(self, value: Objects, place: Place) -> list[int]:
        """Their ids, the objects in the order of their area, the largest first; no noise."""
        order = sorted(range(len(value.boxes)), key=lambda place: -area(value.boxes[place]))
        return [symbol for place in order for symbol in self.group(value.boxes[place], value.labels[place])]

    def names(self, ids: Sequence[int]) -> list[str]:
        return [self.name(number) for number in ids]

    def name(self, symbol: int) -> str:
        """The symbol of an id."""
        number = symbol - len(SPECIALS)
        if number < 0:
            return SPECIALS[symbol]
        return str(number) if number < self.options.bins else (*self.labels, NOISE)[number - self.options.bins]

    def parse(self, symbols: Sequence[str], example: Example) -> Objects | None:
        """The objects of symbols, without noise; None if they are no groups of five."""
        if len(symbols) % GROUP:
            return None
        boxes, labels = [], []
        for first in range(0, len(symbols), GROUP):
            *bins, label = symbols[first : first + GROUP]
            if label == NOISE:
                continue
            if label not in self.labels or not all(name.isdigit() for name in bins):
                return None
            y1, x1, y2, x2 = ((int(name) + 0.5) * self.size / self.options.bins for name in bins)
            boxes.append((x1, y1, x2, y2))
            labels.append(label)
        return Objects(tuple(boxes), tuple(labels))

    def from_line(self, line: str, place: Place) -> Objects | None:
        """A JSON object: `boxes` of x1, y1, x2, y2, `labels`, and `scores` of predictions; nothing in a blank line."""
        return read_objects(line, place) if line.strip() else None

    def to_text(self, prediction: Objects | None) -> str:
        """Objects as JSON on one line."""
        objects = prediction or Objects()
        row: dict[str, Any] = {
            "boxes": [[round(value, 1) for value in box] for box in objects.boxes],
            "labels": objects.labels,
        }
        if objects.scores:
            row["scores"] = [round(score, 3) for score in objects.scores]
        if objects.areas:
            row["areas"] = objects.areas
        if objects.crowds:
            row["crowds"] = json.loads(self.to_text(objects.crowds))
        return json.dumps(row, ensure_ascii=False)


def confident(prediction: Objects | None, least: float = MIN_CONFIDENCE) -> Objects:
    """The objects of at least that probability."""
    objects = prediction or Objects()
    chosen = [place for place, score in enumerate(objects.scores) if score >= least]

    def pick(values: Sequence[Any]) -> Any:
        return tuple(values[place] for place in chosen)

    return Objects(pick(objects.boxes), pick(objects.labels), pick(objects.scores))
