"""Detection: rows as users have them, symbols and back, noise, and eight pictures by heart."""

import itertools
import json
import shutil
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import task_tools
import torch
from hypothesis import given
from hypothesis import strategies as st
from making import strategy_of

pytest.importorskip("PIL", reason="comes with the extra `vision`")
pytest.importorskip("pycocotools", reason="comes with the extra `vision`")

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import BEGIN, END, SPECIALS
from seq2seq_suite.data.batching import collate
from seq2seq_suite.data.pictures import Objects
from seq2seq_suite.miniworld import rows as embedded
from seq2seq_suite.model.picture import plane
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.boxes import GROUP, Boxes, box_position
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.strategies.slots import Slots
from seq2seq_suite.tasks.detection.task import NOISE

SMALL = {
    "detection__height": 96,
    "detection__width": 96,
    "detection__stride": 16,
    "detection__bins": 48,
    "detection__channels": 8,
    "detection__instances": 6,
}
make_task = partial(task_tools.make_task, "detection", **SMALL)


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """Eight pictures as image files beside their rows."""
    from PIL import Image

    place, rows = tmp_path_factory.mktemp("split"), []
    for number, row in enumerate(embedded("pictures", "train", size=8)):
        Image.fromarray(row["image"].pixels()).save(place / f"{number}.png")
        rows.append({"file_name": f"{number}.png", "objects": row["objects"]})
    (place / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


@pytest.fixture
def folder(split, tmp_path):
    """A folder of its own, with these as all splits."""
    for name in ("train", "validation", "test"):
        shutil.copytree(split, tmp_path / "data" / name)
    return tmp_path / "data"


def fitted(**keys):
    task = make_task(**keys)
    examples = make_task(data__size=8).read("train")
    task.fit([*examples, Example(None, Objects(((0.0, 0.0, 1.0, 1.0),), ("zebra",)))])
    return task, examples


fitted_once = cache(fitted)  # for many examples of a law that leaves the task as it is


def test_a_folder_of_pictures_is_read(folder):
    examples = make_task(data__path=str(folder)).read("train")
    drawn = make_task(data__size=8).read("train")
    assert [example.reference for example in examples] == [example.reference for example in drawn]
    assert examples[2].origin.endswith("metadata.jsonl:3") and examples[2].source.pixels().shape == (96, 96, 3)


@pytest.mark.parametrize(
    ("row", "got"),
    [
        ({"file_name": "0.png"}, "the columns are file_name"),
        ({"file_name": "none.png", "objects": {"bbox": [], "categories": []}}, "none.png: there is no such file"),
        ({"file_name": "metadata.jsonl", "objects": {"bbox": [], "categories": []}}, "the image cannot be read"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 5, 5]], "categories": []}}, "1 boxes with 0 categories"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 0, 5]], "categories": ["a"]}}, "is empty or outside"),
        ({"file_name": "0.png", "objects": {"bbox": [[90, 0, 20, 5]], "categories": ["a"]}}, "is empty or outside"),
        ({"file_name": "0.png", "objects": {"bbox": [[1, 2]], "categories": ["a"]}}, "the box [1, 2]"),
        (
            {"file_name": "0.png", "objects": {"bbox": [[0, 0, float("nan"), 5]], "categories": ["a"]}},
            "the box [0, 0, nan",
        ),
        (
            {"file_name": "0.png", "objects": {"bbox": [[0, 0, float("inf"), 5]], "categories": ["a"]}},
            "the box [0, 0, inf",
        ),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 10**400, 5]], "categories": ["a"]}}, "the box [0, 0, 1000"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, True, 5]], "categories": ["a"]}}, "the box [0, 0, True"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, None, 5]], "categories": ["a"]}}, "the box [0, 0, None"),
        ({"file_name": "0.png", "objects": {"bbox": ["1234"], "categories": ["a"]}}, "the box '1234'"),
        ({"file_name": "0.png", "objects": {"bbox": [7], "categories": ["a"]}}, "the box 7"),
        ({"file_name": "0.png", "objects": {"bbox": None, "categories": ["a"]}}, "the boxes are None"),
        ({"file_name": "0.png", "objects": {"bbox": 7, "categories": ["a"]}}, "the boxes are 7"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 5, 5]] * 3, "categories": "dog"}}, "the categories 'dog'"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 5, 5]], "categories": None}}, "the categories None"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 5, 5]], "categories": [None]}}, "the label None"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 5, 5]], "categories": [" "]}}, "the label ' '"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 5, 5]], "categories": [True]}}, "the label True"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 5, 5]], "categories": ["noise"]}}, "the label 'noise'"),
        ({"image": {"bytes": "abc"}, "objects": {"bbox": [], "categories": []}}, "image is {'bytes': 'abc'}"),
        ({"image": 7, "objects": {"bbox": [], "categories": []}}, "image is 7"),
        ({"file_name": "a\0b", "objects": {"bbox": [], "categories": []}}, "cannot be read"),
        ({"file_name": "0.png", "objects": {"bbox": [[0, 0, 5, 5]] * 7, "categories": ["a"] * 7}}, "with 7 objects"),
    ],
)
def test_bad_rows_are_named_with_their_number(folder, row, got):
    with open(folder / "train" / "metadata.jsonl", "a") as file:
        file.write(json.dumps(row) + "\n")
    with pytest.raises(DataError) as caught:
        make_task(data__path=str(folder)).read("train")
    assert "metadata.jsonl:9" in str(caught.value) and got in str(caught.value) and caught.value.remedy
    one_box = isinstance(row.get("objects"), dict) and any(word in got for word in ("the box ", "outside", "the label"))
    assert len(make_task(data__path=str(folder), data__max_bad_rows=1).read("train")) == 8 + one_box


