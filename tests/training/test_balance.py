"""Gradients of several tasks at one size."""

import pytest
import torch
from torch import nn

from seq2seq_suite.training.balance import GradientBalance

WEIGHTS = {"loud": 1.0, "quiet": 2.0}


def losses(shared, own, given):
    """Of two tasks on shared weights, one a thousand times the other; the second has weights of its own besides."""
    return {
        "loud": WEIGHTS["loud"] * 1000.0 * shared(given).square().mean(),
        "quiet": WEIGHTS["quiet"] * own(shared(given)).abs().mean(),
    }


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_each_task_has_its_weight_times_a_power_of_its_norm(exponent):
    torch.manual_seed(1)
    shared, own, given = nn.Linear(3, 4), nn.Linear(4, 1), torch.randn(5, 3)
    everything, measured = [*shared.parameters(), *own.parameters()], list(shared.parameters())
    balance = GradientBalance(everything, measured, exponent=exponent, weights=WEIGHTS)
    for task in WEIGHTS:
        with balance.of(task):
            losses(shared, own, given)[task].backward()
    wanted = [torch.zeros_like(parameter) for parameter in everything]
    for task, weight in WEIGHTS.items():
        gradient = torch.autograd.grad(losses(shared, own, given)[task] / weight, everything, allow_unused=True)
        norm = torch.cat([one.flatten() for one in gradient[: len(measured)]]).norm()
        for total, one in zip(wanted, gradient, strict=True):
            total += 0.0 if one is None else weight * one / norm**exponent
    torch.testing.assert_close([parameter.grad for parameter in everything], wanted)


def test_norms_are_moving_averages_of_all_updates_so_far():
    weight = nn.Parameter(torch.zeros(2))
    balance = GradientBalance([weight], [weight], exponent=1.0, weights=WEIGHTS)
    average = None
    for size in (5.0, 10.0, 1.0):
        weight.grad = None
        with balance.of("quiet"):
            (2.0 * size * (0.6 * weight[0] - 0.8 * weight[1])).backward()  # of norm 2 * size, the task's weight in it
        average = 2.0 * size if average is None else 0.95 * average + 0.05 * 2.0 * size
        assert balance.norms == {"quiet": pytest.approx(average)}
        # w_t g_t / n_t, with n_t = average / w_t
        torch.testing.assert_close(weight.grad, 2.0 * size * torch.tensor([0.6, -0.8]) * 2.0 / average)


def test_a_task_is_measured_by_what_it_shares_and_added_to_what_was_there():
    shared, own = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    balance = GradientBalance([shared, own], [shared], exponent=0.5, weights={"loud": 1.0, "quiet": 1.0})
    with balance.of("loud"):
        (8.0 * shared[0]).backward()
    with balance.of("quiet"):
        (2.0 * shared[1] + 100.0 * own.sum()).backward()  # only the first counts for its norm
    torch.testing.assert_close(shared.grad, torch.tensor([8.0**0.5, 2.0**0.5]))
    torch.testing.assert_close(own.grad, torch.full((3,), 100.0 / 2.0**0.5))


def test_a_task_without_a_gradient_changes_nothing():
    shared = nn.Linear(2, 1)
    balance = GradientBalance(list(shared.parameters()), list(shared.parameters()), exponent=1.0, weights=WEIGHTS)
    with balance.of("loud"):
        (0.0 * shared(torch.ones(1, 2))).sum().backward()
    assert all(torch.equal(parameter.grad, torch.zeros_like(parameter)) for parameter in shared.parameters())
