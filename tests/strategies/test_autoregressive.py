"""Teacher forcing: sums with counts, padding, scheduled sampling, and eight examples learned by heart."""

from dataclasses import replace

import pytest
import torch
from daily import daily
from making import auxiliaries_of, strategy_of
from torch.nn import functional

from seq2seq_suite.common.types import BEGIN, Batch
from seq2seq_suite.data.batching import collate
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive, shift_right

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def part(batch: Batch, rows: slice) -> Batch:
    """Some of a batch's rows, without the columns that only the others need."""
    fields = {name: getattr(batch, name)[rows] for name in ("source", "source_mask", "target", "target_mask", "given")}
    width, length = int(fields["source_mask"].sum(1).max()), int(fields["target_mask"].sum(1).max())
    for name, value in fields.items():
        fields[name] = value[:, :width] if name.startswith("source") else value[:, :length]
    return replace(batch, **fields)


def gradients(model) -> dict[str, torch.Tensor]:
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def test_the_loss_is_the_summed_cross_entropy_of_each_symbol_given_those_before(make_model, make_batch):
    model, batch = make_model(), make_batch([5, 3], [4, 6])
    memory = model.prepare(model.encode(batch))
    expected = 0.0
    for row, length in enumerate((4, 6)):
        one = memory.select(torch.tensor([row]))
        symbols = [BEGIN, *batch.target[row, : length - 1].tolist()]
        hidden, _ = model.decode(model.embed(torch.tensor([symbols]), one), causal(length), one)
        expected += functional.cross_entropy(
            model.output(hidden)[0], batch.target[row, :length], reduction="sum", label_smoothing=0.1
        )
    loss = strategy_of(Autoregressive, label_smoothing=0.1).loss(model, batch)
    torch.testing.assert_close(loss.sums["cross_entropy"], expected, **CLOSE)
    assert loss.counts == {"cross_entropy": 10} and loss.weights == {"cross_entropy": 1.0}


def test_two_half_batches_are_one_batch_in_loss_and_gradient(make_model, make_batch):
    model, batch = make_model(), make_batch([5, 3, 7, 2], [4, 6, 3, 9])
    strategy = strategy_of(Autoregressive, label_smoothing=0.1)
    whole = strategy.loss(model, batch)
    whole.sums["cross_entropy"].backward()
    expected = gradients(model)
    model.zero_grad()
    halves = [strategy.loss(model, part(batch, rows)) for rows in (slice(0, 2), slice(2, 4))]
    for half in halves:
        half.sums["cross_entropy"].backward()
    torch.testing.assert_close(sum(half.sums["cross_entropy"] for half in halves), whole.sums["cross_entropy"], **CLOSE)
    assert sum(half.counts["cross_entropy"] for half in halves) == whole.counts["cross_entropy"] == 22
    torch.testing.assert_close(gradients(model), expected, **CLOSE)


@pytest.mark.parametrize("norm", ["layer", "power"])
def test_padding_never_changes_the_loss(make_model, make_batch, norm):
    batch = make_batch([5, 3], [4, 6])
    noise = torch.randint(4, 9, (2, 4))
    false = torch.zeros(2, 4, dtype=torch.bool)
    wide = replace(
        batch,
        source=torch.cat((batch.source, noise), 1),
        target=torch.cat((batch.target, noise), 1),
        **{name: torch.cat((getattr(batch, name), false), 1) for name in ("source_mask", "target_mask", "given")},
    )
    found = []
    for given in (batch, wide):
        model = make_model(norm=norm).train()
        loss = strategy_of(Autoregressive, label_smoothing=0.1).loss(model, given)
        loss.sums["cross_entropy"].backward()
        found.append((loss.sums["cross_entropy"].detach(), gradients(model)))
        assert loss.counts == {"cross_entropy": 10}
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-3)


def test_padding_never_changes_the_loss_of_the_guided_parser(make_model, make_parsing):
    task, examples = make_parsing("in_order")
    items, model = task.encode(examples), make_model(task.shape())
    strategy = strategy_of(Autoregressive, label_smoothing=0.1, auxiliaries=auxiliaries_of(task.shape()))
    whole = strategy.loss(model, collate(items, "parsing"))
    grid = strategy.loss(model, collate(items, "parsing", round_lengths=True))
    single = [strategy.loss(model, collate([item], "parsing")) for item in items]
    for name in ("cross_entropy", "tags", "moves"):
        torch.testing.assert_close(sum(loss.sums[name] for loss in single), whole.sums[name], **CLOSE)
        torch.testing.assert_close(grid.sums[name], whole.sums[name], **CLOSE)
        assert sum(loss.counts[name] for loss in single) == whole.counts[name] == grid.counts[name]
    assert whole.weights == {"cross_entropy": 1.0, "tags": task.options.tag_loss, "moves": task.options.move_loss}
    assert whole.counts["tags"] == sum(len(example.source) for example in examples)


