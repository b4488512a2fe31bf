"""An ensemble's probabilities are the mean of its members', at every step of every search."""

from dataclasses import replace

import pytest
import torch
from making import strategy_of

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import END
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.ensemble import Ensemble
from seq2seq_suite.strategies.autoregressive import Autoregressive

SHAPE = Shape(TokenShape(11), TargetShape(9))


def generate(model, batch, **options):
    return strategy_of(Autoregressive).generate(
        model, batch, options=SearchOptions().changed(**options), limit=torch.full((batch.source.size(0),), 9)
    )


@pytest.fixture
def members(make_model):
    return [make_model(SHAPE, seed=seed, noise=0.5).eval() for seed in (1, 2, 3)]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_model_with_itself_is_itself(members, make_batch, beam_size):
    batch = make_batch([5, 3, 4], [2, 2, 2])
    alone, twice = (generate(model, batch, beam_size=beam_size) for model in (members[0], Ensemble(members[:1] * 2)))
    assert [[one.symbols for one in found] for found in twice] == [[one.symbols for one in found] for found in alone]
    assert [found[0].score for found in twice] == pytest.approx([found[0].score for found in alone], rel=1e-5)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_score_is_of_the_mean_probability(members, make_batch, beam_size):
    batch = replace(make_batch([5, 3], [2, 2]), indices=(0, 1))
    for row, (best, *_) in enumerate(generate(Ensemble(members), batch, beam_size=beam_size)):
        previous, one = torch.tensor([[1, *best.symbols]]), batch.select([row])
        each = []
        for model in members:
            memory = model.prepare(model.encode(one))
            hidden, _ = model.decode(model.embed(previous, memory), causal(previous.size(1)), memory)
            each.append(model.logits(hidden, memory)[0].double().softmax(-1))
        mean = sum(each) / 3
        mean[:, [0, 1, 3]] = 0
        chosen = (mean / mean.sum(-1, keepdim=True)).gather(1, torch.tensor([*best.symbols, END]).unsqueeze(1))
        assert best.score == pytest.approx(chosen.log().sum().item() / ((6 + len(best.symbols)) / 6) ** 0.6, rel=1e-4)


def test_the_order_of_the_members_does_not_matter(members, make_batch):
    batch = make_batch([5, 3, 4], [2, 2, 2])
    one, other = (generate(Ensemble(some), batch, beam_size=3) for some in (members, members[::-1]))
    assert [[found.symbols for found in some] for some in one] == [[found.symbols for found in some] for some in other]
