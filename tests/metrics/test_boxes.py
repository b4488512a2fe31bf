"""Average precision and recall against a plain computation and by hand."""

import random

import numpy as np
import pytest

pytest.importorskip("pycocotools", reason="comes with the extra `vision`")

from seq2seq_suite import metrics
from seq2seq_suite.data.pictures import Objects
from seq2seq_suite.metrics.boxes import average_precision, match
from seq2seq_suite.metrics.significance import draws


def overlap(one, other) -> float:
    wide = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    high = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return wide * high / (sum(area) - wide * high)


def plain_ap(predictions, references, label, threshold) -> float:
    """Interpolated at 101 recalls; each detection, by falling score, takes the free true box it overlaps most."""
    found = sorted(
        (
            (score, picture, box)
            for picture, objects in enumerate(predictions)
            for box, name, score in zip(objects.boxes, objects.labels, objects.scores, strict=True)
            if name == label
        ),
        key=lambda item: -item[0],
    )
    truth = [
        [box for box, name in zip(objects.boxes, objects.labels, strict=True) if name == label]
        for objects in references
    ]
    free, right, points = [set(range(len(boxes))) for boxes in truth], 0, []
    for number, (_, picture, box) in enumerate(found, 1):
        best = max(free[picture], key=lambda place: overlap(box, truth[picture][place]), default=None)
        if best is not None and overlap(box, truth[picture][best]) >= threshold:
            free[picture].remove(best)
            right += 1
        points.append((right / sum(map(len, truth)), right / number))
    return (
        sum(
            max((precision for recall, precision in points if recall >= step), default=0.0)
            for step in np.linspace(0.0, 1.0, 101)
        )
        / 101
        * 100
    )


def some_pictures():
    """Predictions and references of 30 pictures."""
    rng = random.Random(5)

    def box():
        x, y = rng.uniform(0, 60), rng.uniform(0, 60)
        return (x, y, x + rng.uniform(10, 40), y + rng.uniform(10, 40))

    references = [Objects(tuple(box() for _ in range(4)), tuple(rng.choices("ab", k=4))) for _ in range(30)]
    predictions = []
    for objects in references:
        boxes = [tuple(value + rng.uniform(-4, 4) for value in one) for one in objects.boxes] + [box(), box()]
        labels = [label if rng.random() < 0.8 else "a" for label in objects.labels] + rng.choices("ab", k=2)
        predictions.append(Objects(tuple(boxes), tuple(labels), tuple(rng.random() for _ in boxes)))
    return predictions, references


def test_average_precision_is_its_definition():
    predictions, references = some_pictures()
    score = average_precision(predictions, references, labels=["a", "b", "c"])
    expected = {
        label: [plain_ap(predictions, references, label, 0.5 + 0.05 * step) for step in range(10)] for label in "ab"
    }
    means = {label: sum(values) / 10 for label, values in expected.items()}
    assert score.figures["ap"] == pytest.approx((means["a"] + means["b"]) / 2)
    for name, step in (("ap50", 0), ("ap75", 5)):
        assert score.figures[name] == pytest.approx((expected["a"][step] + expected["b"][step]) / 2)
    support = [sum(objects.labels.count(label) for objects in references) for label in "ab"]
    assert score.details["per_label"] == [
        {"label": "a", "ap": round(means["a"], 2), "ap50": round(expected["a"][0], 2), "support": support[0]},
        {"label": "b", "ap": round(means["b"], 2), "ap50": round(expected["b"][0], 2), "support": support[1]},
        {"label": "c", "ap": -1.0, "ap50": -1.0, "support": 0},
    ]