def test_prompts_are_given_and_not_predicted(make_model, make_batch):
    model, batch = make_model(), make_batch([5, 3], [4, 6])
    strategy = strategy_of(Autoregressive)
    given = batch.given.clone()
    given[:, :2] = True
    given, free = strategy.loss(model, replace(batch, given=given)), strategy.loss(model, batch)
    assert given.counts == {"cross_entropy": 6} and strategy.counts(batch) == free.counts
    assert 0 < given.sums["cross_entropy"] < free.sums["cross_entropy"]


def test_a_batch_of_prompts_alone_has_no_loss(make_model, make_batch):
    model, batch = make_model(), make_batch([5, 3], [4, 6])
    loss = strategy_of(Autoregressive, label_smoothing=0.1).loss(model, replace(batch, given=batch.target_mask))
    loss.sums["cross_entropy"].backward()
    assert loss.counts == {"cross_entropy": 0} and not loss.sums["cross_entropy"].any()


def test_scheduled_sampling_of_one_reads_the_models_own_predictions(make_model, make_batch):
    model, batch = make_model().train(), make_batch([5, 3], [4, 6])
    memory = model.prepare(model.encode(batch))

    def hidden_after(previous: torch.Tensor) -> torch.Tensor:
        return model.decode(model.embed(previous, memory), causal(6), memory)[0]

    predictions = model.output(hidden_after(shift_right(batch.target))).argmax(-1)
    assert not torch.equal(predictions, batch.target)
    logits = model.output(hidden_after(shift_right(predictions)))[batch.target_mask]
    expected = functional.cross_entropy(logits, batch.target[batch.target_mask], reduction="sum")
    got = strategy_of(Autoregressive, scheduled_sampling=1.0).loss(model, batch)
    torch.testing.assert_close(got.sums["cross_entropy"], expected, **CLOSE)


def test_scheduled_sampling_of_zero_or_in_evaluation_is_teacher_forcing(make_model, make_batch):
    model, batch = make_model(), make_batch([5, 3], [4, 6])
    forced = strategy_of(Autoregressive).loss(model, batch).sums["cross_entropy"]
    always = strategy_of(Autoregressive, scheduled_sampling=1.0)
    for strategy in (strategy_of(Autoregressive, scheduled_sampling=0.0), always.eval()):
        assert torch.equal(strategy.loss(model, batch).sums["cross_entropy"], forced)
    sampled = always.train().loss(model, batch).sums["cross_entropy"]
    assert not torch.allclose(sampled, forced)


def test_scheduled_sampling_under_autocast_reaches_every_weight(make_model, make_batch):
    # The first pass runs without gradients; a weight cast there must not be the one the second pass learns by.
    model, batch = make_model().train(), make_batch([5, 3], [4, 6])
    with torch.autocast("cpu", torch.bfloat16):
        loss = strategy_of(Autoregressive, scheduled_sampling=1e-12).loss(model, batch)
    loss.sums["cross_entropy"].backward()
    assert set(gradients(model)) == {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize(
    ("linearisation", "backbone"),
    daily(
        [
            ("in_order", {}),
            ("brackets", {}),
            ("in_order", {"attention_score": "additive"}),
            ("in_order", {"embedding_width": 12}),
            ("in_order", {"experts": 4}),
        ],
        ("in_order", {}),
        ("brackets", {}),
    ),
    ids=str,
)
def test_eight_examples_are_learned_to_exact_match(make_model, make_parsing, overfit, linearisation, backbone):
    task, examples = make_parsing(linearisation)
    items = task.encode(examples)
    batch = collate(items, "parsing")
    model = make_model(
        task.shape(), noise=0.0, width=48, feed_forward_width=96, encoder_layers=1, decoder_layers=1, **backbone
    )
    auxiliaries = auxiliaries_of(task.shape(), width=48)
    strategy = strategy_of(Autoregressive, label_smoothing=0.1, auxiliaries=auxiliaries, noise=0.0)
    overfit(model, strategy, batch, updates=120)
    limit = torch.full((len(items),), 60)
    for beam_size in (1, 4):
        found = strategy.generate(
            model, batch, options=SearchOptions(beam_size=beam_size), limit=limit, constraint=task.constraint()
        )
        assert [task.read_hypothesis(best[0], example) for best, example in zip(found, examples, strict=True)] == [
            example.reference for example in examples
        ]
        tags = [task.target.tags.decode(list(best[0].details["tags"][1:-1])) for best in found]
        assert tags == [example.reference.tags() for example in examples]