def coco(folder, annotations, **more):
    """A data set of two grey pictures of 64 x 48 pixels."""
    from PIL import Image

    images = [{"id": number, "file_name": f"{number}.png", **more} for number in (1, 2)]
    for one in images:
        Image.fromarray(np.tile(np.arange(64, dtype=np.uint8) * 4, (48, 1))).save(folder / one["file_name"])
    (folder / "instances_train.json").write_text(
        json.dumps(
            {
                "images": images,
                "categories": [{"id": 1, "name": "dog"}],
                "annotations": [
                    {"image_id": 1, "category_id": 1, "bbox": [5, 5, 30, 30], **one} for one in annotations
                ],
            }
        )
    )
    return make_task(data__path=str(folder), data__max_bad_rows=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bbox": [2, 3, 0, 20]},
        {"bbox": [2, 3, -4, 20]},
        {"bbox": [2, 3, float("nan"), 20]},
        {"bbox": [60, 3, 20, 20]},
        {"bbox": [2, 3, 4]},
        {"bbox": None},
        {"category_id": 7},
        {"category_id": None},
        {"image_id": 9},
        {"id": 1},
    ],
)
def test_a_bad_box_costs_itself_and_counts_as_a_bad_row(tmp_path, capsys, wrong):
    task = coco(tmp_path, [{"id": 1}, {"id": 2, **wrong}, {"image_id": 2, "id": 3}])
    assert [example.reference.labels for example in task.read("train")] == [("dog",), ("dog",)]
    assert "instances_train.json" in capsys.readouterr().out
    with pytest.raises(DataError, match=r"1 broken row, but data\.max_bad_rows allows 0"):
        make_task(data__path=str(tmp_path)).read("train")


