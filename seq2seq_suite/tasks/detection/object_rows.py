"""Reads objects in pictures from rows and lines of JSON, strictly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from seq2seq_suite.common.errors import DataError, repr_short
from seq2seq_suite.common.files import parse_json
from seq2seq_suite.data.pictures import Objects

NOISE = "noise"  # the class of no object, reserved
_EXAMPLE = '{"boxes": [[x1, y1, x2, y2]], "labels": ["dog"], "scores": [0.9]}'


def objects_of(
    value: Any, height: int, width: int, place: Mapping[str, Any], bad: Callable[[DataError], None] | None = None
) -> Objects:
    """The column `objects` of a row: COCO's boxes (x, y, width, height) with their categories.

    Args:
        value: an object with `bbox` and `categories` (or `category`, `label`), lists of one length, perhaps with
            `area` and `iscrowd`.
        height, width: of the picture.
        place: file and line of the row.
        bad: gets what is wrong with a box or its category, which is left out; None to raise it.

    Raises:
        DataError: they are of another kind or not as many; without `bad` a box is empty or outside the picture.

    >>> objects_of({"bbox": [[0, 10, 20, 5]], "categories": ["dog"]}, 40, 30, {})
    Objects(boxes=((0.0, 10.0, 20.0, 15.0),), labels=('dog',), scores=())
    """
    boxes = value.get("bbox", [])
    labels = value.get("categories", value.get("category", value.get("label", [])))
    if not isinstance(boxes, list) or not isinstance(labels, list):
        raise DataError(
            f"the boxes are {repr_short(boxes)}, the categories {repr_short(labels)}",
            **place,
            expected="two lists",
            remedy="write lists, also for a single object",
        )
    crowds = value.get("iscrowd") or [0] * len(boxes)
    for name, values in (("categories", labels), ("values of iscrowd", crowds)):
        if not isinstance(values, list) or len(boxes) != len(values):
            number = len(values) if isinstance(values, list) else repr_short(values)
            raise DataError(
                f"{len(boxes)} boxes with {number} {name}", **place, expected="one for each", remedy="correct the row"
            )
    areas = _numbers(value.get("area"), len(boxes)) or tuple(None for _ in boxes)
    found: tuple[list[Any], list[Any]] = [], []
    for box, label, crowd, area in zip(boxes, labels, crowds, areas, strict=True):
        try:
            corners = _corners(box, height, width, place)
            found[bool(crowd)].append((corners, _label(str(label) if type(label) is int else label, place), area))
        except DataError as error:
            if bad is None:
                raise
            bad(error)
    (boxes, labels, areas), (some, kinds, _) = (tuple(zip(*one, strict=True)) or ((), (), ()) for one in found)
    return Objects(boxes, labels, areas=() if None in areas else areas, crowds=Objects(some, kinds) if some else None)


def read_objects(line: str, place: Mapping[str, Any]) -> Objects:
    """A line of JSON as `DetectionTask.to_text` writes it; raises DataError.

    >>> read_objects('{"boxes": [[0, 10, 20, 15]], "labels": ["dog"]}', {"file": "gold.txt"}).scores
    (1.0,)
    """
    return _objects(parse_json(line, **place, expected=_EXAMPLE, remedy="correct the line"), place)


def _objects(row: Any, place: Mapping[str, Any]) -> Objects:
    if not isinstance(row, dict):
        raise DataError(f"no objects: {repr_short(row)}", **place, expected=_EXAMPLE, remedy="correct the line")
    boxes, labels = row.get("boxes"), row.get("labels")
    if not isinstance(boxes, list):
        raise DataError(f"the boxes {repr_short(boxes)}", **place, expected=_EXAMPLE, remedy="correct the line")
    given: dict[str, Any] = {"labels": labels, "scores": row.get("scores", [1.0] * len(boxes))}
    for name, values in given.items():
        if not isinstance(values, list) or len(values) != len(boxes):
            raise DataError(
                f"{len(boxes)} boxes, {name} {repr_short(values)}",
                **place,
                expected="one for each box",
                remedy="correct the line",
            )
    scores = _numbers(given["scores"], len(boxes))
    if scores is None:
        raise DataError(
            f"the scores {repr_short(given['scores'])}", **place, expected="finite numbers", remedy="correct the line"
        )
    crowds = row.get("crowds")
    return Objects(
        tuple(_box(box, place) for box in boxes),
        tuple(_label(label, place) for label in given["labels"]),
        scores,
        _numbers(row.get("areas"), len(boxes)) or (),
        crowds and _objects(crowds, place),
    )


def _numbers(values: Any, count: int) -> tuple[float, ...] | None:
    """A list of `count` finite numbers; None for anything else, including truth values.

    >>> _numbers([1, 2.5], 2), _numbers([1, True], 2), _numbers("12", 2), _numbers([1, 10**400], 2)
    ((1.0, 2.5), None, None, None)
    """
    if not isinstance(values, list) or len(values) != count or not all(type(one) in (int, float) for one in values):
        return None
    try:
        numbers = tuple(map(float, values))
    except OverflowError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _corners(box: Any, height: int, width: int, place: Mapping[str, Any]) -> tuple[float, float, float, float]:
    numbers = _numbers(box, 4)
    if numbers is None:
        raise DataError(
            f"the box {repr_short(box)}",
            **place,
            expected="[x, y, width, height], four finite numbers",
            remedy="correct the row",
        )
    x, y, wide, high = numbers
    if wide <= 0 or high <= 0 or x < 0 or y < 0 or x + wide > width + 1 or y + high > height + 1:
        raise DataError(
            f"the box {repr_short(box)} is empty or outside the picture of {width} x {height}",
            **place,
            expected="[x, y, width, height] inside the picture",
            remedy="correct the row, or leave such boxes out by data.max_bad_rows",
        )
    return x, y, min(x + wide, width), min(y + high, height)


def _box(box: Any, place: Mapping[str, Any]) -> tuple[float, float, float, float]:
    numbers = _numbers(box, 4)
    if numbers is None or numbers[0] > numbers[2] or numbers[1] > numbers[3]:
        raise DataError(
            f"the box {repr_short(box)}",
            **place,
            remedy="correct the line",
            expected="[x1, y1, x2, y2], four finite numbers, x1 <= x2 and y1 <= y2",
        )
    x1, y1, x2, y2 = numbers
    return x1, y1, x2, y2


def _label(label: Any, place: Mapping[str, Any]) -> str:
    if not isinstance(label, str) or not label.strip() or label == NOISE:
        raise DataError(
            f"the label {repr_short(label)}", **place, expected=f"a name, which is not '{NOISE}'", remedy="correct it"
        )
    return label
