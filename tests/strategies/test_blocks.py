"""Block diffusion: at one end left to right, in value and gradient; in between the bound of its own likelihood."""

import itertools
import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from daily import daily
from making import auxiliaries_of, strategy_of
from plain import alone
from torch.nn import functional

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import BEGIN, END
from seq2seq_suite.config.config_file import load
from seq2seq_suite.data.batching import collate
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.blocks import MASK, slot_inputs
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.block_language_model import BlockLanguageModel
from seq2seq_suite.strategies.blocks import Blocks, Layout
from seq2seq_suite.strategies.language_model import LanguageModel

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
BACKBONES = (
    {},
    {"norm_placement": "post"},
    {"positions": "learned"},
    {"encoder": "none"},
    {"embedding_width": 8},
    {"attention_score": "additive"},
)


def gradients(model) -> dict[str, torch.Tensor]:
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()
    return found


def exhaustive(layout: Layout):
    """Every set of hidden symbols of one block with the probability that training draws it."""
    width = int(layout.asked.sum())
    for count in range(1, width + 1):
        for places in itertools.combinations(range(width), count):
            hidden = torch.zeros_like(layout.asked)
            hidden[0, list(places)] = True
            yield hidden, 1 / width / math.comb(width, count)


def each_hidden(model, batch, memory, layout, hidden, weighting="bound", smoothing=0.0):
    """(B,L) weighted cross-entropy of the hidden symbols, from all logits."""
    logits = model.logits(Blocks.states(model, batch, memory, layout, hidden)[0], memory)
    each = functional.cross_entropy(logits.transpose(1, 2), layout.target, reduction="none", label_smoothing=smoothing)
    return each * layout.weights(hidden, weighting)


@pytest.mark.parametrize("backbone", BACKBONES, ids=str)
def test_blocks_of_one_symbol_are_left_to_right_in_loss_and_gradient(make_model, make_batch, backbone):
    model, batch = make_model(**backbone), make_batch([5, 3], [4, 6])
    left_to_right = strategy_of(Autoregressive, label_smoothing=0.1).loss(model, batch)
    left_to_right.sums["cross_entropy"].backward()
    expected = gradients(model)
    strategy = strategy_of(Blocks, block=1, joint=0.5, label_smoothing=0.1)
    loss = strategy.loss(model, batch)
    for name in ("cross_entropy", "left_to_right"):
        torch.testing.assert_close(loss.sums[name], left_to_right.sums["cross_entropy"], **CLOSE)
        loss.sums[name].backward(retain_graph=True)
        torch.testing.assert_close(gradients(model), expected, **CLOSE)
    assert loss.weights == {"cross_entropy": 1.0, "left_to_right": 0.5}
    assert loss.counts == strategy.counts(batch) == {"cross_entropy": 10, "left_to_right": 10}


@pytest.mark.parametrize("linearisation", ["in_order", "brackets", "tetra_tags"])
def test_blocks_of_one_symbol_are_the_guided_parser(make_model, make_parsing, linearisation):
    task, examples = make_parsing(linearisation, guide=True)
    batch, shape = collate(task.encode(examples), "parsing"), task.shape()
    model, auxiliaries = make_model(shape), auxiliaries_of(shape)
    expected = strategy_of(Autoregressive, auxiliaries=auxiliaries).loss(model, batch)
    sum(expected.sums.values()).backward()
    derivatives = gradients(model)
    loss = strategy_of(Blocks, block=1, joint=0.0, auxiliaries=auxiliaries).loss(model, batch)
    torch.testing.assert_close(loss.sums, expected.sums, **CLOSE)
    sum(loss.sums.values()).backward()
    torch.testing.assert_close(gradients(model), derivatives, rtol=1e-3, atol=1e-4)
    assert (loss.counts, loss.weights) == (expected.counts, expected.weights)


