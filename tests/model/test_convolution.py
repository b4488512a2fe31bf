"""Convolutions with their weight as a matrix: torch's own, and learned as matrices are."""

import pytest
import torch
from torch import nn

from seq2seq_suite.config import Training
from seq2seq_suite.model.convolution import Convolution2d
from seq2seq_suite.training.optimizer import build_optimizer


@pytest.mark.parametrize(("kernel", "stride"), [(3, (1, 1)), (3, (2, 2)), (5, (1, 2)), (1, (1, 1))])
def test_a_convolution_is_torchs(kernel, stride):
    own = Convolution2d(4, 6, kernel=kernel, stride=stride)
    other = nn.Conv2d(4, 6, kernel, stride=stride, padding=kernel // 2)
    with torch.no_grad():
        other.weight.copy_(own.weight.view_as(other.weight))
        other.bias.copy_(own.bias)
    x = torch.randn(2, 4, 7, 9)
    torch.testing.assert_close(own(x), other(x))
    assert own(x).shape[2:] == (-(-7 // stride[0]), -(-9 // stride[1]))


def test_muon_takes_it_for_a_matrix():
    model = Convolution2d(4, 6, bias=False)
    before = model.weight.detach().clone()
    optimizer = build_optimizer(model, Training(optimizer="muon", learning_rate=1.0, weight_decay=0.0))
    model(torch.randn(2, 4, 7, 9)).square().sum().backward()
    optimizer.step()
    sizes = torch.linalg.svdvals(model.weight.detach() - before)
    assert sizes.max() / sizes.min() < 3.0
