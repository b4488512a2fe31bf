"""What a model thinks of outputs that are there already, against loops: of another decoder, and of whole texts."""

from dataclasses import replace

import pytest
import torch
from making import strategy_of
from plain import alone

from seq2seq_suite.common.types import BEGIN, END, Hypothesis
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.language_model import LanguageModel
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.strategies.rescoring import rescore


def log_probabilities(model, one, symbols: tuple[int, ...]) -> list[float]:
    """Of each symbol and END, given those before it."""
    memory, inputs = model.prepare(model.encode(one)), torch.tensor([[BEGIN, *symbols]])
    hidden, _ = model.decode(model.embed(inputs, memory), causal(inputs.size(1)), memory)
    scores = model.output(hidden)[0].log_softmax(-1)
    return [float(scores[place, symbol]) for place, symbol in enumerate((*symbols, END))]


@torch.inference_mode()
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_candidates_are_ranked_by_what_another_model_gives_them(make_model, make_batch, alpha):
    model, batch = make_model(noise=0.5), make_batch([5, 3, 4, 2], [2] * 4)
    outputs = [[(4, 5, 6), (7,), (8, 8)], [(5, 5, 5, 5, 5)], [], [(), (6, 4)]]
    candidates = [
        [Hypothesis(symbols, 9.0 - place, complete=place != 1) for place, symbols in enumerate(row)] for row in outputs
    ]
    learner = Learner(model, strategy_of(Autoregressive))
    found = rescore(learner, batch, candidates, options=SearchOptions(length_penalty=alpha))
    orders = set()
    for row, symbols in enumerate(outputs):
        totals = [sum(log_probabilities(model, alone(batch, row), one)) for one in symbols]
        scored = [
            (total / ((6 + len(one)) / 6) ** alpha, one, place != 1)
            for place, (one, total) in enumerate(zip(symbols, totals, strict=True))
        ]
        expected = sorted(scored, key=lambda one: -one[0])
        assert [(one.symbols, one.complete) for one in found[row]] == [(one, whole) for _, one, whole in expected]
        assert [one.score for one in found[row]] == pytest.approx([score for score, _, _ in expected], rel=1e-4)
        orders.add(expected == scored)
    assert False in orders
    assert rescore(learner, batch, [[], [], [], []], options=SearchOptions()) == [[], [], [], []]


@torch.inference_mode()
def test_of_a_text_what_is_not_given_is_judged(make_model, make_batch):
    model, batch = make_model(), make_batch([5, 3], [4, 6])
    given = torch.zeros_like(batch.given)
    given[0, :2] = given[1, 0] = True
    found = strategy_of(LanguageModel).generate(
        model, replace(batch, given=given), options=SearchOptions(), limit=torch.tensor([9, 9])
    )
    for row, (length, known) in enumerate(((4, 2), (6, 1))):
        symbols = tuple(batch.target[row, :length].tolist())
        each = log_probabilities(model, alone(batch, row), symbols[:-1])
        assert found[row][0].symbols == symbols and found[row][0].score == pytest.approx(sum(each[known:]), rel=1e-4)
