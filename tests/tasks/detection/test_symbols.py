"""Boxes as symbols, with figures by hand: which axis stands where, in whose pixels, and what noise looks like."""

import json
from dataclasses import dataclass, replace
from functools import partial
from random import Random

import numpy as np
import pytest
import task_tools

pytest.importorskip("PIL", reason="comes with the extra `vision`")

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import END, SPECIALS, UNKNOWN, Hypothesis
from seq2seq_suite.data.pictures import Objects
from seq2seq_suite.tasks.detection.task import NOISE

# Pictures are fitted into 64 x 128; a bin is 2 pixels, a patch 8 bins.
make_task = partial(
    task_tools.make_task,
    "detection",
    detection__height=64,
    detection__width=128,
    detection__stride=16,
    detection__bins=64,
    detection__channels=8,
    detection__instances=6,
    detection__flip=False,
)
FIRST_LABEL = len(SPECIALS) + 64


@dataclass(frozen=True)
class Grey:
    """A picture without anything in it."""

    height: int
    width: int
    name: str = "grey"

    def size(self) -> tuple[int, int]:
        return self.height, self.width

    def key(self) -> bytes:
        return repr(self).encode()

    def pixels(self) -> np.ndarray:
        return np.full((self.height, self.width, 3), 99, dtype=np.uint8)


def fitted(**keys):
    task = make_task(**keys)
    task.fit([Example(None, Objects(((0.0, 0.0, 1.0, 1.0),) * 2, ("star", "circle")))])
    return task


def test_pictures_are_encoded_when_they_are_asked_for():
    @dataclass(frozen=True)
    class Unread(Grey):
        def pixels(self) -> np.ndarray:
            raise DataError("read")

    task, boxes = fitted(), Objects(((1.0, 2.0, 30.0, 40.0), (5.0, 5.0, 9.0, 9.0)), ("star", "circle"))
    pictures = [Example(Unread(64, 128), boxes), Example(Unread(64, 128)), Example(Unread(60, 128), boxes)]
    encoded = task.encode(pictures)
    seen = task.encode([Example(Grey(one.source.height, one.source.width), one.reference) for one in pictures])
    assert encoded.source_lengths.tolist() == [len(item.source) for item in seen]
    assert encoded.target_lengths.tolist() == [len(item.target) for item in seen] == [11, 0, 11]
    with pytest.raises(DataError, match="read"):
        encoded[0]
    others = [Example(Grey(side, 128), found) for side in (60, 64) for found in (boxes, Objects())]
    assert len({task.encode([one]).digest for one in others}) == 4


def hypothesis_of(task, *names: str, certainties: tuple[float, ...] = ()) -> Hypothesis:
    kinds = (*task.target.labels, NOISE)
    symbols = (FIRST_LABEL + kinds.index(name) if name in kinds else len(SPECIALS) + int(name) for name in names)
    return Hypothesis(tuple(symbols), 0.0, details={"certainties": certainties})


@pytest.mark.parametrize(
    ("box", "bins"),
    [
        ((10.0, 20.0, 41.0, 27.0), (10, 5, 13, 20)),
        ((0.0, 0.0, 128.0, 64.0), (0, 0, 32, 63)),
        ((4.1, 6.1, 4.2, 6.2), (3, 2, 4, 3)),
        ((127.5, 10.0, 128.0, 12.0), (5, 62, 6, 63)),
    ],
)
def test_a_box_is_written_from_above_then_from_the_left(box, bins):
    task = fitted()
    assert task.target.group(box, "star") == [*(len(SPECIALS) + place for place in bins), FIRST_LABEL + 1]
    assert task.target.symbols(Objects((box,), ("circle",))) == [*map(str, bins), "circle"]
    assert task.target.group(box, "dog")[4] == UNKNOWN and task.target.group(box, NOISE)[4] == FIRST_LABEL + 2


def test_bins_are_read_back_as_their_middles():
    found = fitted().target.parse(["10", "5", "13", "20", "star"], Example(None))
    assert found == Objects(((11.0, 21.0, 41.0, 27.0),), ("star",))


