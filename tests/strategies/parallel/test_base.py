"""Parallel decoders: losses and alignments against enumeration, invariances, and eight examples by heart."""

import itertools
from dataclasses import replace
from functools import partial

import pytest
import torch
from daily import daily
from making import parallel_kinds
from torch.nn import functional

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import BLANK, END, UNKNOWN, Batch, States
from seq2seq_suite.data.batching import collate
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies import options_of
from seq2seq_suite.strategies.parallel.base import uniform_copy
from seq2seq_suite.strategies.parallel.ctc import path_loss
from seq2seq_suite.strategies.parallel.dag import dag_beam, dag_greedy
from seq2seq_suite.tasks.multilabel.label_automaton import LabelAutomaton

SHAPE = Shape(TokenShape(11), TargetShape(9))
GLANCING = (0.5, 0.3)
STRATEGIES = parallel_kinds() | {
    f"{kind}_bigrams": partial(make, agreement=(0.5, 1.0))
    for kind, make in parallel_kinds().items()
    if "agreement" in options_of(kind).model_fields
}


def no_dropout_batch(make_batch) -> Batch:
    return make_batch([4, 6, 5, 3], [5, 7, 3, 4])


def test_the_source_is_copied_evenly():
    values = torch.arange(5.0).view(1, 5, 1).repeat(2, 1, 1)
    mask = torch.arange(5) < torch.tensor([[5], [3]])
    found, real = uniform_copy(States(values, mask), torch.tensor([9, 2, 1, 7]))
    assert found[0, :, 0].tolist() == [0, 0, 1, 2, 2, 2, 3, 4, 4]
    assert found[1, :2, 0].tolist() == [0, 4] and found[2, 0, 0] == 0 and found[3, :7, 0].tolist()[-1] == 2
    assert real.sum(1).tolist() == [9, 2, 1, 7]


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_of_paths_needs_no_other_symbols_than_those_on_them(seed):
    torch.manual_seed(seed)
    logits = torch.randn(4, 7, 9, requires_grad=True)
    target = torch.tensor([[4, 4, 7], [5, 8, 0], [0, 0, 0], [6, 6, 6]])
    positions, lengths = torch.tensor([7, 5, 4, 4]), torch.tensor([3, 2, 0, 3])  # the last one needs five and has four
    scores = logits.log_softmax(-1)
    expected = functional.ctc_loss(
        scores.transpose(0, 1), target, positions, lengths, blank=BLANK, reduction="sum", zero_infinity=True
    )
    (wanted,) = torch.autograd.grad(expected, logits, retain_graph=True)
    chosen = scores.gather(2, functional.pad(target, (1, 0)).unsqueeze(1).expand(-1, 7, -1))
    found = path_loss(chosen, positions, target, lengths)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, logits)[0], wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("kernel", [0, 3])
