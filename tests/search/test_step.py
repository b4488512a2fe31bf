"""Search: greedy, beam and sampling against each other, against brute force, and under a constraint."""

import itertools
from dataclasses import replace

import pytest
import torch
from daily import daily
from making import auxiliaries_of, strategy_of

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN, Batch, Hypothesis
from seq2seq_suite.data.batching import collate
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive

NEVER_WRITTEN = [PAD, BEGIN, UNKNOWN]


def generate(
    model, batch: Batch, limit: list[int], constraint=None, auxiliaries=None, **options
) -> list[list[Hypothesis]]:
    return strategy_of(Autoregressive, auxiliaries=auxiliaries).generate(
        model, batch, options=SearchOptions().changed(**options), limit=torch.tensor(limit), constraint=constraint
    )


def log_probability(model, batch: Batch, row: int, symbols: tuple[int, ...], *, steps: int = 99) -> float:
    """log p(symbols END), without a cache, or of its first steps; an END that the limit forces costs its due too."""
    memory = model.prepare(model.encode(batch)).select(torch.tensor([row]))
    previous = torch.tensor([[BEGIN, *symbols]])
    hidden, _ = model.decode(model.embed(previous, memory), causal(previous.size(1)), memory)
    logits = model.output(hidden)[0].index_fill(1, torch.tensor(NEVER_WRITTEN), float("-inf"))
    chosen = logits.log_softmax(-1).gather(1, torch.tensor([*symbols, END]).unsqueeze(1)).squeeze(1)
    return float(chosen[:steps].sum().detach())


def score_of(log_probability: float, symbols: tuple[int, ...], length_penalty: float) -> float:
    return log_probability / ((5 + len(symbols) + 1) / 6) ** length_penalty


def test_the_length_penalty_is_its_formula():
    options = SearchOptions(length_penalty=0.7)
    assert float(options.normalise(torch.tensor(-3.0), 7)) == pytest.approx(-3.0 / 2.0**0.7)
    assert float(SearchOptions(length_penalty=0.0).normalise(torch.tensor(-3.0), 7)) == -3.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_greedy_takes_the_likeliest_symbol_each_time(make_model, make_batch, seed):
    model, batch = make_model(seed=seed), make_batch([5, 3], [2, 2], seed=seed)
    for row, (hypothesis,) in enumerate(generate(model, batch, [9, 9])):
        memory, symbols = model.prepare(model.encode(batch)).select(torch.tensor([row])), [BEGIN]
        while symbols[-1] != END and len(symbols) < 9:
            previous = torch.tensor([symbols])
            hidden, _ = model.decode(model.embed(previous, memory), causal(len(symbols)), memory)
            logits = model.output(hidden)[0, -1].index_fill(0, torch.tensor(NEVER_WRITTEN), float("-inf"))
            symbols.append(int(logits.argmax()))
        written = tuple(symbol for symbol in symbols[1:] if symbol != END)
        assert hypothesis.symbols == written
        assert hypothesis.complete == (symbols[-1] == END)
        expected = score_of(log_probability(model, batch, row, written), written, 0.6)
        assert hypothesis.score == pytest.approx(expected, rel=1e-4)


def test_a_beam_of_one_is_greedy(make_model, make_batch):
    model, batch = make_model(), make_batch([5, 3, 4], [2, 2, 2])
    assert generate(model, batch, [9] * 3, beam_size=1) == generate(model, batch, [9] * 3)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_wide_beam_finds_the_best_of_all_outputs_in_their_order(make_model, make_batch, length_penalty, seed):
    model, limits = make_model(Shape(TokenShape(11), TargetShape(7)), seed=seed, noise=0.4), [4, 3]
    batch = make_batch([5, 3], [2, 2], seed=seed)
    found = generate(model, batch, limits, beam_size=40, num_hypotheses=40, length_penalty=length_penalty)
    for row, limit in enumerate(limits):
        every = [symbols for length in range(limit) for symbols in itertools.product((4, 5, 6), repeat=length)]
        scores = {
            symbols: score_of(log_probability(model, batch, row, symbols), symbols, length_penalty) for symbols in every
        }
        ranked = sorted(every, key=lambda symbols: -scores[symbols])
        assert [hypothesis.symbols for hypothesis in found[row]] == ranked
        for hypothesis in found[row]:
            assert hypothesis.score == pytest.approx(scores[hypothesis.symbols], rel=1e-4, abs=1e-5)
            assert hypothesis.complete == (len(hypothesis.symbols) < limit - 1)


