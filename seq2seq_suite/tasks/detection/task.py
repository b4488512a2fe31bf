"""Detection as a sequence: from a picture to y1 x1 y2 x2 class of each object, scored by average precision."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Encoded, Example, Score
from seq2seq_suite.common.shapes import GROUP
from seq2seq_suite.common.types import END, Hypothesis
from seq2seq_suite.data.drawn import Drawn
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.pictures import Augmentation, Objects, nms, scaled
from seq2seq_suite.data.printed import unprinted
from seq2seq_suite.metrics.boxes import area, average_precision
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import (
    Fraction,
    NotNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    Share,
    Use,
    unused,
)
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.charts.common import one_series
from seq2seq_suite.tasks.detection.boxes import MIN_CONFIDENCE, Boxes, confident
from seq2seq_suite.tasks.detection.object_rows import NOISE, objects_of
from seq2seq_suite.tasks.detection.picture_rows import Pictures
from seq2seq_suite.tasks.detection.presentation import DetectionPresentation
from seq2seq_suite.tasks.options import NO_TRANSCRIPT, TaskOptions, Zoom
from seq2seq_suite.tasks.rows import named, value_in

_LEAST_SHOWN = 0.01  # of an object that is not wholly hidden: a digit in front is not quite opaque
_LARGEST_NOISE, _JITTER = 0.4, 0.1  # sides of random boxes, as a share of the picture; of shifted ones, of their own


Pixels = Annotated[int, Field(ge=16, le=10_000)]


class DetectionOptions(TaskOptions):
    """Options of detection as a sequence."""

    target: ClassVar[str] = "objects"
    reads_symbols: ClassVar[bool] = False
    numbered: ClassVar[bool] = False  # a picture's are places in a plane; the output's are checked below
    uses: ClassVar[tuple[Use, ...]] = (
        *NO_TRANSCRIPT,
        unused(
            (
                "search.max_length_factor",
                "search.max_length_extra",
                "strategy.label_smoothing",
                "strategy.scheduled_sampling",
            ),
            "a task other than detection, which writes the detection.instances likeliest objects",
        ),
    )

    image_column: str = "image"  # of the picture or its path, where the rows have no file_name
    objects_column: str = "objects"  # an object with bbox and categories, printed or not
    height: Pixels = 240  # of the model's input, in pixels; pictures are scaled to fit
    width: Pixels = 320  # of the model's input, in pixels
    stride: Literal[4, 8, 16, 32] = 16  # pixels along each side of a patch
    channels: Annotated[int, Field(ge=8, le=8000, multiple_of=8)] = 32  # of the first convolution; doubled by each
    bins: Annotated[int, Field(ge=2, le=100_000)] = 200  # of coordinates, along the longer side
    instances: Positive = 40  # objects predicted for each picture, noise included; a picture with more is a bad row
    smoothing: NotNegativeFloat = 1.0  # deviation of coordinates' soft targets, in bins; 0 for hard ones
    order: Literal["random", "place"] = "random"  # of objects in the target; place: top to bottom, then left to right
    noise_weight: PositiveFloat = 1.0  # of noise's class in the loss
    patch_loss: NotNegativeFloat = 0.0  # weight of predicting the class of the object centred in a patch
    max_overlap: Share = 1.0  # IoU for non-maximum suppression; 1: none
    flip: bool = True  # in training, horizontally and vertically
    scales: tuple[Zoom, Zoom] = (1.0, 1.0)  # smallest and largest zoom in training
    colour: Fraction = 0.0  # change of brightness, contrast and saturation in training

    @model_validator(mode="after")
    def _pictures_are_seen(self) -> DetectionOptions:
        if self.scales[0] > self.scales[1]:
            raise ValueError(f"detection.scales {list(self.scales)}: the smallest is larger than the largest")
        if min(self.height, self.width) < self.stride:
            raise ValueError(
                f"detection.height {self.height} and detection.width {self.width}: a side is shorter than "
                f"detection.stride {self.stride}"
            )
        return self

    def check(self, config: Any) -> None:
        """There must be channels for the convolutions, and positions for all objects."""
        several = getattr(config.strategy, "slots_per_object", 1)
        if several > 1 and self.max_overlap == 1.0:
            raise ValueError(f"strategy.slots_per_object {several} finds doubles: set detection.max_overlap below 1")
        if config.backbone.width < 8:
            raise ValueError(
                f"backbone.width {config.backbone.width} leaves no group of 8 channels to the "
                "convolutions over pictures: set it to 8 or more"
            )
        longest = GROUP * self.instances + 1
        if not config.in_parallel and longest > config.backbone.max_positions:
            raise ValueError(
                f"an output may be {longest} symbols long (5 * detection.instances + 1), but "
                f"backbone.max_positions is {config.backbone.max_positions}"
            )

    def patches(self) -> tuple[int, int]:
        """Rows and columns of the encoder's positions."""
        return -(-self.height // self.stride), -(-self.width // self.stride)


class DetectionTask(Task[Pictures, Boxes]):
    """Picture -> objects.

    The source is the scaled picture, the target five symbols for each object: four bins and a class.
        Training pictures are augmented in each epoch, their objects shuffled and followed by noise.
    """

    name, presented_by = "detection", DetectionPresentation
    sections: ClassVar[Mapping[str, type[Section]]] = {"detection": DetectionOptions}
    primary_metric = "ap50"
    packages = ("PIL", "pycocotools")
    view, item = "pictures", "picture"
    expected = "rows with image (or file_name) and objects {bbox, categories}"

    def __init__(self, options: DetectionOptions, data: Data, **others: Any):
        super().__init__(options, data, **others)
        self.source, self.target = Pictures(options), Boxes(options)
        self.least = 0.0  # probability; a metric of all of them needs all
        self._augmentation = Augmentation(options.flip, options.scales, options.colour)

    def example(self, row: Row) -> Example:
        """A picture with the objects in it, in its own pixels."""
        image, place = self.source.looked_at(row), row.place
        value = unprinted(value_in(row, self.options.objects_column, "detection.objects_column"))
        if not isinstance(value, Mapping):
            raise DataError(
                f"'{self.options.objects_column}' is {named(value)}",
                **place,
                remedy="correct the row",
                expected='an object such as {"bbox": [[0, 0, 20, 10]], "categories": ["dog"]}',
            )
        left_out: list[DataError] = []
        found = objects_of(value, *image.size(), place, left_out.append)
        if len(found.boxes) > self.options.instances:
            raise DataError(
                f"a picture with {len(found.boxes)} objects",
                **place,
                expected=f"at most {self.options.instances}",
                remedy="raise detection.instances",
            )
        remarks = (*("boxes left out",) * bool(left_out), *getattr(image, "remarks", ()))
        return Example(image, found, row.origin, left_out=tuple(left_out), remarks=remarks)

    def figures(self, examples: Sequence[Example]) -> str:
        """The least and the largest sides of the pictures."""
        heights, widths = zip(*(example.source.size() for example in examples), strict=True)
        return f"{min(widths)} x {min(heights)} to {max(widths)} x {max(heights)} pixels"

    # -- numbers ------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Example]) -> Drawn:
        """Pictures without augmentation, and their objects; each is made on demand."""
        digest = hashlib.sha256()
        for example in examples:
            digest.update(example.source.key())
            digest.update(repr(example.reference).encode())
        return Drawn(
            lambda index: self._still(index, examples[index]),
            digest=digest.hexdigest(),
            source_lengths=[self.options.height] * len(examples),
            target_lengths=[
                0 if example.reference is None else GROUP * len(example.reference.boxes) + 1 for example in examples
            ],
        )

    def _still(self, index: int, example: Example) -> Encoded:
        pixels, scale = self.source.fitted(example.source)
        target = None if example.reference is None else self.target.encode(scaled(example.reference, scale), {})
        return self._encoded(index, example, pixels, target)

    def encode_epoch(self, examples: Sequence[Example], epoch: int) -> Drawn:
        """An epoch's augmented pictures, with objects shuffled (or sorted) and followed by noise.

        Each is made on demand: a whole epoch of pictures would take as much memory as the data.
        """
        return Drawn(
            lambda index: self._draw(index, examples[index], Random(f"{self.seed}/{epoch}/{index}")),
            source_lengths=[self.options.height] * len(examples),
            target_lengths=[GROUP * self._groups(example) + 1 for example in examples],
        )

    def _groups(self, example: Example) -> int:
        """Groups of symbols in a picture's target, noise included."""
        return max(self.options.instances, len(example.reference.boxes))

    def _draw(self, index: int, example: Example, random: Random) -> Encoded:
        pixels, scale = self.source.fitted(example.source)
        pixels, objects = self._augmentation(pixels, scaled(example.reference, scale), random)
        groups = [self.target.group(*item) for item in zip(objects.boxes, objects.labels, strict=True)]
        if self.options.order == "place":
            groups.sort()
        else:
            random.shuffle(groups)
        symbols = [symbol for group in groups for symbol in group]
        given = [False] * len(symbols)
        for _ in range(self._groups(example) - len(groups)):
            symbols += self.target.group(self._noise_box(objects, random), NOISE)
            given += [True] * (GROUP - 1) + [False]
        return Encoded(
            np.ascontiguousarray(pixels),
            np.array([*symbols, END], dtype=np.int64),
            index=index,
            given=np.array([*given, True]),
            auxiliary=self._patch_labels(objects),
        )

    def _patch_labels(self, objects: Objects) -> dict[str, np.ndarray]:
        """(S,) the class of the object whose centre is in each patch, the smallest of several; else noise."""
        if not self.options.patch_loss:
            return {}
        rows, columns = self.options.patches()
        labels, stride = np.full((rows, columns), len(self.target.labels), dtype=np.int64), self.options.stride
        for place in sorted(range(len(objects.boxes)), key=lambda place: -area(objects.boxes[place])):
            (x1, y1, x2, y2), label = objects.boxes[place], objects.labels[place]
            if label in self.target.labels:
                row, column = int((y1 + y2) / 2 // stride), int((x1 + x2) / 2 // stride)
                labels[min(row, rows - 1), min(column, columns - 1)] = self.target.labels.index(label)
        return {"patches": labels.reshape(-1)}

    def _noise_box(self, objects: Objects, random: Random) -> tuple[float, ...]:
        """A random box, or a true one with a small or large shift."""
        height, width = self.options.height, self.options.width
        kind = random.randrange(3) if objects.boxes else 0
        if kind == 0:
            sides = random.uniform(0.02, _LARGEST_NOISE) * width, random.uniform(0.02, _LARGEST_NOISE) * height
            centre = random.uniform(0, width), random.uniform(0, height)
        else:
            box = random.choice(objects.boxes)
            sides = box[2] - box[0], box[3] - box[1]
            if kind == 1:
                centre = random.uniform(0, width), random.uniform(0, height)
            else:
                centre = tuple(
                    (box[axis] + box[axis + 2]) / 2 + random.uniform(-_JITTER, _JITTER) * sides[axis] for axis in (0, 1)
                )
        return tuple(
            min(max(value, 0.0), limit)
            for value, limit in zip(
                (
                    centre[0] - sides[0] / 2,
                    centre[1] - sides[1] / 2,
                    centre[0] + sides[0] / 2,
                    centre[1] + sides[1] / 2,
                ),
                (width, height) * 2,
                strict=True,
            )
        )

    def read_hypothesis(self, hypothesis: Hypothesis, example: Example) -> Objects | None:
        """A search's output in the original picture's pixels."""
        objects = self.target.predicted(hypothesis.symbols, example)
        if objects is None:
            return None
        height, width = example.source.size()
        scale = min(self.options.height / height, self.options.width / width)
        found = scaled(objects, 1.0 / scale)
        found = replace(found, scores=hypothesis.details.get("certainties") or (1.0,) * len(found.boxes))
        if self.options.max_overlap < 1.0:
            found = nms(found, self.options.max_overlap)
        return confident(found, self.least) if self.least else found

    def leave_out_below(self, threshold: float | None) -> None:
        self.least = MIN_CONFIDENCE if threshold is None else threshold

    def oracle(self, train: Sequence[Example], examples: Sequence[Example]) -> list[Objects]:
        """The objects of which something shows, where the embedded pictures say what does."""
        return [
            confident(
                replace(one.reference, scores=getattr(one.source, "shares_shown", (1.0,) * len(one.reference.boxes))),
                _LEAST_SHOWN,
            )
            for one in examples
        ]

    def score(self, predictions: Sequence[Objects | None], references: Sequence[Objects]) -> Score:
        """COCO's average precision; unseen classes count as missed, those of predictions alone in no mean."""
        gold = [*references, *(one.crowds for one in references if one.crowds)]
        seen = {label for one in (*gold, *filter(None, predictions)) for label in one.labels}
        known = self.target.labels
        score = average_precision(predictions, references, labels=(*known, *sorted(seen - set(known))))
        curve = one_series(
            "lines",
            "Precision and recall",
            "How many boxes are right when more are kept?",
            score.details["curve"],
            x="recall, %",
            y="precision, % ↑",
            note="At IoU 0.5, mean over the classes; interpolated as COCO does.",
        )
        return replace(score, details={"per_label": score.details["per_label"], "panels": [curve]})
