"""Attention whose queries, keys and values are one product is the one of three layers, whose parameters it keeps."""

import copy

import pytest
import torch

from seq2seq_suite import kernels
from seq2seq_suite.kernels import projections
from seq2seq_suite.model.attention import KeysValues, MultiHeadAttention


@pytest.fixture
def pair(monkeypatch) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    """A fast attention, put together as on a GPU, and a plain one of the same weights."""
    monkeypatch.setattr(projections, "_gains", lambda x: True)
    torch.manual_seed(1)
    plain = MultiHeadAttention(8, 2)
    fast = copy.deepcopy(plain)
    kernels.accelerate(fast)
    return fast, plain


def test_one_product_gives_the_values_and_gradients_of_three(pair):
    torch.manual_seed(2)
    x, visible, past = torch.randn(3, 5, 8), torch.rand(3, 5, 7) < 0.7, torch.randn(3, 2, 2, 4)
    found = []
    for attention in pair:
        given = x.clone().requires_grad_()
        alone, _ = attention(given, visible[:, :, :5])
        out, cache = attention(given, visible, KeysValues(past, past + 1))
        memory = attention.memory_keys_values(given)
        values = alone, out, cache.keys, cache.values, memory.keys, memory.values
        sum((value * torch.linspace(-1, 1, value.numel()).view_as(value)).sum() for value in values).backward()
        found.append(
            {
                "x": given.grad,
                **{name: one.grad for name, one in attention.named_parameters()},
                **{str(place): value.detach() for place, value in enumerate(values)},
            }
        )
    torch.testing.assert_close(*found)


def test_it_is_one_product_of_three_parameters(pair, monkeypatch):
    fast, _ = pair
    shapes, linear = [], projections.functional.linear
    monkeypatch.setattr(
        projections.functional,
        "linear",
        lambda x, weight, bias: shapes.append(tuple(weight.shape)) or linear(x, weight, bias),
    )
    fast.output, x = torch.nn.Identity(), torch.randn(1, 3, 8)
    fast(x, None)
    fast.memory_keys_values(x)
    assert shapes == [(24, 8), (16, 8)]
    with torch.no_grad():  # a search
        fast.memory_keys_values(x)
    assert shapes[2:] == [(8, 8), (8, 8)]


def test_the_plain_function_brings_back_the_plain_class(pair):
    fast, plain = pair
    names = list(plain.state_dict())
    assert type(fast) is projections.Projected and list(fast.state_dict()) == names
    kernels.accelerate(fast, components={"projections": kernels.implementation("projections", "plain")})
    assert type(fast) is MultiHeadAttention and list(fast.state_dict()) == names