@pytest.mark.parametrize("num_hypotheses", [1, 2, 4])
def test_asking_for_fewer_hypotheses_gives_the_first_of_more(make_model, make_batch, num_hypotheses):
    batch = make_batch([5, 3, 4, 6], [2] * 4)
    for seed in range(5):
        model = make_model(seed=seed)
        every = generate(model, batch, [14] * 4, beam_size=4, num_hypotheses=4)
        fewer = generate(model, batch, [14] * 4, beam_size=4, num_hypotheses=num_hypotheses)
        assert [[h.symbols for h in row] for row in fewer] == [
            [h.symbols for h in row][:num_hypotheses] for row in every
        ]


def test_hypotheses_are_sorted_and_distinct(make_model, make_batch):
    batch = make_batch([5, 3, 4], [2] * 3)
    for row in generate(make_model(), batch, [12, 7, 2], beam_size=5, num_hypotheses=5):
        assert len(row) == 5
        assert [h.score for h in row] == sorted((h.score for h in row), reverse=True)
        assert len({h.symbols for h in row}) == 5


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_a_batch_of_one_is_the_same_item_in_a_padded_batch(make_model, make_batch, beam_size, positions):
    model, batch = make_model(positions=positions), make_batch([2, 9, 5, 7, 3], [2] * 5)
    limits = [12, 3, 9, 15, 1]
    options = {"beam_size": beam_size, "num_hypotheses": beam_size}
    together = generate(model, batch, limits, **options)
    for row, limit in enumerate(limits):
        length = int(batch.source_mask[row].sum())
        alone = replace(
            batch, source=batch.source[row : row + 1, :length], source_mask=batch.source_mask[row : row + 1, :length]
        )
        (expected,) = generate(model, alone, [limit], **options)
        assert [(h.symbols, h.complete) for h in together[row]] == [(h.symbols, h.complete) for h in expected]
        assert [h.score for h in together[row]] == pytest.approx([h.score for h in expected], rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"beam_size": 3, "num_hypotheses": 3}, {"sampling": True}])
def test_the_limit_forces_an_end_and_is_owned_up_to(make_model, make_batch, options):
    model, batch = make_model(), make_batch([5, 3], [2, 2])
    with torch.no_grad():
        model.output.bias[END] = -1e4  # a model that never ends by itself
    for row, limit in zip(generate(model, batch, [6, 1], **options), (6, 1), strict=True):
        for hypothesis in row:
            assert len(hypothesis.symbols) == limit - 1 and END not in hypothesis.symbols
            assert not hypothesis.complete


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}])
def test_sampling_from_next_to_nothing_is_greedy(make_model, make_batch, options):
    model, batch = make_model(), make_batch([5, 3, 4], [2] * 3)
    sampled = generate(model, batch, [9] * 3, sampling=True, **options)
    greedy = generate(model, batch, [9] * 3)
    assert [row[0].symbols for row in sampled] == [row[0].symbols for row in greedy]
    assert [row[0].score for row in sampled] == pytest.approx([row[0].score for row in greedy], rel=1e-4)


def test_samples_are_drawn_whatever_the_beam(make_model, make_batch):
    model, batch, found = make_model(), make_batch([5, 3], [2, 2]), []
    for beam_size in (1, 4):
        torch.manual_seed(5)
        found.append(generate(model, batch, [9, 9], sampling=True, beam_size=beam_size))
    assert found[0] == found[1] != generate(model, batch, [9, 9], beam_size=4)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_are_as_frequent_as_they_are_likely(make_model, make_batch, temperature):
    model, one, draws = make_model(), make_batch([5], [2]), 4000
    many = replace(one, source=one.source.expand(draws, -1), source_mask=one.source_mask.expand(draws, -1))
    torch.manual_seed(3)
    drawn = [row[0].symbols for row in generate(model, many, [2] * draws, sampling=True, temperature=temperature)]
    outcomes = [(), *((symbol,) for symbol in range(4, 9))]
    logits = torch.tensor([log_probability(model, one, 0, symbols, steps=1) for symbols in outcomes]) / temperature
    for symbols, likely in zip(outcomes, logits.softmax(0).tolist(), strict=True):
        assert drawn.count(symbols) / draws == pytest.approx(likely, abs=4 * (likely * (1 - likely) / draws) ** 0.5)


