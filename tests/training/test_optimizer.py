"""Learning rates, the optimiser's groups and the moving average."""

import math

import pytest
import torch
from torch import nn

from seq2seq_suite.config import Training
from seq2seq_suite.training.optimizer import MovingAverage, build_optimizer, learning_rate


def options(**values: object) -> Training:
    return Training.model_validate({"learning_rate": 0.1, "warmup_updates": 10, **values})


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "power", "constant"])
def test_every_schedule_rises_in_a_line_to_its_peak(schedule):
    rates = [learning_rate(options(schedule=schedule), update, 0.0) for update in range(10)]
    assert rates == pytest.approx([0.01 * (update + 1) for update in range(10)])


def test_schedules_at_their_key_points():
    cosine, power = options(schedule="cosine"), options(schedule="power", decay_power=2.0)
    assert [learning_rate(cosine, 99, share) for share in (0, 0.5, 1)] == pytest.approx([0.1, 0.05, 0.0])
    assert [learning_rate(power, 99, share) for share in (0, 0.5, 1)] == pytest.approx([0.1, 0.025, 0.0])
    root = options(schedule="inverse_sqrt")
    assert [learning_rate(root, update, 0.9) for update in (9, 39, 999)] == pytest.approx([0.1, 0.05, 0.01])
    assert learning_rate(options(schedule="constant"), 10**6, 1.0) == 0.1


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "power", "constant"])
def test_no_warm_up_and_a_share_beyond_the_end_give_finite_rates(schedule):
    for update, share in ((0, 0.0), (5, 1.5), (5, -1.0)):
        rate = learning_rate(options(schedule=schedule, warmup_updates=0), update, share)
        assert math.isfinite(rate) and 0.0 <= rate <= 0.1


def test_only_matrices_decay():
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.fill_(1.0)
    optimizer = build_optimizer(model, options(weight_decay=0.5))
    (model.weight.sum() * 0.0 + model.bias.sum() * 0.0).backward()
    optimizer.step()
    assert torch.allclose(model.weight, torch.full((2, 3), 0.95)) and torch.equal(model.bias, torch.ones(2))


def test_the_average_follows_its_law():
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
    average, expected = MovingAverage(model, 0.5), 0.0
    for update in range(1, 12):
        with torch.no_grad():
            model.weight.fill_(float(update))
        average.update(model, update)
        decay = min(0.5, (1 + update) / (10 + update))
        expected = decay * expected + (1 - decay) * update
    assert float(average.weights["weight"]) == pytest.approx(expected, rel=1e-6)
    assert min(0.5, 12 / 21) == 0.5  # the ramp has reached the decay


def test_swapping_twice_changes_nothing():
    model = nn.Linear(2, 2)
    average = MovingAverage(model, 0.9)
    kept = {name: value.clone() for name, value in average.weights.items()}
    with torch.no_grad():
        model.weight.add_(1.0)
    trained = model.weight.clone()
    average.swap(model)
    assert torch.equal(model.weight, kept["weight"]) and torch.equal(average.weights["weight"], trained)
    average.swap(model)
    assert torch.equal(model.weight, trained) and torch.equal(average.weights["weight"], kept["weight"])
