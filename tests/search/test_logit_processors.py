"""Logit processors that read the output so far: least lengths, n-grams, penalties, forced beginnings."""

from dataclasses import replace
from math import isfinite

import pytest
import torch
from making import strategy_of

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import END, NEVER, Batch
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.logit_processors import History, penalise_repetition
from seq2seq_suite.strategies.autoregressive import Autoregressive

SHAPE = Shape(TokenShape(11), TargetShape(9))


def generate(model, batch: Batch, *, begin=None, kernel="fast", limit=12, **options):
    if begin is not None:
        batch = replace(batch, auxiliary={"begin": torch.tensor(begin)})
    strategy = strategy_of(Autoregressive, kernel=kernel)
    return strategy.generate(
        model, batch, options=SearchOptions().changed(**options), limit=torch.full((batch.source.size(0),), limit)
    )


def ngrams(symbols, size):
    return [tuple(symbols[place : place + size]) for place in range(len(symbols) - size + 1)]


@pytest.fixture
def case(make_model, make_batch):
    model = make_model(SHAPE, seed=3, noise=0.5)
    with torch.no_grad():
        model.output.bias[END] += 5.0  # so that outputs are short
    return model, replace(make_batch([5, 3, 4], [2, 2, 2], seed=3), indices=(0, 1, 2))


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("least", [3, 8])
def test_no_output_is_shorter_than_the_least_length(case, beam_size, least):
    found = generate(*case, beam_size=beam_size, min_length=least)
    assert all(len(one.symbols) >= least for hypotheses in found for one in hypotheses)
    assert min(len(one.symbols) for one, *_ in generate(*case, beam_size=beam_size)) < 3


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_n_gram_comes_twice(case, beam_size, size):
    free = generate(*case, beam_size=beam_size, min_length=9, limit=10)
    assert any(len(set(found)) < len(found) for one, *_ in free for found in [ngrams(one.symbols, size)])
    for one, *_ in generate(
        *case, beam_size=beam_size, min_length=0 if size == 1 else 9, limit=10, no_repeat_ngram=size
    ):
        found = ngrams(one.symbols, size)
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("kernel", ["fast", "plain"])
@pytest.mark.parametrize("options", [{}, {"beam_size": 4}, {"sampling": True}])
def test_an_output_ends_where_no_symbol_is_left(case, kernel, options):
    for one, *_ in generate(*case, no_repeat_ngram=1, min_length=9, limit=12, kernel=kernel, **options):
        assert sorted(one.symbols) == [4, 5, 6, 7, 8] and isfinite(one.score)


@pytest.mark.parametrize("kernel", ["fast", "plain"])
@pytest.mark.parametrize("options", [{}, {"beam_size": 4}, {"sampling": True}])
def test_no_output_has_what_is_suppressed_nor_begins_with_what_may_not_be_first(case, kernel, options):
    free = [one.symbols for one, *_ in generate(*case, min_length=6)]
    often, first = free[0][1], free[0][0] if free[0][0] != free[0][1] else free[0][2]
    begin = [[often, first], [often, 0], [0, 0]]
    torch.manual_seed(5)
    found = generate(
        *case, begin=begin, suppress=(often,), begin_suppress=(first, END), kernel=kernel, limit=9, **options
    )
    for (one, *_), start in zip(found, begin, strict=True):
        given = tuple(symbol for symbol in start if symbol)
        behind = one.symbols[len(given) :]
        assert one.symbols[: len(given)] == given and often not in behind and behind and behind[0] != first


def test_the_penalty_is_its_formula():
    logits = torch.tensor([[0.0, 0.0, 1.0, 0.0, 3.0, 2.0, -1.0, -2.0]])
    found = penalise_repetition(logits, torch.tensor([[4, 6, 4]]), 1.5)
    assert found.tolist() == [[0.0, 0.0, 1.0, 0.0, 2.0, 2.0, -1.5, -2.0]]


def test_a_penalty_makes_outputs_repeat_less(case):
    def repeated(found):
        return sum(len(one.symbols) - len(set(one.symbols)) for one, *_ in found)

    assert repeated(generate(*case, repetition_penalty=5.0, min_length=6)) < repeated(generate(*case, min_length=6))


@pytest.mark.parametrize("beam_size", [1, 4])
def test_an_output_begins_as_it_must_and_costs_what_the_model_says(case, beam_size):
    model, batch = case
    begin = [[7, 8, 7], [5, 0, 0], [0, 0, 0]]
    found = generate(model, batch, begin=begin, beam_size=beam_size)
    assert found[0][0].symbols[:3] == (7, 8, 7) and found[1][0].symbols[0] == 5
    assert found[2][0].symbols == generate(model, batch.select([2]), beam_size=beam_size)[0][0].symbols
    forced = found[0][0]
    memory = model.prepare(model.encode(batch.select([0])))
    previous = torch.tensor([[1, *forced.symbols]])
    hidden, _ = model.decode(model.embed(previous, memory), causal(previous.size(1)), memory)
    logits = model.logits(hidden, memory)[0].index_fill(1, torch.tensor([0, 1, 3]), NEVER)
    total = logits.log_softmax(-1).gather(1, torch.tensor([*forced.symbols, END]).unsqueeze(1)).sum()
    assert forced.score == pytest.approx(total.item() / ((6 + len(forced.symbols)) / 6) ** 0.6, rel=1e-4)


def test_a_beginning_may_break_what_comes_after_it_may_not(case):
    found = generate(*case, begin=[[7, 7, 7, 7]] * 3, no_repeat_ngram=1)
    for one, *_ in found:
        assert one.symbols[:4] == (7, 7, 7, 7) and 7 not in one.symbols[4:]
        assert len(set(one.symbols[4:])) == len(one.symbols[4:])


@pytest.mark.parametrize(
    "options",
    [
        {"min_length": 5},
        {"no_repeat_ngram": 2, "min_length": 8},
        {"repetition_penalty": 1.7},
        {"suppress": (5, 8), "begin_suppress": (2, 6)},
        {"begin": [[7, 8, 7], [5, 0, 0], [0, 0, 0]], "no_repeat_ngram": 2},
    ],
)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_the_fast_search_finds_what_the_loops_find(case, options, beam_size):
    fast, plain = (generate(*case, kernel=kernel, beam_size=beam_size, **options) for kernel in ("fast", "plain"))
    assert [[one.symbols for one in found] for found in fast] == [[one.symbols for one in found] for found in plain]
    assert [one.score for found in fast for one in found] == pytest.approx(
        [one.score for found in plain for one in found], rel=1e-4
    )


@pytest.mark.parametrize("beam_size", [1, 4])
def test_neighbours_in_a_batch_change_nothing(case, beam_size):
    model, batch = case
    options = {"beam_size": beam_size, "min_length": 4, "no_repeat_ngram": 2, "repetition_penalty": 1.3}
    together = generate(model, batch, **options)
    for row, found in enumerate(together):
        (alone,) = generate(model, batch.select([row]), **options)
        assert [one.symbols for one in alone] == [one.symbols for one in found]


def test_where_nothing_is_asked_for_nothing_is_kept(case):
    _, batch = case
    assert History.if_needed(batch, SearchOptions()) is None
    assert History.if_needed(batch, SearchOptions(min_length=1)).symbols.shape == (3, 0)