def test_boxes_that_are_left_out_are_counted_with_their_pictures(tmp_path, capsys):
    coco(tmp_path, [{}, {"bbox": [2, 3, 0, 20]}, {"image_id": 2}]).read("train")
    assert "train: boxes left out in 1 of 2 pictures" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ((640.0, 480.0), "of 640 x 480 pixels"),
        ((64, 49), "of 64 x 49 pixels"),
        ((48, 64), "turned by its orientation tag"),
    ],
)
def test_boxes_of_a_picture_of_another_size_are_refused(tmp_path, size, said):
    with pytest.raises(DataError, match="64 x 48") as caught:
        coco(tmp_path, [{}], width=size[0], height=size[1]).read("train")
    assert said in str(caught.value)
    assert len(coco(tmp_path, [{}], width=64, height=48).read("train")) == 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda grey: grey.astype(np.uint16) * 257, "16 bits or floats, scaled to 8 bits"),
        (lambda grey: np.stack([grey, grey], -1), "transparency, on white here"),
        (lambda grey: grey // 20, "almost one colour"),
    ],
)
def test_what_stands_out_in_pictures_is_said_when_they_are_read(tmp_path, capsys, make, said):
    from PIL import Image

    task = coco(tmp_path, [{}])
    Image.fromarray(make(np.tile(np.arange(64, dtype=np.uint8) * 4, (48, 1)))).save(tmp_path / "1.png")
    task.read("train")
    assert f"train: {said}" in (found := capsys.readouterr().out) and "in 1 of 2 pictures" in found


def test_crowds_and_areas_of_coco_are_kept_beside_what_is_learned(tmp_path):
    first, second = coco(tmp_path, [{"iscrowd": 1, "area": 9.5}, {"image_id": 2, "area": 7.5}]).read("train")
    assert first.reference.boxes == () and first.reference.crowds == Objects(((5.0, 5.0, 35.0, 35.0),), ("dog",))
    assert second.reference.areas == (7.5,) and second.reference.crowds is None
    task = make_task()
    for one in (first.reference, second.reference):
        found = task.target.from_line(task.to_text(one), {"file": "a"})
        assert (found.boxes, found.areas, found.crowds is None) == (one.boxes, one.areas, one.crowds is None)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 90), st.floats(0, 90), st.floats(1, 60), st.floats(1, 60), st.sampled_from(["circle", "zebra"])
        ),
        max_size=6,
    )
)
def test_what_is_written_is_read_back_within_a_bin(things):
    task, _ = fitted_once()
    objects = Objects(
        tuple((x, y, min(x + w, 96.0), min(y + h, 96.0)) for x, y, w, h, _ in things),
        tuple(label for *_, label in things),
    )
    found = task.target.parse(task.target.symbols(objects), Example(None))
    assert found.labels == objects.labels
    for box, other in zip(found.boxes, objects.boxes, strict=True):
        assert np.abs(np.array(box) - np.array(other)).max() <= 2 * 96 / 48  # a bin, and the least side of one more


def test_malformed_symbols_are_none_and_noise_is_left_out():
    task, _ = fitted()
    assert task.target.parse(["1", "2", "3"], Example(None)) is None
    assert task.target.parse(["1", "2", "3", "circle", "circle"], Example(None)) is None
    assert task.target.parse(["1", "2", "3", "4", "47"], Example(None)) is None
    assert task.target.parse(["1", "2", "3", "4", NOISE], Example(None)) == Objects()