def test_the_interval_is_that_of_pictures_drawn_with_replacement(monkeypatch):
    monkeypatch.setattr(metrics.boxes, "INTERVAL_SAMPLES", 40)
    predictions, references = some_pictures()
    references[:3] = [Objects()] * 3
    predictions[2:5] = [None] * 3
    found = average_precision(predictions, references, labels=["a", "b", "c"]).interval()
    values = sorted(
        average_precision(
            [predictions[place] for place in drawn], [references[place] for place in drawn], labels=["a", "b", "c"]
        ).figures["ap50"]
        for drawn in draws(30, 40)
    )
    assert found == pytest.approx([values[1], values[-2]])


def test_recall_is_that_of_all_boxes_of_a_picture():
    """Eleven boxes are found exactly, the twelfth with an overlap of 0.62, right at three of ten thresholds."""
    boxes = tuple((20.0 * place, 0.0, 20.0 * place + 10.0, 10.0) for place in range(12))
    found = (*boxes[:11], (220.0, 0.0, 230.0, 6.2))
    wrong = tuple((20.0 * place, 50.0, 20.0 * place + 10.0, 60.0) for place in range(80))
    score = average_precision(
        [Objects(found + wrong, ("a",) * 92, tuple(1.0 - place / 100 for place in range(92)))],
        [Objects(boxes, ("a",) * 12)],
        labels=["a"],
    )
    assert score.figures["recall"] == pytest.approx(100 * (3 + 7 * 11 / 12) / 10)


@pytest.mark.parametrize("missed", ["small", "medium", "large"])
def test_figures_by_size_are_those_of_small_medium_and_large_objects(missed):
    sides = {"small": 31.0, "medium": 40.0, "large": 97.0}
    boxes = {name: (0.0, 0.0, side, side) for name, side in sides.items()}
    truth = [Objects((box,), ("a",)) for box in boxes.values()]
    found = [None if name == missed else Objects((box,), ("a",), (0.5,)) for name, box in boxes.items()]
    figures = average_precision(found, truth, labels=["a"]).figures
    assert {name: round(figures[f"ap_{name}"]) for name in sides} == {name: 100 * (name != missed) for name in sides}
    assert "ap_large" not in average_precision([None], truth[:1], labels=["a"]).figures


def test_a_box_of_another_class_or_picture_is_wrong():
    truth = [Objects(((0.0, 0.0, 20.0, 40.0),), ("a",)), Objects(((5.0, 5.0, 50.0, 30.0),), ("b",))]
    right = [Objects(objects.boxes, objects.labels, (0.9,)) for objects in truth]
    turned = [Objects(tuple((y1, x1, y2, x2) for x1, y1, x2, y2 in one.boxes), one.labels, (0.9,)) for one in right]
    other = [Objects(one.boxes, ("b", "a")[place : place + 1], (0.9,)) for place, one in enumerate(right)]
    ap50 = [
        average_precision(found, truth, labels=["a", "b"]).figures["ap50"]
        for found in (right, right[::-1], turned, other)
    ]
    assert ap50 == [pytest.approx(100.0), 0.0, 0.0, 0.0]


def test_missing_predictions_have_found_nothing():
    truth = Objects(((0.0, 0.0, 40.0, 40.0),), ("a",))
    assert average_precision([None, Objects()], [truth, truth], labels=["a"]).figures["ap50"] == 0.0
    perfect = Objects(truth.boxes, truth.labels, (1.0,))
    assert average_precision([perfect, perfect], [truth, truth], labels=["a"]).figures["ap"] == pytest.approx(100.0)
    with pytest.raises(ValueError, match="1 predictions for 2"):
        average_precision([None], [truth, truth], labels=["a"])


def test_sizes_are_areas_wherever_a_box_lies():
    """COCO's bounds: small below 32^2 pixels, large from 96^2 on."""
    for side, name in ((20, "ap_small"), (50, "ap_medium"), (120, "ap_large")):
        box = (300.0, 200.0, 300.0 + side, 200.0 + side)
        figures = average_precision([Objects((box,), ("a",), (0.9,))], [Objects((box,), ("a",))], labels=["a"]).figures
        assert figures[name] == pytest.approx(100.0)
        assert {one for one in figures if one.startswith("ap_")} == {name}


