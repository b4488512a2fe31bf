"""Batches: every example once an epoch, an order of seed and epoch alone, within the budget."""

from itertools import islice, pairwise

import numpy as np
import pytest
import torch

from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.data.batching import Bucketed, collate, in_sorted_batches, on_grid
from seq2seq_suite.data.drawn import Drawn


def make_items(count: int = 200, *, longest: int = 60) -> list[Encoded]:
    random = np.random.default_rng(1)
    return [
        Encoded(
            random.integers(4, 9, random.integers(1, longest)),
            random.integers(4, 9, random.integers(1, longest)),
            index=index,
        )
        for index in range(count)
    ]


def order_by_sorting(batches: Bucketed, epoch: int) -> list[list[int]]:
    """An epoch's batches, made by one sort over all keys and a walk over all examples."""
    targets, sources = (np.array([len(getattr(item, side)) for item in batches.items]) for side in ("target", "source"))
    widths = np.maximum(targets, sources)
    if batches.round_lengths:
        widths = np.array([on_grid(width) for width in widths])
    random = np.random.Generator(np.random.PCG64([batches.seed, epoch]))
    order = np.lexsort((random.random(len(widths)), sources + random.uniform(-1, 1, len(widths)), widths))
    found, first = [], 0
    for place, width in enumerate(widths[order]):
        if place > first and width * (place - first + 1) > batches.batch_tokens:
            found.append(order[first:place])
            first = place
    found.append(order[first:])
    return [found[index].tolist() for index in random.permutation(len(found))]


def make_batches(
    items: list[Encoded], *, seed: int = 1, round_lengths: bool = False, batch_tokens: int = 256
) -> Bucketed:
    return Bucketed(items, "test", batch_tokens=batch_tokens, seed=seed, round_lengths=round_lengths)


@pytest.mark.parametrize("round_lengths", [False, True])
def test_an_epoch_holds_every_example_once(round_lengths):
    batches = make_batches(make_items(), round_lengths=round_lengths)
    for epoch in range(3):
        assert sorted(np.concatenate(batches.epoch(epoch)).tolist()) == list(range(200))


@pytest.mark.parametrize("round_lengths", [False, True])
@pytest.mark.parametrize("count, longest, budget", [(1, 9, 64), (500, 60, 256), (300, 60, 20), (3000, 3, 4096)])
def test_batches_are_those_of_one_sort_and_a_walk(count, longest, budget, round_lengths):
    batches = make_batches(make_items(count, longest=longest), round_lengths=round_lengths, batch_tokens=budget)
    for epoch in (0, 1, 5):
        expected = order_by_sorting(batches, epoch)
        assert [rows.tolist() for rows in batches.epoch(epoch)] == expected and len(batches) == len(expected)


def test_equal_keys_are_decided_by_the_numbers_drawn_for_them(monkeypatch):
    class Coarse(np.random.Generator):
        def uniform(self, low, high, size):
            return np.round(super().uniform(low, high, size))

    monkeypatch.setattr(np.random, "Generator", Coarse)
    batches = make_batches(make_items(400))
    assert [rows.tolist() for rows in batches.epoch(3)] == order_by_sorting(batches, 3)


