"""Greedy search that checks drafts writes what greedy search writes, whatever was drafted."""

import random
from dataclasses import replace
from itertools import product

import pytest
import torch
from daily import daily
from making import SHAPE, auxiliaries_of, strategy_of, with_ctc

from seq2seq_suite import kernels
from seq2seq_suite.common.types import END, Hypothesis
from seq2seq_suite.data.batching import collate
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.ensemble import Ensemble
from seq2seq_suite.search.speculative import with_drafts
from seq2seq_suite.strategies.assisted import Assisted

KINDS = {
    "pre": {},
    "post": {"norm_placement": "post"},
    "rotary": {"positions": "rotary"},
    "repeated": {"decoder_steps": 2},
    "decoder alone": {"encoder": "none"},
}
TEXT = ({}, {"min_length": 4}, {"no_repeat_ngram": 2}, {"repetition_penalty": 3.0}, {"begin": [[5, 4], [6, 0], [0, 0]]})


def spoiled(symbols: list[int], draw: random.Random, size: int) -> list[int]:
    """With a few symbols changed, left out and added."""
    found = []
    for symbol in symbols:
        found += draw.choice(([symbol], [symbol], [symbol], [], [draw.randrange(4, size)], [symbol, symbol]))
    return found


def hypotheses(drafts):
    return [[Hypothesis(tuple(draft), 0.0)] if draft is not None else [] for draft in drafts]


def same(model, strategy, batch, limits, size, *, constraint=None, **options):
    """How often the decoder was asked with drafts from good to absurd, all outputs being those of greedy search."""
    asked = {"options": SearchOptions(**options), "limit": torch.tensor(limits), "constraint": constraint}
    expected = strategy.generate(model, batch, **asked)
    right, draw = [list(row[0].symbols) for row in expected], random.Random(1)
    passes = {}
    for name, drafts in (
        ("right", right),
        ("none", [None] * len(right)),
        ("long", [row * 3 for row in right]),
        ("spoiled", [spoiled(row, draw, size) for row in right]),
        ("END", [[END, 5, END]] * len(right)),
        ("absurd", [[draw.randrange(4, size) for _ in range(30)] for _ in right]),
    ):
        calls, decode = [], model.decode
        model.decode = lambda *given, _calls=calls, _decode=decode, **named: (
            _calls.append(1) or _decode(*given, **named)
        )
        found = strategy.generate(model, with_drafts(batch, hypotheses(drafts)), **asked)
        del model.decode
        assert [row[0].symbols for row in found] == [row[0].symbols for row in expected], name
        for (ours,), (theirs,) in zip(found, expected, strict=True):
            assert ours.complete == theirs.complete and ours.score == pytest.approx(theirs.score, rel=1e-3, abs=1e-4)
            assert {**ours.details, "passes": ()} == {**theirs.details, "passes": ()}
        passes[name] = len(calls)
    lengths = [min(len(row) + 1, limit) for row, limit in zip(right, limits, strict=True)]
    assert passes["right"] == passes["long"] == len(right) <= passes["spoiled"] <= passes["none"] == sum(lengths)


@pytest.mark.parametrize(
    ("kind", "kernel"), daily(product(KINDS, kernels.KINDS), ("pre", "plain"), *product(KINDS, ["fast"]))
)
def test_drafts_of_any_worth_leave_the_output_as_it_is(make_model, make_batch, kind, kernel):
    for seed in range(4):
        model = make_model(noise=0.5, seed=seed, kernel=kernel, **KINDS[kind])
        strategy = strategy_of(Assisted, kernel=kernel)
        same(model, strategy, make_batch([5, 3, 4], [2, 2, 2], seed=seed), [9, 12, 7], 9)


@pytest.mark.parametrize("options", TEXT)
def test_drafts_leave_outputs_alone_that_what_is_written_restrains(make_model, make_batch, options):
    for seed in range(3):
        model, batch = make_model(noise=0.5, seed=seed), make_batch([5, 3, 4], [2, 2, 2], seed=seed)
        if "begin" in options:
            batch = replace(batch, auxiliary={"begin": torch.tensor(options["begin"])})
        others = {name: value for name, value in options.items() if name != "begin"}
        same(model, strategy_of(Assisted), batch, [9, 12, 7], 9, **others)


@pytest.mark.parametrize(
    ("linearisation", "guide"),
    daily(product(["in_order", "brackets"], [True, False]), ("brackets", True), ("in_order", False)),
)
def test_drafts_leave_guided_trees_as_they_are(make_model, make_parsing, linearisation, guide):
    task, examples = make_parsing(linearisation, guide=guide)
    batch, shape = collate(task.encode(examples), "parsing"), task.shape()
    limits = [3 * len(example.source) + 4 for example in examples]
    for seed in range(2):
        strategy = strategy_of(Assisted, target=shape.target, auxiliaries=auxiliaries_of(shape))
        same(
            make_model(shape, seed=seed, noise=0.5),
            strategy,
            batch,
            limits,
            shape.target.symbols,
            constraint=task.constraint(),
        )


def test_drafts_leave_the_output_of_several_models_as_it_is(make_model, make_batch):
    models = Ensemble([make_model(noise=0.5, seed=seed) for seed in (1, 2)])
    same(models, strategy_of(Assisted), make_batch([5, 3, 4], [2, 2, 2]), [9, 12, 7], 9)


def test_the_encoders_own_ctc_head_drafts(make_model, make_batch):
    strategy = with_ctc()
    for seed in range(5):
        model, batch = make_model(SHAPE, noise=0.5, seed=seed), make_batch([5, 3, 4], [2, 2, 2], seed=seed)
        plain, drafted = (
            strategy.generate(model, batch, options=SearchOptions(drafter=drafter), limit=torch.tensor([9, 12, 7]))
            for drafter in ("", "ctc")
        )
        assert [row[0].symbols for row in plain] == [row[0].symbols for row in drafted]