def test_an_epoch_shuffles_and_fills_up_with_noise_that_has_no_place_to_learn():
    task, examples = fitted(detection__flip=False)
    first, again, other = (task.encode_epoch(examples, epoch) for epoch in (0, 0, 1))
    for item, same, example in zip(first, again, examples, strict=True):
        assert np.array_equal(item.target, same.target) and len(item.target) == GROUP * 6 + 1
        count = len(example.reference.boxes)
        assert item.given[: GROUP * count].sum() == 0 and item.given[-1]
        noise = item.given[GROUP * count : -1].reshape(-1, GROUP)
        assert noise[:, :4].all() and not noise[:, 4].any()
        names = [task.target.name(symbol) for symbol in item.target[:-1]]
        assert sorted(names[4 : GROUP * count : GROUP]) == sorted(example.reference.labels)
        assert set(names[GROUP * count + 4 :: GROUP]) <= {NOISE}
    assert any(not np.array_equal(one.target, two.target) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("instances", [6, 1])
def test_an_epoch_knows_its_lengths_before_it_draws(instances):
    task, examples = fitted(detection__scales=[0.3, 3.0], detection__instances=instances)
    epoch = task.encode_epoch(examples, 3)
    assert [len(item.target) for item in epoch] == epoch.target_lengths.tolist()
    assert [len(item.source) for item in epoch] == epoch.source_lengths.tolist()


def test_objects_can_be_learned_from_above():
    task, examples = fitted(detection__order="place")
    for item, example in zip(task.encode_epoch(examples, 0), examples, strict=True):
        found = item.target[: GROUP * len(example.reference.boxes)].reshape(-1, GROUP)
        assert (np.diff(found[:, 0]) >= 0).all()


def test_patches_learn_whose_centre_they_hold():
    task, examples = fitted(detection__patch_loss=2.0)
    boxes = (0.0, 0.0, 90.0, 90.0), (40.0, 40.0, 50.0, 50.0), (70.0, 0.0, 96.0, 30.0)
    labels = task._patch_labels(Objects(boxes, ("circle", "star", "zebra")))["patches"].reshape(6, 6)
    kinds = (*task.target.labels, NOISE)
    names = {(row, column): kinds[labels[row, column]] for row in range(6) for column in range(6)}
    assert names.pop((2, 2)) == "star" and names.pop((0, 5)) == "zebra" and set(names.values()) == {NOISE}
    batch = collate(task.encode_epoch(examples[:2], 0), "detection")
    assert batch.auxiliary["patches"].shape == (2, 36)
    assert task.shape().target.source_labels == (("patches", len(task.target.labels) + 1, 2.0),)


def left_to_right(task, **_):
    return task.shape(), strategy_of(Boxes, target=task.shape().target), 6


def at_once(task, width=16):
    strategy = strategy_of(Slots, target=task.shape().target, grid=(2, 4), anchor_weight=2.0, noise=0.0, width=width)
    return task.shape(), strategy, 8


@pytest.mark.parametrize("way", [left_to_right, at_once])
def test_random_models_write_boxes_with_an_inside(make_model, way):
    task, examples = fitted()
    shape, strategy, written = way(task)
    model = make_model(shape, noise=1.0)
    found = strategy.generate(
        model, collate(task.encode(examples), "detection"), options=SearchOptions(), limit=torch.full((8,), 99)
    )
    for best, example in zip(found, examples, strict=True):
        objects = task.read_hypothesis(best[0], example)
        assert len(objects.boxes) == written and all(0.0 <= score <= 1.0 for score in objects.scores)
        assert all(x1 < x2 and y1 < y2 for x1, y1, x2, y2 in objects.boxes)


def test_the_loss_is_that_of_the_places_asked_for(make_model):
    task, examples = fitted(detection__smoothing=0.0)
    model, strategy = make_model(task.shape()).requires_grad_(False), strategy_of(Boxes, target=task.shape().target)
    batch = collate(task.encode_epoch(examples[:2], 0), "detection")
    loss = strategy.loss(model, batch)
    objects = sum(len(example.reference.boxes) for example in examples[:2])
    assert loss.counts == strategy.counts(batch) == {"coordinates": 4 * objects, "classes": 12}
    memory = model.prepare(model.encode(batch))
    hidden = strategy._hidden(
        model, batch, memory, torch.cat((torch.ones(2, 1, dtype=torch.long), batch.target[:, :-1]), 1)
    )
    logits, expected = model.logits(hidden, memory).float(), {"coordinates": 0.0, "classes": 0.0}
    first_label = len(SPECIALS) + 48
    for row in range(2):
        for place, symbol in enumerate(batch.target[row].tolist()):
            if symbol == END or batch.given[row, place]:
                continue
            kind = "classes" if place % GROUP == 4 else "coordinates"
            low, high = (first_label, None) if kind == "classes" else (len(SPECIALS), first_label)
            expected[kind] -= float(logits[row, place, low:high].log_softmax(-1)[symbol - low])
    for kind, value in expected.items():
        assert float(loss.sums[kind]) == pytest.approx(value, rel=1e-4)


def test_the_positions_of_a_box_are_known_as_far_as_it_is_decoded(make_model):
    task, _ = fitted()
    patches = plane(6, 6, 16).view(6, 6, 16)
    group = torch.tensor([[8, 16, 24, 40, 0]]) + len(SPECIALS)  # 8 bins a patch: rows 1 to 3, columns 2 to 5
    seen = box_position(group, task.shape().target, 16)[0]
    assert (seen[0] == 0.0).all() and (seen[1, 8:] == 0.0).all()
    # The middle of patch 1, 2.
    corner = box_position(group + torch.tensor([3.5, 3.5, 0.0, 0.0, 0.0]), task.shape().target, 16)[0]
    torch.testing.assert_close(corner[2], patches[1, 2])
    torch.testing.assert_close(corner[1, :8], patches[1, 2, :8])
    centred = box_position(torch.tensor([[11, 19, 28, 36, 0]]) + len(SPECIALS), task.shape().target, 16)[0]
    torch.testing.assert_close(centred[4], patches[2, 3])
    torch.testing.assert_close(centred[3], torch.cat((patches[2, 0, :8], centred[2, 8:])))
    for place in range(GROUP):
        later = group.clone()
        later[0, place:] += 1
        assert (box_position(later, task.shape().target, 16)[0, : place + 1] == seen[: place + 1]).all()


def test_what_is_written_step_by_step_is_what_the_loss_scores(make_model):
    task, examples = fitted(detection__order="place")
    model = make_model(task.shape(), noise=0.5).requires_grad_(False)
    strategy = strategy_of(Boxes, target=task.shape().target)
    batch = collate(task.encode(examples[:3]), "detection")
    found = strategy.generate(model, batch, options=SearchOptions(), limit=torch.full((3,), 99))
    memory, first_label = model.prepare(model.encode(batch)), len(SPECIALS) + 48
    written = torch.tensor([best[0].symbols for best in found])
    batch = replace(batch, target_mask=torch.ones(3, written.size(1) + 2, dtype=torch.bool))
    for number, place in enumerate(range(GROUP - 1, written.size(1), GROUP)):
        previous = torch.cat((torch.full((3, 1), BEGIN), written, torch.zeros(3, 1, dtype=torch.long)), 1)
        classes = model.logits(strategy._hidden(model, batch, memory, previous), memory)[:, place, first_label:]
        sure, likeliest = classes.softmax(-1), classes.argmax(-1)
        for row, best in enumerate(found):
            assert best[0].details["certainties"][number] == pytest.approx(float(sure[row, :-1].max()), rel=1e-3)
            if likeliest[row] == len(task.target.labels):  # later symbols see that this was noise
                written[row, place] = first_label + len(task.target.labels)


@pytest.mark.parametrize("way", [left_to_right, at_once])
def test_the_balance_of_experts_is_learned_once_for_each_layer(make_model, way):
    task, examples = fitted()
    shape, strategy, _ = way(task)
    model, batch = make_model(shape, experts=4), collate(task.encode_epoch(examples[:2], 0), "detection")
    with torch.no_grad():
        for layer in (*model.encoder.layers, *model.decoder.layers):
            layer.feed_forward.router.weight.zero_()  # p = 1 / N everywhere: the loss of a layer is 1
    learner = Learner(model, strategy)
    loss = learner(batch)
    assert loss.counts == learner.counts(batch) and "balance" in loss.weights
    assert float(loss.sums["balance"].detach()) == pytest.approx(4 * int(batch.target_mask.sum()))


def test_slots_learn_the_cheapest_of_all_matchings(make_model):
    task, examples = fitted(detection__smoothing=0.0, detection__noise_weight=0.5)
    shape, strategy, _ = at_once(task)
    model = make_model(shape).requires_grad_(False)
    few = [example for example in examples if 0 < len(example.reference.boxes) <= 3][:3]
    batch = collate(task.encode_epoch(few, 0), "detection")
    loss, logits = strategy.loss(model, batch), strategy._logits(model, model.encode(batch)).detach()
    assert loss.counts == strategy.counts(batch)
    expected = 0.0
    for row, example in enumerate(few):
        count = len(example.reference.boxes)
        groups = batch.target[row, : GROUP * count].view(count, GROUP).tolist()
        bins = logits[row, :, :4, len(SPECIALS) : len(SPECIALS) + 48].log_softmax(-1)
        classes = logits[row, :, 4, len(SPECIALS) + 48 :].log_softmax(-1)
        found = []
        for slots in itertools.permutations(range(8), count):
            nll = far = 0.0
            for slot, group in zip(slots, groups, strict=True):
                places = [symbol - len(SPECIALS) for symbol in group[:4]]
                nll -= sum(float(bins[slot, axis, place]) for axis, place in enumerate(places))
                nll -= float(classes[slot, group[4] - len(SPECIALS) - 48])
                down, across = ((places[axis] + places[axis + 2] + 1) / 2 for axis in (0, 1))
                far += 2.0 * ((down / 24 - slot // 4 - 0.5) ** 2 + (across / 12 - slot % 4 - 0.5) ** 2)
            noise = -0.5 * sum(float(classes[slot, -1]) for slot in set(range(8)) - set(slots))
            found.append((nll + far, nll + noise))
        expected += min(found)[1]
    assert float(sum(loss.sums.values()).detach()) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("way", "pictures", "updates"),
    [
        (left_to_right, 2, 120),
        (at_once, 2, 60),
        pytest.param(left_to_right, 8, 310, marks=pytest.mark.slow),
        pytest.param(at_once, 8, 190, marks=pytest.mark.slow),
    ],
)
def test_pictures_are_learned_by_heart(make_model, overfit, way, pictures, updates):
    task, examples = fitted(detection__flip=False)
    examples = examples[:pictures]
    shape, strategy, _ = way(task, width=64)
    model = make_model(shape, noise=0.0, width=64, feed_forward_width=128, encoder_layers=1, decoder_layers=2)
    overfit(model, strategy, collate(task.encode_epoch(examples, 0), "detection"), updates=updates)
    found = strategy.generate(
        model, collate(task.encode(examples), "detection"), options=SearchOptions(), limit=torch.full((pictures,), 99)
    )
    objects = [task.read_hypothesis(best[0], example) for best, example in zip(found, examples, strict=True)]
    assert task.score(objects, [example.reference for example in examples]).figures["ap50"] > 95.0


def test_what_is_likely_is_painted_where_it_is(tmp_path):
    from PIL import Image

    task, examples = fitted()
    label = task.target.labels[0]
    found = Objects(((10.0, 30.0, 50.0, 70.0), (5.0, 5.0, 20.0, 20.0)), (label, label), (0.9, 0.1))
    task.presentation.draw(examples[0], found, tmp_path / "painted.png")
    painted, factor = np.asarray(Image.open(tmp_path / "painted.png").convert("RGB")), 7
    assert painted.shape == (96 * factor, 96 * factor, 3)
    colour = painted[50 * factor, 10 * factor]
    assert (painted[70 * factor, 30 * factor] == colour).all()
    assert (painted[20 * factor, 5 * factor : 21 * factor] != colour).any(-1).any()
    with pytest.raises(DataError, match="no known format"):
        task.presentation.draw(examples[0], found, tmp_path / "painted.pig")


def test_predict_draws_into_a_picture(folder, tmp_path, capsys):
    (tmp_path / "d.yaml").write_text(f"""task: detection
data: {{path: {folder}}}
detection: {{height: 96, width: 96, stride: 16, bins: 48, instances: 6}}
backbone: {{width: 16, feed_forward_width: 16, num_heads: 2, encoder_layers: 1, decoder_layers: 1}}
training: {{max_updates: 1, validate_every: 1, threads: 1}}
device: cpu
""")
    assert cli.main(["run", str(tmp_path / "d.yaml"), "--output", str(tmp_path / "run")]) == 0
    picture, run, drawn = str(folder / "test" / "0.png"), str(tmp_path / "run"), tmp_path / "drawn.png"
    capsys.readouterr()
    assert cli.main(["predict", run, picture, "--draw", str(drawn)]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"boxes", "labels"} and drawn.stat().st_size > 1000
    assert cli.main(["predict", run, picture, picture, "--draw", str(drawn)]) == 2
    assert "--draw with 2 inputs" in capsys.readouterr().err
    assert cli.main(["predict", run, "none.png"]) == 2
    assert "none.png: there is no such file" in capsys.readouterr().err