def test_several_samples_are_sorted_and_follow_the_seed(make_model, make_batch):
    model, batch = make_model(), make_batch([5, 3], [2, 2])

    def draw() -> list[list[Hypothesis]]:
        torch.manual_seed(5)
        return generate(model, batch, [8, 8], sampling=True, num_hypotheses=6)

    first = draw()
    assert first == draw()
    for row in first:
        assert len(row) == 6 and len({h.symbols for h in row}) > 1
        assert [h.score for h in row] == sorted((h.score for h in row), reverse=True)


@pytest.mark.parametrize("options", [{}, {"beam_size": 4, "num_hypotheses": 4}, {"sampling": True, "temperature": 3.0}])
@pytest.mark.parametrize("linearisation", ["in_order", "brackets"])
@pytest.mark.parametrize("guide", daily([True, False], True))
def test_under_a_constraint_every_output_is_well_formed(make_model, make_parsing, options, linearisation, guide):
    task, examples = make_parsing(linearisation, guide=guide)
    batch = collate(task.encode(examples), "parsing")
    limits = [3 * len(example.source) + 4 for example in examples]
    for seed in range(3):
        model = make_model(task.shape(), seed=seed, noise=0.5)
        found = generate(model, batch, limits, task.constraint(), auxiliaries_of(task.shape()), **options)
        for row, example, limit in zip(found, examples, limits, strict=True):
            assert row
            for hypothesis in row:
                assert len(hypothesis.symbols) < limit
                tree = task.read_hypothesis(hypothesis, example)
                assert tree is not None and tuple(tree.words()) == example.source
                assert len(hypothesis.details["tags"]) == len(example.source) + 2


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_guided_batch_of_one_is_the_same_item_in_a_padded_batch(make_model, make_parsing, beam_size):
    task, examples = make_parsing("in_order")
    items, model = task.encode(examples), make_model(task.shape())
    limits = [4 * len(example.source) + 4 for example in examples]
    torch.manual_seed(1)
    options = {"constraint": task.constraint(), "beam_size": beam_size, "auxiliaries": auxiliaries_of(task.shape())}
    together = generate(model, collate(items, "parsing"), limits, **options)
    for row, limit in enumerate(limits):
        (alone,) = generate(model, collate(items[row : row + 1], "parsing"), [limit], **options)
        assert together[row][0].symbols == alone[0].symbols
        assert together[row][0].details == alone[0].details
        assert together[row][0].score == pytest.approx(alone[0].score, abs=1e-4)


@pytest.mark.parametrize(
    ("linearisation", "options"),
    daily(
        itertools.product(["in_order", "brackets"], [{}, {"beam_size": 4}, {"sampling": True, "temperature": 5.0}]),
        ("brackets", {}),
        ("in_order", {"beam_size": 4}),
        ("brackets", {"sampling": True, "temperature": 5.0}),
    ),
    ids=str,
)
def test_a_guided_model_may_break_the_rules_where_the_search_lets_it(make_model, make_parsing, options, linearisation):
    task, examples = make_parsing(linearisation)
    batch, malformed = collate(task.encode(examples), "parsing"), 0
    for seed in range(3):
        model = make_model(task.shape(), seed=seed, noise=0.5)
        found = strategy_of(Autoregressive).generate(
            model,
            batch,
            options=SearchOptions(constraint=False, **options),
            limit=torch.full((len(examples),), 100),
            constraint=task.constraint(),
        )
        malformed += sum(
            task.read_hypothesis(row[0], example) is None for row, example in zip(found, examples, strict=True)
        )
    assert malformed
