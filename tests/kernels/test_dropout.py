"""Dropout from random bytes: rate, scale, expectation, and the same mask in both passes."""

import pytest
import torch
from torch import nn

from seq2seq_suite import kernels
from seq2seq_suite.kernels.dropout import dropout

SHAPE = (301, 333)  # odd on purpose: the last random word is used in part


def rounded(rate: float) -> float:
    return max(1, round(rate * 256)) / 256


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_the_rate_and_the_scale_follow_the_nearest_256th(rate):
    torch.manual_seed(1)
    out = dropout(torch.ones(SHAPE), rate)
    rate = min(rounded(rate), 255 / 256)
    dropped = (out == 0).float().mean().item()
    assert abs(dropped - rate) < 5 * (rate * (1 - rate) / out.numel()) ** 0.5
    torch.testing.assert_close(out[out != 0], torch.full_like(out[out != 0], 1 / (1 - rate)))


@pytest.fixture(params=kernels.KINDS)
def either(request):
    return kernels.implementation("dropout", request.param)


def test_the_expectation_is_the_input(either):
    torch.manual_seed(2)
    x = torch.tensor([1.0, -2.0, 5.0])
    mean = either(x.expand(100_000, 3), 0.3).mean(0)
    torch.testing.assert_close(mean, x, rtol=0.02, atol=0.0)


def test_no_rate_leaves_the_very_input():
    x = torch.randn(3, 4)
    assert dropout(x, 0.0) is x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_uses_the_mask_of_the_forward_pass(either, dtype):
    torch.manual_seed(3)
    x = torch.ones(SHAPE, dtype=dtype, requires_grad=True)
    out = either(x, 0.4)
    upstream = torch.randn(SHAPE).to(dtype)
    out.backward(upstream)
    assert x.grad.dtype == dtype
    torch.testing.assert_close(x.grad, upstream * out.detach(), rtol=0.01, atol=0.0)


def test_the_seed_of_torch_decides_over_the_mask(either):
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return either(torch.ones(SHAPE), 0.5)

    assert torch.equal(draw(5), draw(5))
    assert not torch.equal(draw(5), draw(6))


def test_evaluation_drops_nothing():
    layer, x = nn.Sequential(nn.Dropout(0.5)).eval(), torch.randn(4, 5)
    kernels.accelerate(layer)
    assert torch.equal(layer(x), x)
    layer.train()
    assert not torch.equal(layer(x), x)
