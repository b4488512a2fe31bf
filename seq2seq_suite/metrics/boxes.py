"""Average precision of detected boxes, by pycocotools."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seq2seq_suite import __version__
from seq2seq_suite.types import Score

if TYPE_CHECKING:
    from seq2seq_suite.data.pictures import Objects


def average_precision(predictions: Sequence[Objects | None], references: Sequence[Objects], *,
                      labels: Sequence[str]) -> Score:
    """COCO's metrics; a missing prediction counts as no boxes.

    Args:
        predictions: objects with scores, of each picture.
        references: the truth.
        labels: all classes; one without a true object counts in no mean.

    Returns:
        Figures ap (mean over IoU 0.50 to 0.95), ap50, ap75, ap_small, ap_medium, ap_large (-1 where no object has that
        size), recall (at most 100 boxes a picture), all in percent; `details["per_label"]` has ap and ap50 by class.

    Raises:
        ValueError: there is not one prediction for each reference.

    Source: Lin et al. 2014 and cocodataset.org's evaluation.

    >>> from seq2seq_suite.data.pictures import Objects
    >>> truth = Objects(((0.0, 0.0, 40.0, 40.0),), ("cat",))
    >>> found = Objects(((0.0, 0.0, 40.0, 30.0), (50.0, 50.0, 90.0, 90.0)), ("cat", "cat"), (0.9, 0.4))
    >>> figures = average_precision([found], [truth], labels=["cat"]).figures
    >>> round(figures["ap50"]), round(figures["ap75"]), round(figures["ap"])
    (100, 100, 60)
    """
    from importlib.metadata import version

    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    if len(predictions) != len(references) or not references:
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
    numbers = {label: number for number, label in enumerate(labels, 1)}
    truth = [_annotation(picture, box, numbers[label]) for picture, objects in enumerate(references, 1)
             for box, label in zip(objects.boxes, objects.labels, strict=True)]
    found = [{**_annotation(picture, box, numbers[label]), "score": score}
             for picture, objects in enumerate(predictions, 1) if objects is not None
             for box, label, score in zip(objects.boxes, objects.labels, objects.scores, strict=True)]
    with contextlib.redirect_stdout(io.StringIO()):
        gold, given = COCO(), COCO()
        for data, annotations in ((gold, truth), (given, found)):
            data.dataset = {"images": [{"id": picture} for picture in range(1, len(references) + 1)],
                            "categories": [{"id": number, "name": label} for label, number in numbers.items()],
                            "annotations": [{**one, "id": number} for number, one in enumerate(annotations, 1)]}
            data.createIndex()
        judge = COCOeval(gold, given, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    names = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")
    figures = {name: 100.0 * float(value) if value >= 0 else -1.0
               for name, value in zip((*names, "recall"), (*judge.stats[:6], judge.stats[8]), strict=True)}
    precision = judge.eval["precision"][:, :, :, 0, -1]  # (IoU, recall, class)
    table = [{"label": label, "ap": _mean(precision[:, :, place]), "ap50": _mean(precision[0, :, place]),
              "support": sum(one["category_id"] == number for one in truth)}
             for place, (label, number) in enumerate(numbers.items())]
    signature = f"coco|iou:.50:.95|boxes:100|area:all|pycocotools:{version('pycocotools')}|version:{__version__}"
    return Score(figures, signature, {"per_label": table}, formula="", counts=())


def _annotation(picture: int, box: Sequence[float], category: int) -> dict:
    x1, y1, x2, y2 = box
    return {"image_id": picture, "bbox": [x1, y1, x2 - x1, y2 - y1], "category_id": category,
            "area": (x2 - x1) * (y2 - y1), "iscrowd": 0}


def _mean(values: np.ndarray) -> float:
    real = values[values > -1]
    return round(100.0 * float(real.mean()), 2) if real.size else -1.0