def test_a_loss_is_the_sum_over_its_rows(make_model, make_batch, name, kernel):
    model = make_model(SHAPE, decoder_kernel=kernel)
    strategy, batch = STRATEGIES[name](glancing=GLANCING).eval(), no_dropout_batch(make_batch)
    whole = strategy.loss(model, batch)
    assert whole.counts == strategy.counts(batch) and set(whole.weights) <= set(whole.sums)
    parts = []
    for row in range(4):
        source, target = int(batch.source_mask[row].sum()), int(batch.target_mask[row].sum())
        one = Batch(
            batch.source[row : row + 1, :source],
            batch.source_mask[row : row + 1, :source],
            batch.target[row : row + 1, :target],
            batch.target_mask[row : row + 1, :target],
            batch.given[row : row + 1, :target],
            "test",
        )
        parts.append(strategy.loss(model, one))
    for key in whole.sums:
        torch.testing.assert_close(whole.sums[key], sum(part.sums[key] for part in parts), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_loss_in_bfloat16_is_near_that_in_float32_and_so_is_its_slope(make_model, make_batch, name):
    model, strategy, batch = make_model(SHAPE), STRATEGIES[name]().eval(), no_dropout_batch(make_batch)
    found = []
    for low in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss = strategy.loss(model, batch)
        assert all(value.dtype == torch.float32 for value in loss.sums.values())
        slopes = torch.autograd.grad(
            sum(weight * loss.sums[key] for key, weight in loss.weights.items()),
            [*model.parameters(), *strategy.parameters()],
            allow_unused=True,
            materialize_grads=True,
        )
        found.append((loss.sums, torch.cat([slope.flatten() for slope in slopes])))
    (exact, slope), (rounded, other) = found
    for key, value in exact.items():
        assert float(rounded[key].detach()) == pytest.approx(float(value.detach()), rel=0.02)
    assert any(not torch.equal(rounded[key], value) for key, value in exact.items())
    assert functional.cosine_similarity(slope, other, dim=0) > 0.995


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(("beam_size", "kernel"), [(1, 0), (3, 0), (1, 5)])
def test_one_item_is_written_as_in_a_padded_batch(make_model, make_batch, name, beam_size, kernel):
    model = make_model(SHAPE, decoder_kernel=kernel)
    strategy, batch = STRATEGIES[name]().eval(), no_dropout_batch(make_batch)
    options, limit = SearchOptions(iterations=3, beam_size=beam_size), torch.full((4,), 20)
    whole = strategy.generate(model, batch, options=options, limit=limit)
    for row in range(4):
        source = int(batch.source_mask[row].sum())
        one = replace(
            batch, source=batch.source[row : row + 1, :source], source_mask=batch.source_mask[row : row + 1, :source]
        )
        alone = strategy.generate(model, one, options=options, limit=limit[:1])[0][0]
        assert alone.symbols == whole[row][0].symbols
        assert alone.score == pytest.approx(whole[row][0].score, abs=1e-4)


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_output_is_longer_than_the_limit_or_holds_specials(make_model, make_batch, name):
    model, strategy, batch = make_model(SHAPE, noise=1.0), STRATEGIES[name]().eval(), no_dropout_batch(make_batch)
    limit = torch.tensor([2, 3, 4, 5])
    for beam_size in (1, 3):
        options = SearchOptions(beam_size=beam_size, num_hypotheses=beam_size)
        for found, most in zip(
            strategy.generate(model, batch, options=options, limit=limit), limit.tolist(), strict=True
        ):
            assert found and all(len(one.symbols) < most for one in found)
            assert all(symbol >= 4 for one in found for symbol in one.symbols)


def graph(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    vertices, symbols = 5, 6
    backward = ~torch.ones(vertices, vertices).triu(1).bool()
    links = torch.randn(vertices, vertices).masked_fill(backward, -1e30).log_softmax(-1).masked_fill(backward, -1e30)
    emissions = torch.randn(vertices, symbols)
    emissions[:-1, END], emissions[-1] = -1e30, -1e30
    emissions[-1, END] = 0.0
    return emissions.log_softmax(-1), links


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_finds_the_likeliest_outputs_of_a_graph(seed):
    emissions, links = graph(seed)
    totals: dict[tuple[int, ...], float] = {}
    for length in range(2, 6):
        for inner in itertools.combinations(range(1, 4), length - 2):
            path = (0, *inner)
            through = sum(float(links[one, other]) for one, other in itertools.pairwise((*path, 4)))
            for written in itertools.product([symbol for symbol in range(6) if symbol != END], repeat=len(path)):
                score = through + sum(
                    float(emissions[vertex, symbol]) for vertex, symbol in zip(path, written, strict=True)
                )
                totals[written] = torch.tensor([totals.get(written, -1e30), score]).double().logsumexp(0).item()
    options = SearchOptions(beam_size=700, num_hypotheses=3, length_penalty=0.0)
    pair = emissions[[0, 4, 4, 4, 4]], torch.full_like(links, -1e30)  # two vertices and three that are none
    pair[1][0, 1] = 0.0
    rows = [torch.stack((part, part, other)) for part, other in zip((emissions, links), pair, strict=True)]
    padded = functional.pad(rows[0], (0, 0, 0, 2)), functional.pad(rows[1], (0, 2, 0, 2), value=-1e30)
    found, cut, one_symbol = dag_beam(*padded, torch.tensor([5, 5, 2]), torch.tensor([20, 3, 20]), options=options)
    assert one_symbol[0].symbols == (int(emissions[0].argmax()),) and len(one_symbol) == 3
    assert one_symbol[0].score == pytest.approx(float(emissions[0].max()), abs=1e-4)
    expected = sorted(totals.items(), key=lambda item: -item[1])[:3]
    assert [(one.symbols, pytest.approx(one.score, abs=1e-4)) for one in found] == expected
    short = max((key for key in totals if len(key) < 3), key=totals.get)
    assert (cut[0].symbols, cut[0].score) == (short, pytest.approx(totals[short], abs=1e-4))


def test_a_walk_looks_ahead_to_the_symbols():
    emissions = torch.full((4, 6), -9.0)
    emissions[0, 4], emissions[1, 4], emissions[2, 5], emissions[3, END] = 0.0, -5.0, 0.0, 0.0
    links = torch.full((4, 4), -1e30)
    links[0, 1], links[0, 2], links[1, 3], links[2, 3] = -0.5, -1.0, 0.0, 0.0
    given = (emissions.unsqueeze(0), links.unsqueeze(0), torch.tensor([4]), torch.tensor([9]))
    ahead = dag_greedy(*given)[0][0]
    assert ahead.symbols == (4, 5) and ahead.score == pytest.approx(-1.0)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_target_with_an_unknown_symbol_is_learned_like_others(make_model, make_batch, name):
    model, strategy, batch = make_model(SHAPE), STRATEGIES[name]().eval(), no_dropout_batch(make_batch)
    target = batch.target.clone()
    target[0, 1] = UNKNOWN
    loss = strategy.loss(model, replace(batch, target=target))
    assert all(loss.sums[key].item() / loss.counts[key] < 50 for key in loss.sums)


def test_more_words_than_a_canvas_has_room_for_are_a_tree_all_the_same(make_model, make_parsing):
    task, _ = make_parsing("tetra_tags", guide=False)
    words = tuple(f"w{place}" for place in range(40))
    examples = [Example(words), Example(words[:3])]
    batch = collate(task.encode(examples), "parsing")
    found = (
        STRATEGIES["cut_at_end"]()
        .eval()
        .generate(
            make_model(task.shape(), noise=1.0),
            batch,
            options=SearchOptions(),
            limit=torch.full((2,), 300),
            constraint=task.constraint(),
        )
    )
    assert [
        tuple(task.read_hypothesis(one, example).words()) for (one,), example in zip(found, examples, strict=True)
    ] == [words, words[:3]]


def test_a_guided_decoder_reads_exactly_the_words_of_each_tag(make_model, make_parsing):
    task, examples = make_parsing("tetra_tags")
    model, strategy = make_model(task.shape()), STRATEGIES["length_head"](length_ratio=2.0).eval()
    # Without trees, as in prediction.
    batch = collate(task.encode([Example(example.source) for example in examples]), "parsing")
    memory = model.prepare(model.encode(batch))
    lengths = task.constraint().lengths(batch)
    given, mask = strategy.decoder_inputs(model, memory, batch, lengths.repeat_interleave(2))
    first, second = model.guide.project.weight.chunk(2)
    for row, example in enumerate(examples):
        words = memory.states.values[row, 1:]
        for place in range(len(example.source)):
            own = words[place] @ first.T
            expected = {2 * place: own, 2 * place + 1: own + words[place + 1] @ second.T}
            for tag in expected if place + 1 < len(example.source) else [2 * place]:
                assert mask[2 * row : 2 * row + 2, tag].all()
                torch.testing.assert_close(
                    given[2 * row : 2 * row + 2, tag],
                    model.guide.norm(expected[tag]).expand(2, -1),
                    rtol=1e-4,
                    atol=1e-5,
                )


@pytest.mark.parametrize(
    ("name", "linearisation", "guide"),
    daily(
        [
            (name, linearisation, guide)
            for name in ("length_head", "mask_predict", "cut_at_end")
            for linearisation in ("in_order", "brackets", "tetra_tags")
            for guide in (False, True)[: 1 + (linearisation == "tetra_tags")]
        ],
        ("length_head", "brackets", False),
        ("mask_predict", "tetra_tags", True),
        ("cut_at_end", "in_order", False),
    ),
)
def test_random_models_write_one_tree_over_exactly_the_words(make_model, make_parsing, name, linearisation, guide):
    task, examples = make_parsing(linearisation, guide=guide)
    shape, batch = task.shape(), collate(task.encode(examples), "parsing")
    strategy = STRATEGIES[name](**({} if name == "cut_at_end" else {"length_ratio": 2.5})).eval()
    for seed in range(20):
        model = make_model(shape, seed=seed, noise=1.0)
        found = strategy.generate(
            model,
            batch,
            options=SearchOptions(beam_size=2, iterations=2),
            limit=batch.source_mask.sum(1) * 6 + 20,
            constraint=task.constraint(),
        )
        for hypotheses, example in zip(found, examples, strict=True):
            tree = task.read_hypothesis(hypotheses[0], example)
            assert tree is not None and tuple(tree.words()) == example.source


@pytest.mark.parametrize("name", ["length_head", "mask_predict", "cut_at_end"])
def test_random_models_write_no_label_twice_and_at_least_one(make_model, make_batch, name):
    strategy, batch = STRATEGIES[name]().eval(), no_dropout_batch(make_batch)
    for seed in range(20):
        found = strategy.generate(
            make_model(SHAPE, seed=seed, noise=1.0),
            batch,
            options=SearchOptions(),
            limit=torch.full((4,), 9),
            constraint=LabelAutomaton(9),
        )
        assert all(one.symbols and len(set(one.symbols)) == len(one.symbols) for (one,) in found)


def learn_by_heart(name, batch, make_model, overfit, updates: int) -> None:
    model, strategy = (
        make_model(SHAPE, noise=0.0, width=32, num_heads=4, feed_forward_width=64),
        STRATEGIES[name](glancing=GLANCING, width=32, noise=0.0),
    )
    torch.manual_seed(1)
    overfit(model, strategy, batch, updates=updates)
    limit = torch.full((batch.target.size(0),), 20)
    found = strategy.generate(model, batch, options=SearchOptions(beam_size=1), limit=limit)
    expected = [tuple(row[mask][:-1].tolist()) for row, mask in zip(batch.target, batch.target_mask, strict=True)]
    assert [hypotheses[0].symbols for hypotheses in found] == expected


@pytest.mark.parametrize(
    "name", daily(["length_head", "mask_predict", "cut_at_end", "ctc", "dag"], "mask_predict", "ctc")
)
def test_three_examples_are_learned_by_heart(make_model, make_batch, overfit, name):
    learn_by_heart(name, make_batch([4, 6, 5], [5, 7, 3]), make_model, overfit, updates=90)


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_eight_examples_are_learned_by_heart(make_model, make_batch, overfit, name):
    batch = make_batch([4, 6, 5, 3, 6, 5, 4, 6], [5, 7, 3, 4, 2, 6, 5, 7])
    learn_by_heart(name, batch, make_model, overfit, updates=180)
