"""Objects as symbols, one after another and in slots, against loops over groups, matchings and steps."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from making import strategy_of
from plain import alone

from seq2seq_suite.common.shapes import BoxShape, Shape, TokenShape
from seq2seq_suite.common.types import BEGIN, END, SPECIALS, Batch
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.boxes import Boxes, box_position
from seq2seq_suite.strategies.slots import Slots

BINS, CLASSES, NOISE = 12, 3, 3  # the fourth class is that of noise
FIRST_BIN, FIRST_CLASS = len(SPECIALS), len(SPECIALS) + BINS
OPTIONS = BoxShape(
    FIRST_CLASS + CLASSES + 1,
    bins=BINS,
    labels=CLASSES,
    instances=3,
    extent=(10.0, 12.0),
    patch=2.0,
    rows=4,
    smoothing=0.8,
    noise_weight=0.3,
)
SHAPE = Shape(TokenShape(11), OPTIONS)
# y1 x1 y2 x2 class of each object of three pictures; the last one holds none.
OBJECTS = (((1, 2, 5, 11, 0), (0, 0, 3, 4, 2)), ((6, 9, 7, 10, 1), (2, 6, 4, 7, 1), (0, 8, 1, 11, 0)), ())
NOISES = (((3, 4, 6, 7, NOISE),), (), ((0, 1, 2, 3, NOISE), (5, 5, 7, 9, NOISE), (1, 1, 2, 2, NOISE)))


@pytest.fixture
def pictures(make_batch) -> Batch:
    """Sources of 4 x 6 patches; targets of three groups and END, of noise only the class to be learned."""
    batch = make_batch([24] * 3, [16] * 3)
    rows, given = [], torch.zeros(3, 16, dtype=torch.bool)
    for row, (objects, noises) in enumerate(zip(OBJECTS, NOISES, strict=True)):
        groups = [[*(FIRST_BIN + place for place in group[:4]), FIRST_CLASS + group[4]] for group in objects + noises]
        rows.append([*itertools.chain(*groups), END])
        for number in range(len(objects), 3):
            given[row, 5 * number : 5 * number + 4] = True
    given[:, -1] = True
    return replace(batch, target=torch.tensor(rows), given=given)


def bell(scores: torch.Tensor, place: int) -> float:
    """Cross-entropy of a bin with the Gaussian around it that is shared out among all bins."""
    heights = [math.exp(-0.5 * ((number - place) / 0.8) ** 2) for number in range(BINS)]
    return -sum(height / sum(heights) * float(score) for height, score in zip(heights, scores, strict=True))


def hidden_of(model, one: Batch, symbols: list[int]) -> torch.Tensor:
    """(T,D) behind BEGIN and whole groups of symbols, all at once."""
    memory = model.prepare(model.encode(one))
    x = model.embed(torch.tensor([[BEGIN, *symbols]]), memory)
    padded = torch.tensor([*symbols, *[FIRST_BIN] * (-len(symbols) % 5 or 5)]).view(-1, 5)
    seen = box_position(padded, OPTIONS, x.size(2)).flatten(0, 1)[: x.size(1)]
    return model.decode(x + seen, causal(x.size(1)), memory)[0][0]


@torch.no_grad()
def test_the_loss_of_groups_is_that_of_bells_and_classes(make_model, pictures):
    model, strategy = make_model(SHAPE), strategy_of(Boxes, target=OPTIONS)
    found, coordinates, classes = strategy.loss(model, pictures), 0.0, 0.0
    for row, (objects, noises) in enumerate(zip(OBJECTS, NOISES, strict=True)):
        logits = model.output(hidden_of(model, alone(pictures, row), pictures.target[row, :-2].tolist()))
        for number, group in enumerate(objects + noises):
            for axis in range(4 * (group[4] != NOISE)):
                coordinates += bell(logits[5 * number + axis, FIRST_BIN:FIRST_CLASS].log_softmax(0), group[axis])
            wrong = -float(logits[5 * number + 4, FIRST_CLASS:].log_softmax(0)[group[4]])
            classes += 0.3 * wrong if group[4] == NOISE else wrong
    assert float(found.sums["coordinates"]) == pytest.approx(coordinates, rel=1e-4)
    assert float(found.sums["classes"]) == pytest.approx(classes, rel=1e-4)
    assert found.counts == strategy.counts(pictures) == {"coordinates": 20, "classes": 9}
    assert found.weights == {"coordinates": 1.0, "classes": 1.0}


@torch.no_grad()
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_groups_are_written_as_a_plain_loop_writes_them(make_model, pictures, seed):
    model, strategy = make_model(SHAPE, seed=seed, noise=0.5), strategy_of(Boxes, target=OPTIONS)
    found = strategy.generate(model, pictures, options=SearchOptions(), limit=torch.full((3,), 99))
    for row, (best,) in enumerate(found):
        prefix, written, sure = [], [], []
        for step in range(15):
            logits = model.output(hidden_of(model, alone(pictures, row), prefix))[step]
            axis = step % 5
            if axis < 4:  # a box has an inside: a corner is not in the last bin, the other one beyond it
                least, most = (0, BINS - 1) if axis < 2 else (written[-2] - FIRST_BIN + 1, BINS)
                symbol = max(range(least, most), key=lambda place: float(logits[FIRST_BIN + place])) + FIRST_BIN
                prefix.append(symbol)
            else:
                chances = logits[FIRST_CLASS:].softmax(0).tolist()
                symbol = FIRST_CLASS + max(range(CLASSES), key=chances.__getitem__)
                prefix.append(FIRST_CLASS + max(range(CLASSES + 1), key=chances.__getitem__))
                sure.append(max(chances[:CLASSES]))
            written.append(symbol)
        assert best.symbols == tuple(written) and best.complete
        assert best.details["certainties"] == pytest.approx(sure, rel=1e-3)
        assert best.score == pytest.approx(sum(map(math.log, sure)), rel=1e-3)


def slot_logits(model, strategy, one: Batch) -> torch.Tensor:
    """(N,5,V) of one picture: each slot's mean patch with its place, seen by all slots, a linear map of each symbol."""
    states = model.encode(one)
    cells = states.values[0].view(4, 6, -1)
    slots = torch.stack(
        [
            cells[2 * row : 2 * row + 2, 2 * column : 2 * column + 2].mean((0, 1))
            for row, column in itertools.product(range(2), range(3))
        ]
    )
    hidden = model.decode((slots + strategy.head.places).unsqueeze(0), None, model.prepare(states))[0][0]
    return model.output(strategy.head.symbols(hidden).view(6, 5, -1))