@pytest.mark.parametrize(
    ("height", "width", "factor"), [(128, 256, 2.0), (100, 400, 3.125), (32, 64, 0.5), (256, 64, 4.0)]
)
def test_boxes_are_read_in_the_pixels_of_the_picture_as_it_came(height, width, factor):
    task, picture = fitted(), Grey(height, width)
    output = hypothesis_of(task, "10", "5", "13", "20", "star", "0", "0", "9", "9", NOISE, certainties=(0.75,))
    found = task.read_hypothesis(output, Example(picture))
    assert found.boxes == (pytest.approx((11.0 * factor, 21.0 * factor, 41.0 * factor, 27.0 * factor)),)
    assert found.labels == ("star",) and found.scores == (0.75,)
    truth = Objects(((0.1 * width, 0.2 * height, 0.6 * width, 0.9 * height),), ("circle",))
    target = task.encode([Example(picture, truth)])[0].target
    again = task.read_hypothesis(Hypothesis(tuple(target[:-1].tolist()), 0.0), Example(picture))
    assert np.abs(np.array(again.boxes) - np.array(truth.boxes)).max() <= factor + 1e-6  # half a bin
    assert again.labels == ("circle",) and again.scores == (1.0,)


def test_without_noise_the_largest_object_is_written_first():
    task, boxes = fitted(), ((0.0, 0.0, 8.0, 8.0), (20.0, 10.0, 80.0, 30.0), (0.0, 0.0, 50.0, 60.0))
    item = task.encode([Example(Grey(64, 128), Objects(boxes, ("star", "circle", "star")))])[0]
    assert item.target.tolist() == [
        *task.target.group(boxes[2], "star"),
        *task.target.group(boxes[1], "circle"),
        *task.target.group(boxes[0], "star"),
        END,
    ]
    assert item.source.shape == (64, 128, 3) and item.given is None
    assert task.encode([Example(Grey(64, 128))])[0].target.tolist() == []


def test_in_training_boxes_move_with_the_picture_into_its_size():
    task, truth = fitted(), Objects(((20.0, 40.0, 82.0, 54.0),), ("star",))
    item = task.encode_epoch([Example(Grey(128, 256), truth)], 0)[0]
    assert item.target[:5].tolist() == task.target.group((10.0, 20.0, 41.0, 27.0), "star") and item.target[-1] == END


def test_doubles_are_left_out_where_the_key_says_so():
    names = ("0", "0", "9", "9", "star", "0", "0", "9", "8", "star", "0", "0", "9", "9", "circle")
    example, scores = Example(Grey(64, 128)), (0.4, 0.9, 0.6)
    every = fitted().read_hypothesis(hypothesis_of(fitted(), *names, certainties=scores), example)
    assert every.scores == scores
    task = fitted(detection__max_overlap=0.5)
    assert task.read_hypothesis(hypothesis_of(task, *names, certainties=scores), example).scores == (0.9, 0.6)


def test_what_the_strategy_and_the_model_receive_is_measured_in_bins_and_patches():
    task = fitted()
    options, shape = task.shape().target, task.shape()
    assert (options.bins, options.labels, options.instances) == (64, 2, 6)
    assert options.extent == (32.0, 64.0) and options.patch == 8.0
    assert options.symbols == FIRST_LABEL + 3 and (options.rows, shape.source.stride) == (4, 16)
    odd = {"detection__height": 72, "detection__width": 100}
    assert make_task(**odd).options.patches() == (5, 7)  # convolutions round up


def noise_boxes(task, objects: Objects, count: int = 600) -> np.ndarray:
    return np.array([task._noise_box(objects, Random(seed)) for seed in range(count)])


def test_noise_boxes_of_an_empty_picture_have_random_sides_and_places_inside_it():
    boxes = noise_boxes(fitted(), Objects())
    assert (boxes >= 0.0).all() and (boxes[:, [0, 2]] <= 128.0).all() and (boxes[:, [1, 3]] <= 64.0).all()
    whole = boxes[(boxes[:, :2] > 0.0).all(1) & (boxes[:, 2] < 128.0) & (boxes[:, 3] < 64.0)]  # not cut at an edge
    sides = whole[:, 2:] - whole[:, :2]
    assert (sides >= (0.02 * 128, 0.02 * 64)).all() and (sides <= (0.4 * 128, 0.4 * 64)).all()
    assert (sides.max(0) > (0.35 * 128, 0.35 * 64)).all() and (sides.min(0) < (0.06 * 128, 0.06 * 64)).all()
    middles = (boxes[:, 2:] + boxes[:, :2]) / 2
    assert (middles.max(0) > (110.0, 55.0)).all() and (middles.min(0) < (18.0, 9.0)).all()


