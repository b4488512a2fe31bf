"""References do what the suite's own functions do, so that neither can drift."""

import pytest
import torch

from seq2seq_suite.common.types import BEGIN, END
from seq2seq_suite.lab.given import GIVEN
from seq2seq_suite.metrics.significance import t_interval
from seq2seq_suite.model.attention import attention
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.norms import LayerNorm
from seq2seq_suite.model.output import cross_entropy
from seq2seq_suite.model.positions import RotaryPositions, sinusoids
from seq2seq_suite.model.variants.power_norm import PowerNorm
from seq2seq_suite.strategies.autoregressive import shift_right
from seq2seq_suite.strategies.parallel.constrained import cut_at_end
from seq2seq_suite.strategies.parallel.ctc import path_loss


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)


def test_attention():
    query, key, value = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 6)
    visible = torch.rand(2, 1, 4, 5) > 0.7
    assert torch.equal(GIVEN.attend(query, key, value, visible), attention(query, key, value, visible))
    assert torch.equal(GIVEN.attend(query, key, value), attention(query, key, value))


@pytest.mark.parametrize(("length", "past"), [(4, 0), (1, 3), (2, 3)])
def test_the_causal_mask(length, past):
    assert torch.equal(GIVEN.causal_mask(length, past), causal(length, past)[0])


def test_positions():
    torch.testing.assert_close(GIVEN.sinusoids(30, 16), sinusoids(30, 16), rtol=0, atol=1e-5)
    x = torch.randn(2, 3, 5, 8)
    torch.testing.assert_close(GIVEN.rotate(x, 4), RotaryPositions(8, 20).rotate(x, 4), rtol=0, atol=1e-5)


def test_layer_norm(roughen):
    norm, x = roughen(LayerNorm(8)), torch.randn(3, 5, 8)
    torch.testing.assert_close(GIVEN.layer_norm(x, norm.gain, norm.bias, norm.epsilon), norm(x))


def test_power_norm_behind_its_warm_up(roughen):
    norm = roughen(PowerNorm(8, momentum=0.8))
    norm.warms = False
    running = norm.mean_square.uniform_(0.5, 2.0).clone()
    for training in (True, False):
        x = torch.randn(3, 5, 8)
        norm.train(training)
        y, running = GIVEN.power_norm(x, norm.gain, norm.bias, running, 0.8, training)
        torch.testing.assert_close(y, norm(x))
        torch.testing.assert_close(running, norm.mean_square)


def test_smoothed_cross_entropy_of_logits():
    hidden, target, mask = torch.randn(2, 5, 7), torch.randint(7, (2, 5)), torch.rand(2, 5) > 0.3
    total, count = GIVEN.smoothed_cross_entropy(hidden, target, mask, 0.1)
    torch.testing.assert_close(total, cross_entropy(hidden[mask], torch.eye(7), torch.zeros(7), target[mask], 0.1))
    assert count == int(mask.sum())


def test_what_is_read_and_what_is_cut():
    target = torch.randint(3, 9, (2, 5))
    assert torch.equal(GIVEN.shift_right(target, BEGIN), shift_right(target))
    for symbols in ([7, END, 8, END], [7, 8], [END]):
        assert tuple(GIVEN.cut_at_end(symbols, END)) == cut_at_end(symbols)


def test_ctc():
    log_p, target = torch.randn(9, 6).log_softmax(-1), [2, 2, 5]
    scores = log_p[:, [0, *target]].unsqueeze(0)
    own = path_loss(scores, torch.tensor([9]), torch.tensor([target]), torch.tensor([3]))
    torch.testing.assert_close(GIVEN.ctc_loss(log_p, target, 0), own)


def test_intervals():
    for values in ([90.0, 92.0, 97.0], [1.0, 2.0], [4.0, 4.5, 5.0, 6.0, 7.0]):
        assert GIVEN.mean_interval(values) == pytest.approx(t_interval(values), rel=2e-4)
