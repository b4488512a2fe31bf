"""Dropout from random bytes: rate, scale, expectation, and the same mask in both passes."""

import pytest
import torch

from seq2seq_suite import kernels
from seq2seq_suite.kernels.dropout import dropout
from seq2seq_suite.model.dropout import Dropout

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
    assert torch.equal(dropout(x, 0.0, x), 2 * x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_uses_the_mask_of_the_forward_pass(either, dtype):
    torch.manual_seed(3)
    x = torch.ones(SHAPE, dtype=dtype, requires_grad=True)
    out = either(x, 0.4)
    upstream = torch.randn(SHAPE).to(dtype)
    out.backward(upstream)
    assert x.grad.dtype == dtype
    torch.testing.assert_close(x.grad, upstream * out.detach(), rtol=0.01, atol=0.0)


@pytest.mark.parametrize("residual_dtype", [torch.float32, torch.bfloat16])
def test_dropout_with_a_residual_is_the_residual_plus_dropout_in_value_and_gradient(residual_dtype):
    x = torch.randn(SHAPE).bfloat16().requires_grad_()
    residual = torch.randn(SHAPE).to(residual_dtype).requires_grad_()
    torch.manual_seed(4)
    got = dropout(x, 0.3, residual)
    got.float().square().sum().backward()
    gradients = x.grad, residual.grad
    x.grad = residual.grad = None
    torch.manual_seed(4)
    expected = residual + dropout(x, 0.3)
    expected.float().square().sum().backward()
    torch.testing.assert_close(got, expected, rtol=0.02, atol=0.02)
    for have, want in zip(gradients, (x.grad, residual.grad), strict=True):
        torch.testing.assert_close(have, want, rtol=0.05, atol=0.1)
    assert gradients[0].dtype == torch.bfloat16 and gradients[1].dtype == residual_dtype


def test_the_seed_of_torch_decides_over_the_mask(either):
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return either(torch.ones(SHAPE), 0.5)

    assert torch.equal(draw(5), draw(5))
    assert not torch.equal(draw(5), draw(6))


def test_evaluation_drops_nothing():
    layer, x, residual = Dropout(0.5).eval(), torch.randn(4, 5), torch.randn(4, 5)
    assert torch.equal(layer(x), x)
    assert torch.equal(layer(x, residual), residual + x)
    layer.train()
    assert not torch.equal(layer(x), x)
    assert not torch.equal(layer(x, residual), residual + x)
