"""`model(source, source_mask, target_in)` is the definition: every other way to the logits gives the same."""

import pytest
import torch
from making import strategy_of
from torch.nn import functional

from seq2seq_suite import kernels
from seq2seq_suite.common.shapes import SetShape, Shape, SourceShape, TargetShape, TokenShape
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.prefix import PrefixSeq2Seq
from seq2seq_suite.strategies.autoregressive import Autoregressive, shift_right
from seq2seq_suite.strategies.parallel.log_probs import gather_log_probs
from seq2seq_suite.strategies.sets import Sets

SHAPE = Shape(TokenShape(11), TargetShape(9))
SHARED = Shape(TokenShape(11, shared=True, copied=True), TargetShape(11))
KINDS = {
    "transformer": ({}, SHAPE),
    "post-norm": ({"norm_placement": "post", "positions": "learned"}, SHAPE),
    "rotary": ({"positions": "rotary"}, SHAPE),
    "alibi": ({"positions": "alibi"}, SHAPE),
    "t5": ({"positions": "t5", "activation": "geglu"}, SHAPE),
    "normed": ({"positions": "learned", "embedding_norm": True, "scale_embeddings": False}, SHAPE),
    "universal": ({"encoder_steps": 2, "decoder_steps": 2}, SHAPE),
    "rnn": ({"decoder": "rnn"}, SHAPE),
    "prefix": ({"encoder": "none"}, SHAPE),
    "prefix, learned": ({"encoder": "none", "positions": "learned"}, SHAPE),
    "language model": ({}, Shape(SourceShape(), TargetShape(9))),
    "pointer": ({}, SHARED),
}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(params=[(name, kind) for name in KINDS for kind in kernels.KINDS], ids=str)
def case(request, make_model, make_batch):
    """A model, a batch of three padded sentences and the logits by definition."""
    name, kind = request.param
    backbone, shape = KINDS[name]
    model = make_model(shape, kernel=kind, **backbone)
    batch = make_batch([5, 3, 1], [4, 6, 2], target_symbols=shape.target.symbols)
    return model, batch, model(batch.source, batch.source_mask, shift_right(batch.target))


@torch.inference_mode()
def test_step_by_step_with_a_cache(case):
    model, batch, logits = case
    memory, target_in = model.prepare(model.encode(batch)), shift_right(batch.target)
    cache = model.new_cache(memory)
    for step in range(target_in.size(1)):
        assert model.target_length(cache, memory) == step
        x = model.embed(target_in[:, step : step + 1], memory, offset=step)
        hidden, cache = model.decode(x, None, memory, cache)
        torch.testing.assert_close(model.logits(hidden, memory), logits[:, step : step + 1], **CLOSE)


@torch.inference_mode()
def test_sentences_that_leave_and_rows_side_by_side(case):
    model, batch, logits = case
    memory, target_in = model.prepare(model.encode(batch)), shift_right(batch.target)
    x = model.embed(target_in[:, :2], memory)
    _, cache = model.decode(x, causal(2), memory, model.new_cache(memory))
    sentences = torch.tensor([2, 0])
    rows = sentences.repeat_interleave(2)
    left, cache = memory.select(sentences), cache.select(rows)
    hidden, _ = model.decode(model.embed(target_in[rows, 2:3], left, offset=2), None, left, cache)
    torch.testing.assert_close(model.logits(hidden, left), logits[rows, 2:3], **CLOSE)


@torch.inference_mode()
def test_a_sentence_without_its_padding(case):
    model, batch, logits = case
    for row, (source, target) in enumerate(zip(batch.source_mask.sum(1), batch.target_mask.sum(1), strict=True)):
        one = slice(row, row + 1)
        alone = model(
            batch.source[one, :source], batch.source_mask[one, :source], shift_right(batch.target[one, :target])
        )
        torch.testing.assert_close(alone, logits[one, :target], **CLOSE)


@torch.inference_mode()
def test_the_loss_and_the_chances_of_single_symbols(case):
    model, batch, logits = case
    found = strategy_of(Autoregressive).loss(model, batch).sums["cross_entropy"]
    expected = functional.cross_entropy(logits[batch.target_mask], batch.target[batch.target_mask], reduction="sum")
    torch.testing.assert_close(found, expected, **CLOSE)
    memory, target_in = model.prepare(model.encode(batch)), shift_right(batch.target)
    hidden, _ = model.decode(model.embed(target_in, memory), causal(target_in.size(1)), memory)
    chances, likeliest, _ = gather_log_probs(model, hidden, memory, batch.target, batch.target_mask)
    log_probs = logits.log_softmax(-1)
    symbols = batch.target.unsqueeze(1).expand(-1, target_in.size(1), -1)
    torch.testing.assert_close(chances[batch.target_mask], log_probs.gather(2, symbols)[batch.target_mask], **CLOSE)
    assert torch.equal(likeliest[batch.target_mask], logits.argmax(-1)[batch.target_mask])


@torch.inference_mode()
def test_with_a_guide(make_model, make_parsing):
    from seq2seq_suite.data.batching import collate

    task, examples = make_parsing("in_order")
    batch, model = collate(task.encode(examples[:3]), "parsing"), make_model(task.shape())
    logits = model(
        batch.source,
        batch.source_mask,
        shift_right(batch.target),
        focus=batch.auxiliary["focus"],
        context=batch.auxiliary["context"],
    )
    expected = functional.cross_entropy(logits[batch.target_mask], batch.target[batch.target_mask], reduction="sum")
    torch.testing.assert_close(strategy_of(Autoregressive).loss(model, batch).sums["cross_entropy"], expected, **CLOSE)


@torch.inference_mode()
def test_what_a_strategy_adds_to_the_logits(make_model, make_batch):
    target = SetShape(9, head="label_wise", pointer=True)
    model, batch = make_model(Shape(TokenShape(11), target)), make_batch([5, 3], [4, 6])
    strategy = strategy_of(Sets, target=target)
    memory, target_in = strategy.encode_source(model, batch), shift_right(batch.target)
    hidden, _ = model.decode(model.embed(target_in, memory), causal(6), memory)
    without = model(batch.source, batch.source_mask, target_in)
    torch.testing.assert_close(model.logits(hidden, memory) - without, memory.added(hidden), **CLOSE)


def test_only_a_decoder_that_reads_a_source_has_it_for_a_prefix(make_model):
    assert {
        name for name, (backbone, shape) in KINDS.items() if isinstance(make_model(shape, **backbone), PrefixSeq2Seq)
    } == {"prefix", "prefix, learned"}
