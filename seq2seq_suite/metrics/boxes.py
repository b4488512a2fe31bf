"""Average precision of detected boxes, by pycocotools."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from seq2seq_suite import __version__
from seq2seq_suite.common.examples import Score
from seq2seq_suite.metrics.significance import INTERVAL_SAMPLES, draws

if TYPE_CHECKING:
    from seq2seq_suite.data.pictures import Objects


def average_precision(
    predictions: Sequence[Objects | None], references: Sequence[Objects], *, labels: Sequence[str]
) -> Score:
    """COCO's metrics; a missing prediction counts as no boxes.

    Args:
        predictions: objects of each picture; without scores all have 1.
        references: the truth, with its crowds, and areas where they are not the boxes'.
        labels: all classes, predicted ones among them; one without a true object counts in no mean.

    Returns:
        Figures ap (mean over IoU 0.50 to 0.95), ap50, ap75, ap_small, ap_medium, ap_large (absent where no object has
        that size), recall (at most 100 boxes a picture), all in percent, -1 if there is no true object at all;
        `details` has `per_label`, ap and ap50 by class, and `curve`, (recall, precision) at IoU 0.50.

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
    truth = [
        {**_annotation(picture, box, numbers[label]), **more}
        for picture, objects in enumerate(references, 1)
        for box, label, more in _with_crowds(objects)
    ]
    found = [
        {**_annotation(picture, box, numbers[label]), "score": score}
        for picture, objects in enumerate(predictions, 1)
        if objects is not None
        for box, label, score in zip(
            objects.boxes, objects.labels, objects.scores or (1.0,) * len(objects.boxes), strict=True
        )
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        gold, given = COCO(), COCO()
        for data, annotations in ((gold, truth), (given, found)):
            data.dataset = cast(
                Any,
                {  # its stub demands fields that boxes do without
                    "images": [{"id": picture} for picture in range(1, len(references) + 1)],
                    "categories": [{"id": number, "name": label} for label, number in numbers.items()],
                    "annotations": [{**one, "id": number} for number, one in enumerate(annotations, 1)],
                },
            )
            data.createIndex()
        judge = COCOeval(gold, given, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    names = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")
    figures = {
        name: 100.0 * float(value) if value >= 0 else -1.0
        for name, value in zip((*names, "recall"), (*judge.stats[:6], judge.stats[8]), strict=True)
        if value >= 0 or name not in names[3:]
    }
    precision = judge.eval["precision"][:, :, :, 0, -1]  # (IoU, recall, class)
    table = [
        {
            "label": label,
            "ap": _mean(precision[:, :, place]),
            "ap50": _mean(precision[0, :, place]),
            "support": sum(one["category_id"] == number and not one["iscrowd"] for one in truth),
        }
        for place, (label, number) in enumerate(numbers.items())
    ]
    signature = f"coco|iou:.50:.95|boxes:100|area:all|pycocotools:{version('pycocotools')}|version:{__version__}"
    curve = [[100.0 * place / (len(precision[0]) - 1), _mean(row)] for place, row in enumerate(precision[0])]
    notes = () if truth else ("no reference has an object: average precision is not defined, -1 stands for it",)
    return Score(
        figures,
        signature,
        {"per_label": table, "curve": [point for point in curve if point[1] >= 0]},
        formula="",
        interval=(lambda: _interval(judge.evalImgs, len(references))) if truth else None,
        notes=notes,
    )


def _interval(judged: Sequence[Mapping[str, Any] | None], pictures: int) -> list[float]:
    """AP50's 95 % interval: pictures are drawn with replacement, and what was matched in each of them stays matched.

    Args:
        judged: `COCOeval.evalImgs`, by class, range of areas (all is the first of four) and picture.
        pictures: how many there are.
    """
    times = np.stack([np.bincount(drawn, minlength=pictures) for drawn in draws(pictures, INTERVAL_SAMPLES)])
    by_class = [judged[first : first + pictures] for first in range(0, len(judged), 4 * pictures)]
    precisions = np.stack([_resampled(some, times) for some in by_class])
    defined = precisions[:, ~np.isnan(precisions).all(0)]  # without samples that drew no true object
    values = np.sort(100.0 * np.nanmean(defined, 0))
    edge = len(values) // 40
    return [float(values[edge]), float(values[-edge - 1])]


def _resampled(judged: Sequence[Mapping[str, Any] | None], times: np.ndarray) -> np.ndarray:
    """(samples,) AP50 of a class if pictures count as often as `times` (samples,pictures) says; NaN without truth."""
    known = [(place, one) for place, one in enumerate(judged) if one is not None]
    scores = np.concatenate([np.empty(0), *(one["dtScores"] for _, one in known)])
    order = np.argsort(-scores, kind="stable")
    right = np.concatenate([np.empty(0), *(one["dtMatches"][0] > 0 for _, one in known)])[order]
    where = np.repeat([place for place, _ in known], [len(one["dtScores"]) for _, one in known]).astype(int)[order]
    counts = ~np.concatenate([np.empty(0, dtype=bool), *(one["dtIgnore"][0] for _, one in known)])[order]
    right, where = right[counts], where[counts]  # boxes in crowds are neither right nor wrong
    truth = np.array([0 if one is None else np.sum(one["gtIgnore"] == 0) for one in judged])
    found = np.full(len(times), np.nan)
    for sample, often in enumerate(times):
        if total := often @ truth:
            hits, all_boxes = np.cumsum(often[where] * right), np.cumsum(often[where])
            precision = np.maximum.accumulate((hits / np.maximum(all_boxes, 1))[::-1])[::-1]
            at = np.searchsorted(hits / total, np.linspace(0.0, 1.0, 101))
            found[sample] = np.append(precision, 0.0)[at].mean()
    return found


def overlap(first: Sequence[float], second: Sequence[float]) -> float:
    """Intersection over union of two boxes x1, y1, x2, y2.

    >>> overlap((0, 0, 2, 2), (0, 1, 2, 3)), overlap((0, 0, 1, 1), (2, 2, 3, 3))
    (0.3333333333333333, 0.0)
    """
    common = shared(first, second)
    return common / (area(first) + area(second) - common) if common else 0.0


def shared(first: Sequence[float], second: Sequence[float]) -> float:
    """The area that two boxes have in common."""
    wide, high = (max(0.0, min(first[axis + 2], second[axis + 2]) - max(first[axis], second[axis])) for axis in (0, 1))
    return wide * high


def area(box: Sequence[float]) -> float:
    """Of x1, y1, x2, y2."""
    return (box[2] - box[0]) * (box[3] - box[1])


def match(predicted: Objects, gold: Objects) -> list[tuple[str, int, int]]:
    """What became of each box: (kind, gold box, predicted box), -1 where there is none.

    Pairs are made greedily, in four rounds: the same class at IoU 0.5 ("right"), another class at IoU 0.5 ("wrong
    class"), the same class at IoU 0.1 ("poorly placed"); what is left over is "missed" or, outside crowds, "added".

    >>> from seq2seq_suite.data.pictures import Objects
    >>> gold = Objects(((0, 0, 10, 10), (20, 20, 30, 30)), ("cat", "dog"))
    >>> match(Objects(((0, 0, 10, 9), (50, 50, 60, 60)), ("dog", "cat"), (0.9, 0.8)), gold)
    [('wrong class', 0, 0), ('missed', 1, -1), ('added', -1, 1)]
    """
    left = set(range(len(gold.boxes))), set(range(len(predicted.boxes)))
    pairs = sorted(
        (
            (overlap(box, other), theirs, ours)
            for ours, other in enumerate(gold.boxes)
            for theirs, box in enumerate(predicted.boxes)
        ),
        reverse=True,
    )
    found = []
    for kind, least, same in (("right", 0.5, True), ("wrong class", 0.5, False), ("poorly placed", 0.1, True)):
        for common, theirs, ours in pairs:
            if (
                ours in left[0]
                and theirs in left[1]
                and common >= least
                and (gold.labels[ours] == predicted.labels[theirs]) == same
            ):
                found.append((kind, ours, theirs))
                left[0].remove(ours)
                left[1].remove(theirs)
    return [
        *found,
        *(("missed", ours, -1) for ours in sorted(left[0])),
        *(("added", -1, theirs) for theirs in sorted(left[1]) if not _in_a_crowd(predicted, theirs, gold.crowds)),
    ]


def _in_a_crowd(predicted: Objects, place: int, crowds: Objects | None) -> bool:
    """Whether at least half of a box is in a crowd of its class."""
    box = predicted.boxes[place]
    return crowds is not None and any(
        label == predicted.labels[place] and shared(box, crowd) >= 0.5 * area(box) > 0
        for crowd, label in zip(crowds.boxes, crowds.labels, strict=True)
    )


def _with_crowds(objects: Objects) -> Iterator[tuple[Sequence[float], str, Mapping[str, float]]]:
    """Each true box with its label and what COCO knows of it beside; crowds come last."""
    areas = [{"area": known} for known in objects.areas] or [{}] * len(objects.boxes)
    yield from zip(objects.boxes, objects.labels, areas, strict=True)
    if objects.crowds is not None:
        yield from zip(objects.crowds.boxes, objects.crowds.labels, repeat({"iscrowd": 1}))


def _annotation(picture: int, box: Sequence[float], category: int) -> dict:
    x1, y1, x2, y2 = box
    return {
        "image_id": picture,
        "bbox": [x1, y1, x2 - x1, y2 - y1],
        "category_id": category,
        "area": area(box),
        "iscrowd": 0,
    }


def _mean(values: np.ndarray) -> float:
    real = values[values > -1]
    return round(100.0 * float(real.mean()), 2) if real.size else -1.0
