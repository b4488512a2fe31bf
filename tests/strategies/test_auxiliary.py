"""What the encoder learns besides, against loops over labels, transcripts and sources; and each task its own losses."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from making import auxiliaries_of, strategy_of
from plain import alone, collapse

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.learner import JointLearner, Learner
from seq2seq_suite.strategies.parallel.ctc import Ctc
from seq2seq_suite.strategies.parallel.length_head import LengthHead

SHAPE = Shape(TokenShape(11), TargetShape(9, source_labels=(("tags", 3, 0.5), ("moves", 4, 0.25))))


def given():
    return auxiliaries_of(SHAPE, ctc=0.3, transcript=5, language=0.7)


@pytest.fixture
def labelled(make_batch):
    """A batch with labels, some of them missing, and transcripts of different lengths."""
    batch = make_batch([4, 3], [4, 6])
    return replace(
        batch,
        auxiliary={
            "tags": torch.tensor([[0, 2, 1, -1], [1, 0, 2, -1]]),
            "moves": torch.tensor([[3, -1, 1, 0], [2, 0, 3, -1]]),
            "ctc": torch.tensor([[3, 3, 4], [4, 0, 0]]),
        },
    )


@pytest.mark.parametrize("kind", [Autoregressive, LengthHead])
def test_each_auxiliary_loss_is_its_plain_loop(make_model, labelled, kind):
    model = make_model(SHAPE, experts=4)
    with torch.no_grad():
        for layer in (*model.encoder.layers, *model.decoder.layers):
            layer.feed_forward.router.weight.zero_()  # p = 1 / N everywhere: the loss of a layer is 1
    strategy = strategy_of(kind, auxiliaries=given())
    heads = {name: part.head for name, part in strategy.auxiliaries.items()}
    learner = Learner(model, strategy, balance_weight=0.02)
    own, loss = strategy_of(kind).loss(model, labelled), learner(labelled)
    expected = dict.fromkeys(("tags", "moves", "ctc", "language"), 0.0)
    for row, words in enumerate(((3, 3, 4), (4,))):
        one = alone(labelled, row)
        states, source = model.encode(one).values[0].detach(), one.source[0].tolist()
        for name in ("tags", "moves"):
            for state, label in zip(states, labelled.auxiliary[name][row].tolist(), strict=False):
                expected[name] -= heads[name](state).log_softmax(0)[label].item() if label >= 0 else 0.0
        scores = heads["ctc"].linear(states).log_softmax(1).tolist()
        expected["ctc"] -= math.log(
            sum(
                math.exp(sum(scores[place][symbol] for place, symbol in enumerate(path)))
                for path in itertools.product(range(5), repeat=len(scores))
                if collapse(path) == words
            )
        )
        expected["language"] -= sum(
            heads["language"](state).log_softmax(0)[symbol].item()
            for state, symbol in zip(states, source[1:], strict=False)
        )
    assert {name: float(loss.sums[name].detach()) for name in expected} == pytest.approx(expected, rel=1e-4)
    assert float(loss.sums["balance"].detach()) == pytest.approx(4 * 10)  # of four layers, a mean over target symbols
    assert loss.counts == {**own.counts, "tags": 6, "moves": 6, "ctc": 4, "language": 5, "balance": 10}
    assert loss.counts == learner.counts(labelled)
    for name, weight in own.weights.items():
        torch.testing.assert_close(loss.sums[name], own.sums[name])
        assert loss.weights[name] == pytest.approx(0.7 * weight)
    assert loss.weights.items() >= {"tags": 0.5, "moves": 0.25, "ctc": 0.3, "balance": 0.02, "language": 0.7}.items()


def test_what_a_batch_has_not_is_not_learned(make_model, labelled):
    loss = strategy_of(Autoregressive, auxiliaries=auxiliaries_of(SHAPE, ctc=0.3, transcript=5)).loss(
        make_model(SHAPE), replace(labelled, auxiliary={})
    )
    assert set(loss.sums) == {"cross_entropy"} and loss.weights == {"cross_entropy": 1.0}
    none = strategy_of(Autoregressive).loss(make_model(SHAPE), labelled)
    assert set(none.sums) == {"cross_entropy"}


def test_a_batch_is_learned_by_its_own_tasks_strategy_and_all_hear_how_far_training_is(make_model, make_batch):
    parts = {
        "one": Learner(make_model(seed=1), strategy_of(Autoregressive, label_smoothing=0.1)),
        "two": Learner(make_model(Shape(TokenShape(11), TargetShape(9)), seed=2), strategy_of(Ctc, factor=3.0)),
    }
    joint = JointLearner(parts, {"one": 0.5, "two": 2.0})
    joint.set_fraction_done(0.75)
    assert [part.strategy.fraction_done for part in parts.values()] == [0.75, 0.75]
    for name, factor in joint.weights.items():
        batch = replace(make_batch([4, 3], [4, 3]), task=name)
        own, found = parts[name](batch), joint(batch)
        assert found.weights == {f"{name}/{loss}": factor * weight for loss, weight in own.weights.items()}
        assert found.counts == {f"{name}/{loss}": count for loss, count in own.counts.items()}
        assert found.counts == joint.counts(batch)
        assert {key: float(value.detach()) for key, value in found.sums.items()} == {
            f"{name}/{loss}": float(value.detach()) for loss, value in own.sums.items()
        }
