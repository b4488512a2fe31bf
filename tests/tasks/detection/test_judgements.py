"""What detection says of its outputs: boxes matched, kinds of errors, what a page gets, confusions."""

import base64
import io

import numpy as np
import pytest
import task_tools

pytest.importorskip("pycocotools", reason="comes with the extra `vision`")

from PIL import Image

from seq2seq_suite.common.examples import Example
from seq2seq_suite.data.pictures import Objects

CAT, DOG = (0.0, 0.0, 10.0, 10.0), (20.0, 20.0, 30.0, 30.0)
GOLD = Objects((CAT, DOG), ("cat", "dog"))


@pytest.fixture
def task():
    return task_tools.make_task("detection")


def judged(task, *found):
    boxes, labels, scores = zip(*found, strict=True) if found else ((), (), ())
    return task.presentation.judge(Objects(boxes, labels, scores), GOLD, Example(None, GOLD))


def test_weak_boxes_and_small_shifts_make_no_error(task):
    assert judged(task, (CAT, "cat", 0.9), ((20.0, 20.0, 30.0, 29.0), "dog", 0.8), (CAT, "dog", 0.1)).equal


def test_errors_are_named_by_kind(task):
    assert judged(task, (CAT, "dog", 0.9), (DOG, "dog", 0.9)).kinds == ("wrong class",)
    assert judged(task, ((0.0, 0.0, 10.0, 4.0), "cat", 0.9), (DOG, "dog", 0.9)).kinds == ("poorly placed",)
    assert judged(task, (CAT, "cat", 0.9), ((50.0, 50.0, 60.0, 60.0), "cat", 0.9)).kinds == ("missed", "added")
    assert task.presentation.judge(None, GOLD, Example(None, GOLD)).kinds == ("missed",)


def test_a_page_gets_no_box_of_almost_no_probability(task):
    found = task.presentation.output_data(Example(None), Objects((CAT, DOG), ("cat", "dog"), (0.9, 0.0)))
    assert found == {"boxes": [{"box": [0.0, 0.0, 10.0, 10.0], "label": "cat", "score": 0.9}]}


def test_confusions_are_counted_by_class(task):
    found = Objects((CAT,), ("dog",), (0.9,))
    (panel,) = task.presentation.charts([Example(None, GOLD)], [found])
    assert panel["rows"] == ["cat", "dog", "(nothing)"]
    assert panel["cells"] == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_a_page_gets_the_picture_made_small_and_its_true_size(task):
    class Large:
        name = "x.png"

        def size(self):
            return 300, 600

        def pixels(self):
            return np.full((300, 600, 3), 128, dtype=np.uint8)

    found = task.presentation.source_data(Example(Large()))
    assert (found["height"], found["width"]) == (300, 600)
    with Image.open(io.BytesIO(base64.b64decode(found["picture"].partition(",")[2]))) as picture:
        assert picture.size == (200, 100) and picture.getpixel((50, 50)) == (128, 128, 128)


def test_the_curve_of_precision_falls_where_boxes_are_wrong(task):
    task.target.labels = ("cat", "dog")
    found = Objects((CAT, (50.0, 50.0, 60.0, 60.0), DOG), ("cat", "dog", "dog"), (0.9, 0.8, 0.7))
    score = task.score([found], [GOLD])
    (panel,) = score.details["panels"]
    points = panel["series"][0]["points"]
    assert panel["kind"] == "lines" and points[0] == [0.0, 75.0] and points[-1] == [100.0, 75.0]
    assert sum(precision for _, precision in points) / len(points) == pytest.approx(score.figures["ap50"])
