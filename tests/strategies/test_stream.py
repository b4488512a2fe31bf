"""Rows that enter late: the outputs are those of each batch on its own, whatever waits, ends or grows."""

from dataclasses import replace

import pytest
import torch

from seq2seq_suite.strategies.search import SearchOptions, one_best
from seq2seq_suite.strategies.stream import can_stream, stream
from seq2seq_suite.types import Batch

LENGTHS = ((7, 6, 6, 5), (5, 5), (4, 9, 3, 2), (1,), (12, 3, 3))


def batches(make_batch) -> list[Batch]:
    made, first = [], 0
    for number, lengths in enumerate(LENGTHS):
        batch = make_batch(list(lengths), [2] * len(lengths), seed=number)
        made.append(replace(batch, indices=tuple(range(first, first + len(lengths)))))
        first += len(lengths)
    return made


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("most", [3, 25, 60])
def test_the_stream_writes_what_each_batch_writes_alone(make_model, make_batch, positions, most):
    model = make_model(seed=4, noise=0.6, positions=positions)
    # The longer a source, the longer its output may be: limits differ within and between batches.
    def limits(batch: Batch) -> torch.Tensor:
        return batch.source_mask.sum(1) + most

    options, made = SearchOptions(), batches(make_batch)
    expected = [found for batch in made for found in one_best(model, batch, options=options, limit=limits(batch))]
    got = dict(stream(model, iter(made), options=options, limits=limits))
    assert sorted(got) == list(range(len(expected)))
    assert len({len(found[0].symbols) for found in expected}) > 3 or most == 3
    for index, found in enumerate(expected):
        assert got[index][0].symbols == found[0].symbols and got[index][0].complete == found[0].complete
        assert got[index][0].score == pytest.approx(found[0].score, abs=1e-4)


def test_nothing_streams_out_of_nothing(make_model):
    assert list(stream(make_model(), iter(()), options=SearchOptions(), limits=lambda batch: None)) == []


def test_only_greedy_search_of_free_text_streams(make_model):
    assert can_stream(make_model(), SearchOptions(), None)
    assert can_stream(make_model(), SearchOptions(constraint=False), object())
    for model, options, constraint in (
            (make_model(), SearchOptions(), object()), (make_model(), SearchOptions(beam_size=2), None),
            (make_model(), SearchOptions(sampling=True), None), (make_model(), SearchOptions(ctc_weight=0.3), None),
            (make_model(positions="rotary"), SearchOptions(), None),
            (make_model(decoder_steps=2), SearchOptions(), None)):
        assert not can_stream(model, options, constraint)
