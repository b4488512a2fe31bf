"""Nats per symbol: exact from left to right, and of blocks a bound that contains it in its interval."""

import math

import pytest
import torch
from making import auxiliaries_of, strategy_of
from plain import alone
from torch.nn import functional

from seq2seq_suite.common.types import BEGIN
from seq2seq_suite.data.batching import collate
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.prediction.likelihood import likelihood
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.blocks import Blocks
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.strategies.parallel.length_head import LengthHead


def predictor(model, strategy, task, **search) -> Predictor:
    return Predictor(task, Learner(model, strategy), SearchOptions(batch_sentences=3, **search), torch.device("cpu"))


def test_it_is_the_mean_over_symbols_of_loops_over_sentences(make_model, make_parsing):
    task, examples = make_parsing("in_order", guide=False)
    items, model = task.encode(examples), make_model(task.shape())
    batch, total = collate(items, "parsing"), 0.0
    with torch.no_grad():
        for row in range(len(items)):
            one = alone(batch, row)
            memory, target = model.prepare(model.encode(one)), one.target[0]
            previous = torch.cat((torch.tensor([BEGIN]), target[:-1])).unsqueeze(0)
            hidden, _ = model.decode(model.embed(previous, memory), causal(len(target)), memory)
            total += float(functional.cross_entropy(model.logits(hidden, memory)[0], target, reduction="sum"))
    expected, kinds = total / int(batch.target_mask.sum()), auxiliaries_of(task.shape())
    for strategy, search in (
        (strategy_of(Assisted, label_smoothing=0.1, auxiliaries=kinds), {}),
        (strategy_of(Blocks, auxiliaries=kinds), {"order": "verified"}),
        (strategy_of(Blocks, block=1, auxiliaries=kinds), {}),
        (strategy_of(Blocks, block=4, auxiliaries=kinds), {"block": 1}),
    ):
        found = likelihood(predictor(model, strategy, task, **search), items)
        assert found == {"nats_per_symbol": pytest.approx(expected, rel=1e-5)}


def test_a_bound_has_an_interval_and_is_the_same_each_time(make_model, make_parsing):
    task, examples = make_parsing("in_order")
    items, model, strategy = task.encode(examples), make_model(task.shape()), strategy_of(Blocks, block=4)
    asked = predictor(model, strategy, task)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    found = likelihood(asked, items)
    assert torch.equal(torch.get_rng_state(), before) and likelihood(asked, items) == found
    low, high = found["interval"]
    assert low < found["nats_per_symbol"] < high and high - low < 0.2 * found["nats_per_symbol"]
    torch.manual_seed(6)
    batch = collate(items, "parsing")
    more = strategy.bound(model, batch, SearchOptions(), draws=300).sum(2) / batch.target_mask.sum()
    spread = 4 * math.sqrt(float(more.var(0).sum()) / 300)
    assert low - spread < float(more.mean(0).sum()) < high + spread


def test_there_is_none_without_targets_or_in_parallel(make_model, make_parsing):
    task, examples = make_parsing("in_order", guide=False)
    items, model = task.encode(examples), make_model(task.shape())
    assert likelihood(predictor(model, strategy_of(LengthHead), task), items) is None
    assert likelihood(predictor(model, strategy_of(Assisted), task), []) is None