def test_noise_boxes_beside_an_object_are_random_or_shifted_a_little_or_far():
    box = (50.0, 30.0, 90.0, 36.0)
    boxes = noise_boxes(fitted(), Objects((box,), ("star",)))
    whole = boxes[(boxes[:, :2] > 0.0).all(1) & (boxes[:, 2] < 128.0) & (boxes[:, 3] < 64.0)]
    of_its_size = whole[np.isclose(whole[:, 2:] - whole[:, :2], (40.0, 6.0)).all(1)]
    moved = np.abs((of_its_size[:, 2:] + of_its_size[:, :2]) / 2 - (70.0, 33.0))
    near = (moved <= (4.0 + 1e-9, 0.6 + 1e-9)).all(1)  # a tenth of its sides
    assert 0.25 < near.sum() / len(boxes) < 0.42 and (moved[near].max(0) > (3.5, 0.5)).all()
    assert (~near).sum() > 60 and (moved[~near].max(0) > (35.0, 20.0)).all()
    assert 120 < len(whole) - len(of_its_size) < 200


def test_boxes_of_rows_are_corners_cut_at_the_picture(tmp_path):
    from PIL import Image

    Image.fromarray(Grey(50, 100).pixels()).save(tmp_path / "a.png")

    def read(box) -> Example:
        task_tools.write_rows(tmp_path, [{"file_name": "a.png", "objects": {"bbox": [box], "label": ["star"]}}])
        return make_task(data__path=str(tmp_path)).read("train")[0]

    assert read([10, 20, 30, 5]).reference == Objects(((10.0, 20.0, 40.0, 25.0),), ("star",))
    assert read([60, 20, 40.9, 30.9]).reference.boxes == ((60.0, 20.0, 100.0, 50.0),)
    for outside in ([60, 20, 41.1, 5], [60, 20, 5, 31.1], [-1, 0, 5, 5], [0, -1, 5, 5], [0, 0, 5, 0], [20, 60, 5, 20]):
        with pytest.raises(DataError, match="is empty or outside the picture of 100 x 50"):
            read(outside)


def test_objects_are_written_with_their_scores_and_drawn_where_they_are_likely():
    task = fitted()
    found = Objects(((1.04, 2.0, 30.0, 4.06), (5.0, 6.0, 7.0, 8.0)), ("star", "circle"), (0.5, 0.4994))
    assert json.loads(task.to_text(found)) == {
        "boxes": [[1.0, 2.0, 30.0, 4.1], [5.0, 6.0, 7.0, 8.0]],
        "labels": ["star", "circle"],
        "scores": [0.5, 0.499],
    }
    assert task.presentation.for_terminal(found) == "star 50% at 1,2 to 30,4"
    assert '["Löwe", "猫"]' in task.to_text(replace(found, labels=("Löwe", "猫")))
    assert task.presentation.for_terminal(None) == "(nothing)"
    assert json.loads(task.to_text(None)) == {"boxes": [], "labels": []}


def test_predictions_survive_writing_and_reading(tmp_path):
    task = fitted()
    found = [Objects(((1.0, 2.0, 3.0, 4.0),), ("star",), (0.25,)), Objects()]
    (tmp_path / "found.jsonl").write_text("".join(task.to_text(one) + "\n" for one in found))
    assert task.read_references(tmp_path / "found.jsonl") == found
    (tmp_path / "found.jsonl").write_text('{"boxes": [[1, 2, 3, 4]], "labels": ["a"]}\n{"boxes": 3}\n')
    with pytest.raises(DataError, match=r"found\.jsonl:2"):
        task.read_references(tmp_path / "found.jsonl")
    task.save(tmp_path / "vocabulary")
    other = make_task()
    other.load(tmp_path / "vocabulary")
    assert other.target.labels == task.target.labels == ("circle", "star")


def test_a_class_that_training_has_not_is_missed_and_counts():
    pytest.importorskip("pycocotools", reason="comes with the extra `vision`")
    truth = [Objects(((0.0, 0.0, 9.0, 5.0), (20.0, 20.0, 30.0, 50.0)), ("star", "dog"))]
    figures = fitted().score([Objects(truth[0].boxes[:1], ("star",), (0.9,))], truth).figures
    assert figures["ap50"] == pytest.approx(50.0)
