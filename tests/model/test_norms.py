"""Norms: torch's where torch has them; PowerNorm against its equations, written once more in numpy."""

import numpy as np
import pytest
import torch
from making import strategy_of
from torch import nn

from seq2seq_suite.model.norms import LayerNorm, RMSNorm
from seq2seq_suite.model.variants.power_norm import PowerNorm
from seq2seq_suite.model.variants.real_positions import on_real_positions
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.learner import Learner

WIDTH, MOMENTUM, EPSILON = 6, 0.9, 1e-5


def test_layer_norm_is_that_of_torch():
    torch.manual_seed(1)
    x, ours, theirs = torch.randn(2, 3, WIDTH), LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
    nn.init.normal_(theirs.weight), nn.init.normal_(theirs.bias)
    ours.gain.data, ours.bias.data = theirs.weight.data, theirs.bias.data
    torch.testing.assert_close(ours(x), theirs(x))


def test_rms_norm_is_that_of_torch():
    torch.manual_seed(1)
    x, ours, theirs = torch.randn(2, 3, WIDTH), RMSNorm(WIDTH), nn.RMSNorm(WIDTH, eps=1e-6)
    nn.init.normal_(theirs.weight)
    ours.gain.data = theirs.weight.data
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours(x), x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * ours.gain)


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm, PowerNorm])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.filterwarnings("ignore:Mismatch dtype")
def test_statistics_are_float32_whatever_the_precision(kind, training):
    torch.manual_seed(2)
    norm, x = kind(512).train(training), (torch.randn(4, 3, 512) * 300).bfloat16()
    exact = kind(512).train(training)(x.float())
    assert norm(x).dtype == torch.bfloat16
    torch.testing.assert_close(norm(x).float(), exact, rtol=0.01, atol=0.01)