@pytest.mark.parametrize("backbone", BACKBONES, ids=str)
@pytest.mark.parametrize(("size", "phase", "ratio"), [(2, 0, 0.0), (3, 1, 1.4), (4, 2, 0.5), (9, 0, 0.0)])
def test_one_pass_is_a_pass_for_each_block(make_model, make_batch, size, phase, ratio, backbone):
    model, batch = make_model(**backbone), make_batch([5], [7])
    encoded = partial(strategy_of(Blocks, copy_ratio=ratio).encode_source, model, batch)
    memory, layout = encoded(), Layout.of(batch, size, phase=phase)
    hidden = layout.draw()
    states, _ = Blocks.states(model, batch, memory, layout, hidden)
    weight = torch.randn_like(states)
    (states * weight).sum().backward()
    expected, memory, found = gradients(model), encoded(), []
    clean = torch.cat((torch.tensor([[BEGIN]]), layout.target[:, :-1]), 1)
    for number in layout.number.unique():
        own = (layout.number == number).nonzero().flatten()
        start = int(own[0])
        held = clean[:, own].clone()
        held[:, 1:][hidden[:, own[:-1]]] = MASK
        cache = model.new_cache(memory)
        if start:
            past = torch.ones(1, start, start, dtype=torch.bool).tril()
            _, cache = model.decode(model.embed(clean[:, :start], memory), past, memory, cache)
        slots = slot_inputs(model, memory, held, {}, torch.ones_like(held, dtype=torch.bool), offset=start)
        found.append(model.decode(slots, None, memory, cache)[0])
    torch.testing.assert_close(torch.cat(found, 1), states, **CLOSE)
    (torch.cat(found, 1) * weight).sum().backward()
    torch.testing.assert_close(gradients(model), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("ratio", [0.4, 1.0, 2.5])
def test_a_hidden_slot_reads_the_source_at_its_place_and_others_do_not(make_model, make_batch, ratio):
    model, batch = make_model(), make_batch([5, 3], [4, 4])
    plain, memory = (strategy_of(Blocks, copy_ratio=one).encode_source(model, batch) for one in (0.0, ratio))
    offset = torch.tensor([2, 0])
    for symbols in (torch.full((2, 9), MASK), torch.full((2, 9), 5)):
        read = [slot_inputs(model, one, symbols, {}, symbols == 5, offset=offset) for one in (memory, plain)]
        for row, length in enumerate((5, 3)):
            for place in range(9):
                source = min(round((place + int(offset[row])) / ratio), length - 1)
                expected = memory.states.values[row, source] if symbols[0, 0] == MASK else torch.zeros(1)
                torch.testing.assert_close(
                    (read[0] - read[1])[row, place], expected.expand(read[0].size(2)), rtol=1e-4, atol=1e-5
                )


@pytest.mark.parametrize("size", [1, 3, 4])
def test_what_is_hidden_and_later_blocks_change_no_state(make_model, make_batch, size):
    model, batch = make_model(), make_batch([5], [9])
    memory, layout = model.prepare(model.encode(batch)), Layout.of(batch, size)
    hidden = layout.draw()
    states, clean = Blocks.states(model, batch, memory, layout, hidden)
    unread = 0
    for place in range(8):
        target = batch.target.clone()
        target[0, place] = 4 + (target[0, place] - 3) % 5
        changed = replace(batch, target=target)
        other, other_clean = Blocks.states(model, changed, memory, Layout.of(changed, size), hidden)
        same = (states == other).all(-1)[0]
        own = layout.number == layout.number[place]
        if hidden[0, place] or (place + 1 < 9 and layout.number[place + 1] > layout.number[place]):
            assert same[own].all()  # what the last slot predicts is held by the next block
            unread += 1
        else:
            assert not same[own].any()
        assert same[layout.number < layout.number[place]].all() and (clean == other_clean).all(-1)[0, : place + 1].all()
        assert not same[layout.number > layout.number[place]].any()
    assert unread


@pytest.mark.parametrize("weighting", ["bound", "none"])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_each_symbol_has_the_weight_one_on_average(make_batch, weighting, width):
    layout = Layout.of(make_batch([3], [width]), width)
    mean = sum(chance * layout.weights(hidden, weighting) for hidden, chance in exhaustive(layout))
    torch.testing.assert_close(mean, torch.ones(1, width))


def test_of_a_block_so_many_symbols_are_hidden_as_the_other(make_batch):
    batch = make_batch([3] * 2000, [9] * 2000)
    layout = Layout.of(batch, 4, phase=3)
    counts = layout.in_blocks(layout.draw()).sum(2)
    assert counts.min() == 1 and counts[:, 0].max() == 1  # the first block has one symbol
    assert counts[:, 1].bincount()[1:].tolist() == pytest.approx([500] * 4, rel=0.2)


@pytest.mark.parametrize("weighting", ["bound", "none"])
@pytest.mark.parametrize("copied", [False, True])
def test_the_loss_is_the_weighted_cross_entropy_of_hidden_symbols(make_model, make_batch, weighting, copied):
    model, batch = make_model(Shape(TokenShape(11, copied=copied), TargetShape(11))), make_batch([5, 3], [7, 4])
    strategy = strategy_of(Blocks, block=4, joint=0.0, weighting=weighting, label_smoothing=0.1).eval()
    torch.manual_seed(5)
    strategy.loss(model, batch).sums["cross_entropy"].backward()
    found = gradients(model)
    torch.manual_seed(5)
    layout = Layout.of(batch, 4)
    hidden, memory = layout.draw(), strategy.encode_source(model, batch)
    assert hidden.any() and not hidden.all()
    expected = each_hidden(model, batch, memory, layout, hidden, weighting, 0.1).sum()
    expected.backward()
    torch.manual_seed(5)
    torch.testing.assert_close(strategy.loss(model, batch).sums["cross_entropy"], expected, **CLOSE)
    torch.testing.assert_close(found, gradients(model), rtol=1e-3, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("tail", daily([True, False], True))
def test_the_mean_of_the_loss_is_the_bound_on_the_likelihood_over_all_orders(make_model, make_batch, tail):
    """A block of three symbols, END and what is behind it: against all orders, one symbol at a time."""
    model, batch = make_model(noise=0.5), make_batch([4], [3])
    memory, layout = model.prepare(model.encode(batch)), Layout.of(batch, 4, tail=tail)
    width, strategy = int(layout.asked.sum()), strategy_of(Blocks, block=4)
    assert width == 3 + tail

    bound = sum(
        chance * each_hidden(model, batch, memory, layout, hidden).sum() for hidden, chance in exhaustive(layout)
    )
    totals = []
    for order in itertools.permutations(range(width)):
        hidden, total = torch.ones_like(layout.asked), 0.0
        for place in order:
            logits = model.logits(Blocks.states(model, batch, memory, layout, hidden)[0], memory)
            total += functional.cross_entropy(logits[0, place], layout.target[0, place])
            hidden[0, place] = False
        totals.append(total)
    torch.testing.assert_close(bound, torch.stack(totals).mean(), **CLOSE)
    mixture = -(torch.stack(totals).neg().logsumexp(0) - math.log(len(totals)))
    assert mixture < bound
    draws = torch.stack([each_hidden(model, batch, memory, layout, layout.draw()).sum() for _ in range(600)])
    assert abs(draws.mean() - bound) < 4 * draws.std() / math.sqrt(len(draws))
    if tail:
        drawn = strategy.bound(model, batch, SearchOptions(), draws=300).sum((1, 2))
        assert abs(drawn.mean() - bound) < 4 * drawn.std() / math.sqrt(len(drawn))


@torch.no_grad()
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_all_contents_of_a_block_have_probability_one_in_any_order(make_model, make_batch, order):
    model, batch = make_model(Shape(TokenShape(11), TargetShape(6)), noise=0.5), make_batch([4], [4])
    memory, total = model.prepare(model.encode(batch)), 0.0
    for content in itertools.product(range(6), repeat=2):
        one = replace(batch, target=torch.tensor([[4, 5, *content]]))  # behind a block that is written
        layout = replace(Layout.of(batch, 2), target=one.target)
        hidden, log_probability = torch.tensor([[False, False, True, True]]), 0.0
        for place in order:
            states, _ = Blocks.states(model, one, memory, layout, hidden)
            log_probability += model.logits(states, memory)[0, 2 + place].log_softmax(-1)[content[place]]
            hidden[0, 2 + place] = False
        total += log_probability.exp()
    torch.testing.assert_close(total, torch.tensor(1.0))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_padding_never_changes_the_states(make_model, make_batch, size):
    model, batch = make_model(), make_batch([5, 3, 6], [4, 6, 1])
    strategy, layout = strategy_of(Blocks, copy_ratio=1.3), Layout.of(batch, size, phase=1)
    hidden = layout.draw()
    states, _ = Blocks.states(model, batch, strategy.encode_source(model, batch), layout, hidden)
    for row in range(3):
        one = alone(batch, row)
        own = Layout.of(one, size, phase=1)
        slots = int(own.real.sum())
        assert torch.equal(own.target[0, :slots], layout.target[row, :slots])
        assert torch.equal(own.asked[0, :slots], layout.asked[row, :slots]) and layout.real[row].sum() == slots
        found, _ = Blocks.states(
            model, one, strategy.encode_source(model, one), own, hidden[row : row + 1, : own.target.size(1)]
        )
        torch.testing.assert_close(found[0, :slots], states[row, :slots], **CLOSE)


def test_the_rest_of_the_last_block_is_end_or_not_there(make_batch):
    batch = make_batch([3, 3], [4, 1])
    layout = Layout.of(batch, 3)
    assert layout.target[:, 3:].tolist() == [[END] * 3] * 2 and layout.target[1].tolist() == [END] * 6
    assert layout.asked.tolist() == layout.real.tolist() == [[True] * 6, [True] * 3 + [False] * 3]
    assert torch.equal(Layout.of(batch, 3, tail=False).asked[:, :4], batch.target_mask)


def test_what_is_given_is_never_hidden(make_model, make_batch):
    batch = make_batch([5, 3], [4, 6])
    given = torch.zeros_like(batch.given)
    given[:, :2] = True
    assert not Layout.of(replace(batch, given=given), 4).draw()[:, :2].any()
    model, whole = make_model(), replace(batch, given=batch.target_mask)
    loss = strategy_of(Blocks, label_smoothing=0.1).loss(model, whole)
    sum(loss.sums.values()).backward()
    assert loss.counts == {"cross_entropy": 0, "left_to_right": 0} and not any(one.any() for one in loss.sums.values())


def test_each_batch_of_the_training_draws_a_length_and_the_evaluation_none(make_batch):
    batch, seen = make_batch([5], [9]), set()
    strategy = strategy_of(Blocks, block=4, blocks=(1, 3)).train()
    for _ in range(40):
        layout = strategy._layout(batch)
        seen.add((layout.size, layout.phase))
    assert seen == {(1, 0), (3, 0), (3, 1), (3, 2)}
    assert {(strategy.eval()._layout(batch).size, strategy._layout(batch).phase) for _ in range(9)} == {(4, 0)}


@pytest.mark.slow
def test_eight_trees_are_learned_to_exact_match(make_model, make_parsing, overfit):
    task, examples = make_parsing("in_order")
    items = task.encode(examples)
    model = make_model(task.shape(), noise=0.0, width=48, feed_forward_width=96, encoder_layers=1, decoder_layers=1)
    auxiliaries = auxiliaries_of(task.shape(), width=48)
    strategy = strategy_of(Blocks, block=4, blocks=(1, 4), joint=1.0, noise=0.0, auxiliaries=auxiliaries)
    torch.manual_seed(3)
    overfit(model, strategy, collate(items, "parsing"), updates=250)
    for order in ("left", "any", "verified"):
        found = strategy.eval().generate(
            model,
            collate(items, "parsing"),
            options=SearchOptions(order=order),
            limit=torch.full((8,), 60),
            constraint=task.constraint(),
        )
        assert [task.read_hypothesis(best[0], example) for best, example in zip(found, examples, strict=True)] == [
            example.reference for example in examples
        ]
        passes = [best[0].details["passes"][-1] / (len(best[0].symbols) + 1) for best in found]
        assert sum(passes) / len(passes) < 0.6


@torch.inference_mode()
def test_a_text_is_judged_exactly_from_left_to_right_and_else_by_the_mean_of_the_bound(make_model, make_batch):
    model, batch = make_model(encoder="none"), make_batch([5, 3], [4, 6])
    given = torch.zeros_like(batch.given)
    given[0, :2] = True
    batch, limit = replace(batch, given=given), torch.tensor([9, 9])
    exact = strategy_of(LanguageModel).generate(model, batch, options=SearchOptions(), limit=limit)
    strategy = strategy_of(BlockLanguageModel, block=3).eval()
    for options in (SearchOptions(block=1), SearchOptions(order="verified")):
        assert strategy.generate(model, batch, options=options, limit=limit) == exact
    torch.manual_seed(1)
    found = strategy.generate(model, batch, options=SearchOptions(), limit=limit)
    torch.manual_seed(1)
    terms = strategy.bound(model, batch, SearchOptions()).mean(0)
    for row, (best,) in enumerate(found):
        assert best.symbols == exact[row][0].symbols and best.score == pytest.approx(-float(terms[row].sum()))
        assert sum(best.details["log_probs"]) == pytest.approx(best.score)
        assert len(best.details["log_probs"]) == len(exact[row][0].details["log_probs"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["backbone.positions=rotary"], "backbone.positions rotary does not go with strategy.kind blocks"),
        (["backbone.positions=alibi"], "backbone.positions alibi does not go with strategy.kind blocks"),
        (["backbone.decoder=rnn"], "backbone.decoder rnn does not go with strategy.kind blocks"),
        (["backbone.decoder_steps=2"], "backbone.decoder_steps 2 does not go with strategy.kind blocks"),
        (["search.beam_size=4"], "search.beam_size 4 has no effect with strategy.kind blocks"),
        (["search.sampling=true"], "search.sampling true has no effect with strategy.kind blocks"),
        (["search.compile=true"], "search.compile true has no effect with strategy.kind blocks"),
        (["search.drafter=ctc"], "search.drafter ctc has no effect with"),
        (["search.order=verified", "search.threshold=0.5"], "search.threshold 0.5 has no effect with search.order"),
        (
            ["backbone.encoder=none", "backbone.max_positions=1000", "strategy.copy_ratio=1"],
            "copy_ratio 1.0 has no effect",
        ),
        (["strategy.block=1", "search.order=left", "strategy.copy_ratio=1"], "strategy.copy_ratio 1.0 has no effect"),
        (["strategy.block=200"], "blocks of 200 symbols need 2 [*] 200 positions more than the longest output"),
        (["search.block=200"], "blocks of 200 symbols need"),
        (["search.order=verified", "search.block=33"], "verified drafts 33 blocks of 33 symbols.* set search.block=32"),
        (["search.order=verified", "strategy.block=64"], "verified drafts 64 blocks of 64 symbols"),
    ],
)
def test_what_blocks_cannot_do_is_refused_by_name(tmp_path, settings, said):
    file = tmp_path / "translation.yaml"
    file.write_text(
        "task: translation\nstrategy:\n  kind: blocks\nsearch:\n  max_length_factor: 2.0\n"
        "backbone:\n  max_positions: 700\n"
    )
    load(file, ["strategy.block=64", "search.order=verified", "search.block=32"])
    with pytest.raises(ConfigError, match=said):
        load(file, settings)


def test_a_text_needs_room_for_blocks_behind_it(tmp_path):
    file = tmp_path / "language_model.yaml"
    file.write_text("task: language_model\nstrategy:\n  kind: blocks\n  block: 8\nbackbone:\n  max_positions: 1037\n")
    load(file, [])
    with pytest.raises(ConfigError, match=r"blocks of 9 symbols need 2 \* 9 positions .* 1039 in all"):
        load(file, ["strategy.block=9"])


def test_labels_are_written_in_blocks_in_a_fixed_order_alone(tmp_path):
    file = tmp_path / "multilabel.yaml"
    file.write_text("task: multilabel\nstrategy:\n  kind: blocks\n")
    assert load(file, []).strategy_class is Blocks
    for setting in ("multilabel.head=pooled", "multilabel.order=random", "multilabel.order=free"):
        with pytest.raises(ConfigError, match=r"strategy\.kind blocks gives each label a place"):
            load(file, [setting])


def test_boxes_are_not_written_in_blocks(tmp_path):
    file = tmp_path / "detection.yaml"
    file.write_text("task: detection\nstrategy:\n  kind: blocks\n")
    with pytest.raises(ConfigError, match=r"strategy\.kind blocks writes text, structures, labels or continuations"):
        load(file, [])
    file.write_text("task: translation\nsearch:\n  order: any\n")
    with pytest.raises(ConfigError, match=r"search\.order any has no effect with strategy.kind autoregressive"):
        load(file, [])