@torch.no_grad()
@pytest.mark.parametrize("several", [1, 2])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_slots_learn_the_cheapest_of_all_matchings(make_model, pictures, seed, several):
    model = make_model(SHAPE, seed=seed)
    strategy = strategy_of(Slots, target=OPTIONS, grid=(2, 3), anchor_weight=0.7, slots_per_object=several, seed=seed)
    found, coordinates, classes = strategy.loss(model, pictures), 0.0, 0.0
    for row, objects in enumerate(OBJECTS):
        logits = slot_logits(model, strategy, alone(pictures, row))
        bins, labels = logits[:, :4, FIRST_BIN:FIRST_CLASS].log_softmax(2), logits[:, 4, FIRST_CLASS:].log_softmax(1)
        costs = {}
        for slot, (y1, x1, y2, x2, label) in itertools.product(range(6), objects):
            missed = sum(bell(bins[slot, axis], place) for axis, place in enumerate((y1, x1, y2, x2)))
            down, across = (y1 + y2 + 1) / 2 / 5.0, (x1 + x2 + 1) / 2 / 4.0  # a slot is five bins high and four wide
            far = (down - slot // 3 - 0.5) ** 2 + (across - slot % 3 - 0.5) ** 2
            costs[slot, (y1, x1, y2, x2, label)] = missed, -float(labels[slot, label]), 0.7 * far
        copies = [*objects] * several
        slots = min(
            itertools.permutations(range(6), len(copies)),
            key=lambda slots: sum(sum(costs[pair]) for pair in zip(slots, copies, strict=True)),
        )
        matched = [costs[pair] for pair in zip(slots, copies, strict=True)]
        coordinates += sum(missed for missed, _, _ in matched)
        classes += sum(wrong for _, wrong, _ in matched)
        classes -= 0.3 * sum(float(labels[slot, NOISE]) for slot in range(6) if slot not in slots)
    assert float(found.sums["coordinates"]) == pytest.approx(coordinates, rel=1e-4)
    assert float(found.sums["classes"]) == pytest.approx(classes, rel=1e-4)
    assert (
        found.counts
        == strategy.counts(pictures)
        == {"coordinates": 20 * several, "classes": 5 * several + round(0.3 * (18 - 5 * several))}
    )
    assert found.weights == {"coordinates": 1.0, "classes": 1.0}


def test_the_place_of_a_slot_decides_where_nothing_else_does(make_model, pictures, monkeypatch):
    model, taken, match = make_model(SHAPE, noise=0.0), [], Slots._match
    strategy = strategy_of(Slots, target=OPTIONS, grid=(2, 3), anchor_weight=50.0, noise=0.0)
    with torch.no_grad():
        strategy.head.symbols.weight.zero_()  # all slots say the same
    monkeypatch.setattr(Slots, "_match", lambda *given: taken.append(match(*given)) or taken[0])
    strategy.loss(model, pictures)
    found = {(row, number): slot for row, slot, number in zip(*(part.tolist() for part in taken[0]), strict=True)}
    assert found == {(0, 0): 1, (0, 1): 0, (1, 0): 5, (1, 1): 1, (1, 2): 2}


@torch.no_grad()
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_slots_write_the_likeliest_box_with_an_inside(make_model, pictures, seed):
    model = make_model(SHAPE, seed=seed, noise=0.5)
    strategy = strategy_of(Slots, target=OPTIONS, grid=(2, 3), anchor_weight=1.0)
    model.output.bias[FIRST_CLASS + NOISE] += 9.0  # which is never written, however likely
    found = strategy.generate(model, pictures, options=SearchOptions(), limit=torch.full((3,), 99))
    assert all(best.complete for (best,) in found)
    for row, (best,) in enumerate(found):
        symbols, sure = [], []
        for logits in slot_logits(model, strategy, alone(pictures, row)):
            box = []
            for axis in range(4):
                least, most = (0, BINS - 1) if axis < 2 else (box[axis - 2] + 1, BINS)
                box.append(max(range(least, most), key=lambda place: float(logits[axis, FIRST_BIN + place])))
            chances = logits[4, FIRST_CLASS:].softmax(0).tolist()
            label = max(range(CLASSES), key=chances.__getitem__)
            symbols += [*(FIRST_BIN + place for place in box), FIRST_CLASS + label]
            sure.append(chances[label])
        assert best.symbols == tuple(symbols) and best.details["certainties"] == pytest.approx(sure, rel=1e-3)
        assert best.score == pytest.approx(sum(map(math.log, sure)), rel=1e-3)