def test_crowds_and_areas_count_as_in_cocos_own_evaluation():
    """The same boxes as files to pycocotools: what is found in a crowd is ignored, sizes are those of outlines."""
    import contextlib
    import io

    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    predictions, references = some_pictures()
    rng = random.Random(6)
    mixed = [
        Objects(
            one.boxes[:3],
            one.labels[:3],
            areas=tuple(rng.uniform(100, 2000) for _ in range(3)),
            crowds=Objects(one.boxes[3:], one.labels[3:]),
        )
        for one in references
    ]
    ids, truth, found = {"a": 1, "b": 2}, [], []
    for picture, (theirs, gold) in enumerate(zip(predictions, mixed, strict=True), 1):
        boxes = [
            *zip(gold.boxes, gold.labels, gold.areas, [0] * 3, strict=True),
            *((box, label, 1.0, 1) for box, label in zip(gold.crowds.boxes, gold.crowds.labels, strict=True)),
        ]
        truth += [
            {
                "image_id": picture,
                "bbox": [x1, y1, x2 - x1, y2 - y1],
                "category_id": ids[label],
                "area": size,
                "iscrowd": crowd,
                "id": len(truth) + number,
            }
            for number, ((x1, y1, x2, y2), label, size, crowd) in enumerate(boxes, 1)
        ]
        found += [
            {"image_id": picture, "bbox": [x1, y1, x2 - x1, y2 - y1], "category_id": ids[label], "score": score}
            for (x1, y1, x2, y2), label, score in zip(theirs.boxes, theirs.labels, theirs.scores, strict=True)
        ]
    with contextlib.redirect_stdout(io.StringIO()):
        gold = COCO()
        gold.dataset = {
            "images": [{"id": number + 1} for number in range(len(mixed))],
            "annotations": truth,
            "categories": [{"id": number, "name": name} for name, number in ids.items()],
            "info": {},
        }
        gold.createIndex()
        judge = COCOeval(gold, gold.loadRes(found), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    score = average_precision(predictions, mixed, labels=["a", "b"])
    assert [score.figures[name] for name in ("ap", "ap50", "ap75", "ap_small", "ap_medium")] == pytest.approx(
        [100.0 * value for value in judge.stats[:5]]
    )
    assert (
        score.figures["ap50"]
        > average_precision(predictions, [Objects(one.boxes, one.labels) for one in mixed], labels=["a", "b"]).figures[
            "ap50"
        ]
        + 5
    )
    assert sum(row["support"] for row in score.details["per_label"]) == 3 * len(mixed)
    low, high = score.interval()
    assert low < score.figures["ap50"] < high


def test_a_box_in_a_crowd_of_its_class_is_no_error():
    gold = Objects(crowds=Objects(((0.0, 0.0, 40.0, 40.0),), ("a",)))
    found = Objects(((0.0, 0.0, 10.0, 10.0), (30.0, 30.0, 60.0, 60.0), (0.0, 0.0, 10.0, 10.0)), ("a", "a", "b"))
    assert match(found, gold) == [("added", -1, 1), ("added", -1, 2)]


def test_pictures_without_any_object_have_no_precision_and_no_interval():
    for found in (Objects(), Objects(((0.0, 0.0, 9.0, 9.0),), ("dog",), (0.5,))):
        score = average_precision([found], [Objects()], labels=found.labels)
        assert score.figures["ap"] == score.figures["ap50"] == -1.0 and score.interval is None
        assert "no reference has an object" in score.notes[0]


@pytest.mark.filterwarnings("error")
def test_the_interval_leaves_out_draws_without_an_object():
    truth = Objects(((0.0, 0.0, 40.0, 40.0),), ("a",))
    perfect = Objects(truth.boxes, truth.labels, (1.0,))
    found = average_precision([perfect, Objects()], [truth, Objects()], labels=["a"]).interval()
    assert found == pytest.approx([100.0, 100.0])
