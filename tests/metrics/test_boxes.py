"""Average precision against a plain computation at one threshold."""

import random

import pytest

pytest.importorskip("pycocotools", reason="comes with the extra `vision`")

from seq2seq_suite.metrics.boxes import average_precision
from seq2seq_suite.types import Objects


def overlap(one, other) -> float:
    wide = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    high = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return wide * high / (sum(area) - wide * high)


def plain_ap50(predictions, references, label) -> float:
    """Interpolated at 101 recalls; each detection, by falling score, takes the free true box it overlaps most."""
    found = sorted(((score, picture, box) for picture, objects in enumerate(predictions)
                    for box, name, score in zip(objects.boxes, objects.labels, objects.scores, strict=True)
                    if name == label), key=lambda item: -item[0])
    truth = [[box for box, name in zip(objects.boxes, objects.labels, strict=True) if name == label]
             for objects in references]
    free, right, points = [set(range(len(boxes))) for boxes in truth], 0, []
    for number, (_, picture, box) in enumerate(found, 1):
        best = max(free[picture], key=lambda place: overlap(box, truth[picture][place]), default=None)
        if best is not None and overlap(box, truth[picture][best]) >= 0.5:
            free[picture].remove(best)
            right += 1
        points.append((right / sum(map(len, truth)), right / number))
    return sum(max((precision for recall, precision in points if recall >= step / 100 - 1e-12), default=0.0)
               for step in range(101)) / 101 * 100


def test_ap50_is_its_definition():
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
    score = average_precision(predictions, references, labels=["a", "b", "c"])
    expected = [plain_ap50(predictions, references, label) for label in "ab"]
    assert score.figures["ap50"] == pytest.approx(sum(expected) / 2, abs=0.5)
    assert [row["ap50"] for row in score.details["per_label"]] == pytest.approx([*expected, -1.0], abs=0.5)
    assert [row["support"] for row in score.details["per_label"]][2] == 0


def test_missing_predictions_have_found_nothing():
    truth = Objects(((0.0, 0.0, 40.0, 40.0),), ("a",))
    assert average_precision([None, Objects()], [truth, truth], labels=["a"]).figures["ap50"] == 0.0
    perfect = Objects(truth.boxes, truth.labels, (1.0,))
    assert average_precision([perfect, perfect], [truth, truth], labels=["a"]).figures["ap"] == pytest.approx(100.0)
    with pytest.raises(ValueError, match="1 predictions for 2"):
        average_precision([None], [truth, truth], labels=["a"])
