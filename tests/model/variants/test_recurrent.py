"""The recurrent decoder: the same laws as the Transformer's stack."""

import pytest
import torch
from making import strategy_of

from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
KINDS = [{"cell": "lstm"}, {"cell": "gru"}, {"cell": "gru", "encoder": "rnn", "encoder_layers": 1, "decoder_layers": 1}]


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_cached_decoding_is_uncached_decoding(make_model, make_batch, kind):
    model, batch = make_model(decoder="rnn", **kind), make_batch([4, 7], [7, 7])
    states = model.encode(batch)
    memory, cache, outputs = model.prepare(states), model.decoder.new_cache(states.values), []
    for length in (1, 3, 1, 2):
        first = cache.length
        hidden, cache = model.decode(
            model.embed(batch.target[:, first : first + length], memory, offset=first), None, memory, cache
        )
        outputs.append(hidden)
    expected, nothing = model.decode(model.embed(batch.target, memory), None, memory)
    torch.testing.assert_close(torch.cat(outputs, 1), expected, **CLOSE)
    assert cache.length == 7 and nothing is None


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_one_item_is_written_as_in_a_padded_batch(make_model, make_batch, kind, beam_size):
    model, strategy = make_model(decoder="rnn", noise=0.6, **kind), strategy_of(Autoregressive)
    batch = make_batch([4, 7, 2], [2, 2, 2])
    options, limit = SearchOptions(beam_size=beam_size), torch.full((3,), 9)
    together = strategy.generate(model, batch, options=options, limit=limit)
    for row, length in enumerate((4, 7, 2)):
        alone = type(batch)(
            batch.source[row : row + 1, :length],
            batch.source_mask[row : row + 1, :length],
            batch.target[:1],
            batch.target_mask[:1],
            batch.given[:1],
            "test",
        )
        ((best, *_),) = strategy.generate(model, alone, options=options, limit=limit[:1])
        assert best.symbols == together[row][0].symbols
        assert best.score == pytest.approx(together[row][0].score, abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "lengths", "updates"),
    [
        (KINDS[1], ([4, 6, 5], [5, 7, 3]), 90),
        *[
            pytest.param(kind, ([4, 6, 5, 3, 6, 5, 4, 6], [5, 7, 3, 4, 2, 6, 5, 7]), 200, marks=pytest.mark.slow)
            for kind in KINDS[1:]
        ],
    ],
)
def test_examples_are_learned_by_heart(make_model, make_batch, overfit, kind, lengths, updates):
    batch = make_batch(*lengths)
    model, strategy = make_model(decoder="rnn", noise=0.0, width=32, **kind), strategy_of(Autoregressive)
    overfit(model, strategy, batch, updates=updates)
    found = strategy.generate(model, batch, options=SearchOptions(), limit=torch.full((len(lengths[0]),), 20))
    expected = [tuple(row[mask][:-1].tolist()) for row, mask in zip(batch.target, batch.target_mask, strict=True)]
    assert [hypotheses[0].symbols for hypotheses in found] == expected
