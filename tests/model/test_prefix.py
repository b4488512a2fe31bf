"""A decoder alone that reads the source and writes the target behind it, against one plain pass over both."""

from dataclasses import replace

import pytest
import torch
from making import auxiliaries_of, strategy_of
from torch.nn import functional

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive, shift_right

SHAPE = Shape(TokenShape(11), TargetShape(9))
KINDS = [
    {},
    {"positions": "learned"},
    {"norm_placement": "post", "norm": "rms"},
    {"tie_embeddings": False},
    {"embedding_width": 5},
]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def plain(model, source, previous):
    """Hidden states (1,S+T,D) of one source (S,) and target (T,) without padding and without a cache."""
    x = torch.cat((model.frontend.embedding(source) * model.scale, model.embed_symbols(previous))).unsqueeze(0)
    x = model.positions(x)
    return model.decoder(x, causal(x.size(1)), None)[0]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_source_and_target_are_one_sequence(make_model, make_batch, kind):
    model = make_model(SHAPE, encoder="none", **kind)
    batch = make_batch([3, 6, 1], [4, 2, 5])
    memory = model.prepare(model.encode(batch))
    previous = shift_right(batch.target)
    hidden, _ = model.decode(model.embed(previous, memory), causal(5), memory)
    for row, (source, target) in enumerate(zip(batch.source_mask.sum(1), batch.target_mask.sum(1), strict=True)):
        expected = plain(model, batch.source[row, :source], previous[row, :target])[0]
        torch.testing.assert_close(memory.states.values[row, :source], expected[:source], **CLOSE)
        torch.testing.assert_close(hidden[row, :target], expected[source:], **CLOSE)


def test_losses_and_gradients_are_those_of_one_pass(make_model, make_batch):
    model = make_model(SHAPE, encoder="none")
    batch = make_batch([3, 6], [4, 2])
    strategy = strategy_of(Autoregressive, auxiliaries=auxiliaries_of(SHAPE, language=0.5))
    loss = strategy.loss(model, batch)
    assert loss.counts == strategy.counts(batch) == {"cross_entropy": 6, "language": 7}
    assert loss.weights == {"cross_entropy": 1.0, "language": 0.5}
    parameters, head = [*model.parameters(), *strategy.parameters()], strategy.auxiliaries["language"].head
    got = torch.autograd.grad(loss.sums["cross_entropy"] + loss.sums["language"], parameters)
    own = language = 0.0
    for row in range(2):
        source, target = batch.source[row][batch.source_mask[row]], batch.target[row][batch.target_mask[row]]
        hidden = plain(model, source, torch.cat((torch.tensor([BEGIN]), target[:-1])))[0]
        own = own + functional.cross_entropy(model.output(hidden[len(source) :]), target, reduction="sum")
        language = language + functional.cross_entropy(head(hidden[: len(source) - 1]), source[1:], reduction="sum")
    torch.testing.assert_close(loss.sums["cross_entropy"], own, **CLOSE)
    torch.testing.assert_close(loss.sums["language"], language, **CLOSE)
    for have, want in zip(got, torch.autograd.grad(own + language, parameters), strict=True):
        torch.testing.assert_close(have, want, rtol=1e-3, atol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS[:3], ids=str)
def test_search_is_a_plain_loop(make_model, make_batch, kind):
    model = make_model(SHAPE, encoder="none", **kind)
    batch, limit = replace(make_batch([3, 6, 1, 4], [1, 1, 1, 1]), indices=(0, 1, 2, 3)), torch.full((4,), 7)
    generate = strategy_of(Autoregressive).generate
    found = generate(model, batch, options=SearchOptions(), limit=limit)
    for row, (hypothesis,) in enumerate(found):
        written = [BEGIN]
        source = batch.source[row][batch.source_mask[row]]
        while written[-1] != END and len(written) < 7:
            logits = model.output(plain(model, source, torch.tensor(written))[0, -1])
            logits[[PAD, BEGIN, UNKNOWN]] = float("-inf")
            written.append(int(logits.argmax()))
        assert list(hypothesis.symbols) == [symbol for symbol in written[1:] if symbol != END]
    wide = SearchOptions(beam_size=3)
    together = generate(model, batch, options=wide, limit=limit)
    for row, (hypothesis,) in enumerate(together):
        alone = generate(model, batch.select([row]), options=wide, limit=limit[:1])[0][0]
        assert hypothesis.symbols == alone.symbols and hypothesis.score == pytest.approx(alone.score, abs=1e-4)