class NumpyPowerNorm:
    """Shen et al. 2020, Algorithms 1 and 2, over (tokens, features) without padding."""

    def __init__(self, gain: np.ndarray, bias: np.ndarray):
        self.gain, self.bias = gain, bias
        self.psi_square, self.nu = np.ones_like(gain), np.zeros_like(gain)

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.psi = np.sqrt(self.psi_square + EPSILON)
        self.x_hat = x / self.psi
        self.psi_square = MOMENTUM * self.psi_square + (1 - MOMENTUM) * (x**2).mean(0)
        return self.gain * self.x_hat + self.bias

    def backward(self, grad_y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        grad_hat = self.gain * grad_y
        grad_x = (grad_hat - self.nu * self.x_hat) / self.psi
        gamma, lambda_ = (self.x_hat**2).mean(0), (grad_hat * self.x_hat).mean(0)
        self.nu = self.nu * (1 - (1 - MOMENTUM) * gamma) + (1 - MOMENTUM) * lambda_
        return grad_x, (grad_y * self.x_hat).sum(0), grad_y.sum(0)


def make_power_norm(*, warms: bool) -> PowerNorm:
    torch.manual_seed(3)
    norm = PowerNorm(WIDTH, momentum=MOMENTUM, epsilon=EPSILON)
    norm.warms = warms
    nn.init.normal_(norm.gain, 1.0, 0.3), nn.init.normal_(norm.bias)
    return norm


def run(norm: PowerNorm, x: torch.Tensor, upstream: torch.Tensor, mask: torch.Tensor | None = None):
    """Output, and gradients of input, gain and bias."""
    norm.zero_grad()
    x = x.clone().requires_grad_()
    with on_real_positions(mask):
        y = norm(x)
    y.backward(upstream)
    return y.detach(), x.grad, norm.gain.grad.clone(), norm.bias.grad.clone()


def test_power_norm_is_the_papers_equations_over_several_passes():
    norm = make_power_norm(warms=False)
    oracle = NumpyPowerNorm(norm.gain.detach().numpy().astype(float), norm.bias.detach().numpy().astype(float))
    for step in range(8):
        torch.manual_seed(10 + step)
        x, upstream = torch.randn(3, 5, WIDTH) * (1 + step), torch.randn(3, 5, WIDTH)
        y, *gradients = run(norm, x, upstream)
        flat = x.reshape(-1, WIDTH).numpy().astype(float)
        np.testing.assert_allclose(y.reshape(-1, WIDTH).numpy(), oracle.forward(flat), rtol=1e-4, atol=1e-4)
        expected = oracle.backward(upstream.reshape(-1, WIDTH).numpy().astype(float))
        for got, want in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(got.numpy().reshape(want.shape), want, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(norm.mean_square.numpy(), oracle.psi_square, rtol=1e-4)
        np.testing.assert_allclose(norm.gradient_mean.numpy(), oracle.nu, rtol=1e-3, atol=1e-4)
    assert int(norm.passes) == 8


def test_power_norm_warms_up_by_batch_statistics_with_their_exact_gradient():
    norm, plain = make_power_norm(warms=True), []
    for step in range(3):
        torch.manual_seed(20 + step)
        x, upstream = torch.randn(2, 5, WIDTH) * 3, torch.randn(2, 5, WIDTH)
        got = run(norm, x, upstream)
        leaf = x.clone().requires_grad_()
        plain.append(x.square().mean((0, 1)))
        y = leaf / (leaf.square().mean((0, 1)) + EPSILON).sqrt() * norm.gain + norm.bias
        y.backward(upstream)
        torch.testing.assert_close(got[0], y.detach())
        torch.testing.assert_close(got[1], leaf.grad, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(norm.mean_square, torch.stack(plain).mean(0))
    running, norm.warms = norm.mean_square.clone(), False
    x = torch.randn(2, 5, WIDTH) * 7
    torch.testing.assert_close(norm(x), x / (running + EPSILON).sqrt() * norm.gain + norm.bias)


@pytest.mark.parametrize("warms", [False, True])
def test_padding_changes_no_output_gradient_or_statistic_of_power_norm(warms):
    padded, bare = make_power_norm(warms=warms), make_power_norm(warms=warms)
    for step in range(4):
        torch.manual_seed(30 + step)
        x, upstream = torch.randn(2, 4, WIDTH), torch.randn(2, 4, WIDTH)
        mask = torch.zeros(2, 7, dtype=torch.bool)
        mask[:, 1:5] = True
        wide_x = torch.full((2, 7, WIDTH), 99.0).masked_scatter(mask[..., None], x)
        wide_upstream = torch.zeros(2, 7, WIDTH).masked_scatter(mask[..., None], upstream)
        got, expected = run(padded, wide_x, wide_upstream, mask), run(bare, x, upstream)
        torch.testing.assert_close(got[0][mask], expected[0].flatten(0, 1))
        torch.testing.assert_close(got[1][mask], expected[1].flatten(0, 1))
        assert not got[1][~mask].any()
        torch.testing.assert_close(got[2:], expected[2:])
        for name, buffer in bare.named_buffers():
            torch.testing.assert_close(getattr(padded, name), buffer)


def test_in_evaluation_power_norm_sees_no_batch_and_learns_nothing():
    norm = make_power_norm(warms=False)
    norm(torch.randn(3, 4, WIDTH) * 5)
    norm.eval()
    before = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    x = torch.randn(3, 4, WIDTH)
    torch.testing.assert_close(norm(x)[:1], norm(x[:1]))
    torch.testing.assert_close(norm(x), x / (norm.mean_square + EPSILON).sqrt() * norm.gain + norm.bias)
    for name, buffer in norm.named_buffers():
        assert torch.equal(buffer, before[name])


def test_power_norm_goes_on_from_its_state_dict():
    torch.manual_seed(40)
    first, second = make_power_norm(warms=False), make_power_norm(warms=False)
    for _ in range(3):
        run(first, torch.randn(3, 4, WIDTH), torch.randn(3, 4, WIDTH))
    second.load_state_dict(first.state_dict())
    assert int(second.passes) == 3
    x, upstream = torch.randn(3, 4, WIDTH), torch.randn(3, 4, WIDTH)
    for got, expected in zip(run(second, x, upstream), run(first, x, upstream), strict=True):
        assert torch.equal(got, expected)
    assert torch.equal(first.gradient_mean, second.gradient_mean)


def test_power_norms_statistics_follow_features_that_grow_while_they_gather():
    """A mean over all of a warm-up would be 1.5 times too small in evaluation here."""
    norm = make_power_norm(warms=True)
    for step in range(400):
        norm(torch.randn(4, 8, WIDTH) * (1.0 + 2.0 * step / 400))
    assert norm.eval().mean_square.sqrt().mean() == pytest.approx(3.0, rel=0.1)


def test_power_norm_uses_running_statistics_after_its_share_of_a_run(make_model):
    model = make_model(norm="power")
    learner = Learner(model, strategy_of(Autoregressive), norm_warmup=0.1)
    norms = [part for part in model.modules() if isinstance(part, PowerNorm)]
    for share, warms in ((0.0, True), (0.09, True), (0.1, False), (1.0, False)):
        learner.set_fraction_done(share)
        assert norms and {norm.warms for norm in norms} == {warms}