@pytest.mark.parametrize("round_lengths", [False, True])
def test_the_order_is_a_function_of_seed_and_epoch(round_lengths):
    def order(seed: int, epoch: int) -> list[list[int]]:
        batches = make_batches(make_items(), seed=seed, round_lengths=round_lengths)
        np.random.seed(epoch)
        torch.manual_seed(seed + epoch)
        return [batch.tolist() for batch in batches.epoch(epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0) and order(1, 0) != order(1, 1)
    batches = make_batches(make_items(), round_lengths=round_lengths)
    batches.epoch(7)  # asking for another epoch first changes nothing
    assert [batch.tolist() for batch in batches.epoch(0)] == order(1, 0)


@pytest.mark.parametrize("round_lengths", [False, True])
def test_batches_stay_within_the_budget_padding_included(round_lengths):
    batches = make_batches(make_items(), round_lengths=round_lengths)
    for _, _, batch in islice(batches.batches(0), len(batches.epoch(0))):
        assert batch.target.numel() <= 256 and batch.source.numel() <= 256


def test_an_example_beyond_the_budget_is_a_batch_of_its_own():
    items = [*make_items(20, longest=8), Encoded(np.ones(3, np.int64), np.ones(999, np.int64), index=20)]
    batches = make_batches(items)
    assert [20] in [batch.tolist() for batch in batches.epoch(0)]


def test_batches_fill_their_budget_with_examples_of_like_length():
    items = make_items(1000)
    widths = np.array([max(len(item.target), len(item.source)) for item in items])
    batches = make_batches([Encoded(item.target, item.target, index=item.index) for item in items], batch_tokens=512)
    real = padded = 0
    for _, _, batch in islice(batches.batches(0), len(batches.epoch(0))):
        real, padded = real + int(batch.target_mask.sum()), padded + batch.target.numel()
    assert padded < 1.2 * real
    assert len(batches.epoch(0)) < 1.4 * widths.sum() / 512


@pytest.mark.parametrize("round_lengths", [False, True])
def test_no_batch_had_room_for_the_first_example_of_the_next(round_lengths):
    items = make_items(1000)
    widths = [max(len(item.target), len(item.source)) for item in items]
    widths = [on_grid(width) for width in widths] if round_lengths else widths
    batches = [
        sorted(widths[index] for index in batch) for batch in make_batches(items, round_lengths=round_lengths).epoch(0)
    ]
    for batch, following in pairwise(sorted(batches, key=lambda batch: (batch[0], batch[-1], -len(batch)))):
        assert batch[-1] <= following[0]
        assert (len(batch) + 1) * following[0] > 256 >= len(batch) * batch[-1]


def test_few_shapes_recur():
    items = make_items(2000)
    exact, coarse = (
        {
            tuple(batch.source.shape) + tuple(batch.target.shape)
            for _, _, batch in islice(batches.batches(0), len(batches.epoch(0)))
        }
        for batches in (make_batches(items), make_batches(items, round_lengths=True))
    )
    assert len(coarse) < 0.6 * len(exact)
    assert all(length == on_grid(length) for _, source, _, target in coarse for length in (source, target))


@pytest.mark.parametrize("round_lengths", [False, True])
def test_resuming_from_a_position_gives_the_same_batches(round_lengths):
    items = make_items()
    whole = list(islice(make_batches(items, round_lengths=round_lengths).batches(0), 120))
    assert whole[-1][0] > 0, "the stream should cross an epoch"
    for done in (0, 1, 17, 119):
        epoch, position = whole[done][:2]
        rest = islice(make_batches(items, round_lengths=round_lengths).batches(epoch, position), 120 - done - 1)
        for got, expected in zip(rest, whole[done + 1 :], strict=True):
            assert got[:2] == expected[:2] and got[2].indices == expected[2].indices
            assert torch.equal(got[2].source, expected[2].source)


def test_collating_pads_each_field_with_its_own_filler():
    short = Encoded(
        np.array([[5, 6]]),
        np.array([7, 2]),
        8,
        auxiliary={
            "tags": np.array([1]),
            "focus": np.array([[0], [1]]),
            "context": np.array([[3, 0], [4, 3]]),
            "ctc": np.array([7]),
        },
    )
    long = Encoded(
        np.array([[5, 6, 7], [8, 0, 0]]),
        np.array([7, 8, 2]),
        9,
        auxiliary={
            "tags": np.array([1, -1]),
            "focus": np.array([[0], [1], [1]]),
            "context": np.array([[3, 0], [4, 3], [4, 4]]),
            "ctc": np.array([7, 8, 9, 7]),
        },
    )
    batch = collate([short, long], "test")
    assert batch.source.tolist() == [[[5, 6, 0], [0, 0, 0]], [[5, 6, 7], [8, 0, 0]]]
    assert batch.source_mask.tolist() == [[True, False], [True, True]]
    assert batch.target.tolist() == [[7, 2, 0], [7, 8, 2]]
    assert batch.target_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.auxiliary["tags"].tolist() == [[1, -1], [1, -1]]
    assert batch.auxiliary["focus"][0].tolist() == [[0], [1], [-1]]
    assert batch.auxiliary["context"][0].tolist() == [[3, 0], [4, 3], [0, 0]]
    assert batch.auxiliary["ctc"].tolist() == [[7, 0, 0, 0], [7, 8, 9, 7]]
    assert not batch.given.any() and batch.indices == (8, 9) and batch.task == "test"


def test_a_field_that_one_example_lacks_is_absent():
    whole = Encoded(np.array([5]), np.array([2]), auxiliary={"tags": np.array([1])})
    batch = collate([whole, Encoded(np.array([5]), np.array([2]))], "test")
    assert not batch.auxiliary and not collate([Encoded(np.array([5]), np.array([2])), whole], "test").auxiliary


def test_decoding_takes_every_example_once_longest_first():
    items = make_items(50)
    batches = list(in_sorted_batches(items, "test", 8))
    assert [len(batch.indices) for batch in batches] == [8] * 6 + [2]
    lengths = [len(items[index].source) for batch in batches for index in batch.indices]
    assert lengths == sorted(lengths, reverse=True)
    assert sorted(index for batch in batches for index in batch.indices) == list(range(50))


def test_examples_that_are_drawn_give_the_batches_of_those_that_lie_ready_and_only_the_ones_asked_for():
    epochs = [make_items(60, longest=9 + epoch) for epoch in range(4)]
    made: list[tuple[int, int]] = []

    def draw(epoch: int) -> Drawn:
        def make(index: int) -> Encoded:
            made.append((epoch, index))
            return epochs[epoch][index]

        return Drawn(
            make,
            source_lengths=[len(item.source) for item in epochs[epoch]],
            target_lengths=[len(item.target) for item in epochs[epoch]],
        )

    ready, drawn = (
        Bucketed(epochs[0], "test", batch_tokens=64, seed=1, encode_epoch=encode_epoch)
        for encode_epoch in (epochs.__getitem__, draw)
    )
    number = sum(len(ready._read(epoch).epoch(epoch)) for epoch in range(2)) + 3
    assert drawn.place_of(number) == ready.place_of(number) == (2, 3)
    assert not made, "to find a place draws nothing"
    for one, other in zip(islice(ready.batches(2, 3), 4), islice(drawn.batches(2, 3), 4), strict=True):
        assert one[:2] == other[:2] and one[2].indices == other[2].indices
        assert torch.equal(one[2].source, other[2].source) and torch.equal(one[2].target, other[2].target)
    wanted = [(2, index) for batch in ready._read(2).epoch(2)[3:7] for index in batch.tolist()]
    assert made == wanted, "each is drawn once, when its batch comes"


def test_drawn_examples_are_a_sequence():
    items = make_items(5)
    drawn = Drawn(items.__getitem__, source_lengths=[1] * 5, target_lengths=[1] * 5)
    assert list(drawn) == items and drawn[1:3] == items[1:3] and drawn[-1] is items[-1] and len(drawn) == 5
