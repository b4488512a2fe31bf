"""Attention is its equation, and the module is PyTorch's with the same weights."""

import pytest
import torch
from torch import nn

from seq2seq_suite import kernels
from seq2seq_suite.model.attention import MultiHeadAttention, attention
from seq2seq_suite.model.variants.additive import additive_attention

ROWS, HEADS, QUERIES, KEYS, HEAD_WIDTH = 2, 3, 5, 7, 4
TOLERANCE = {torch.float32: {"rtol": 1e-5, "atol": 1e-6}, torch.bfloat16: {"rtol": 0.05, "atol": 0.03}}


def random_inputs(dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(ROWS, HEADS, length, HEAD_WIDTH).to(dtype) for length in (QUERIES, KEYS, KEYS)]


def make_mask(kind: str) -> torch.Tensor | None:
    torch.manual_seed(2)
    match kind:
        case "none":
            return None
        case "keys":
            return (torch.arange(KEYS) < torch.tensor([[4], [7]])).view(ROWS, 1, 1, KEYS)
        case "each_query":
            return torch.rand(ROWS, 1, QUERIES, KEYS).lt(0.5).index_fill(3, torch.tensor([0]), True)
        case _:
            blind = torch.rand(ROWS, 1, QUERIES, KEYS).lt(0.5).index_fill(3, torch.tensor([0]), True)
            blind[0, :, 1], blind[1, :, 4] = False, False
            return blind


def value_and_gradients(function, inputs, visible):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    out = function(*leaves, visible)
    torch.manual_seed(3)
    out.float().mul(torch.randn(out.shape)).sum().backward()
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def test_attention_is_softmax_of_scaled_products_for_one_query():
    query, key, value = random_inputs(torch.float32)
    weights = torch.stack([(query[0, 0, 0] * key[0, 0, s]).sum() / HEAD_WIDTH**0.5 for s in range(KEYS)]).exp()
    expected = sum(weights[s] / weights.sum() * value[0, 0, s] for s in range(KEYS))
    torch.testing.assert_close(attention(query, key, value)[0, 0, 0], expected)


def additive_by_loops(query, key, value, visible, weight):
    """Bahdanau et al. 2015, a query, a key and a head at a time."""
    rows, seen_by = [], torch.ones(1, dtype=torch.bool) if visible is None else visible
    seen_by = seen_by.expand(ROWS, 1, QUERIES, KEYS)
    for row in range(ROWS):
        for head in range(HEADS):
            for place in range(QUERIES):
                seen = seen_by[row, 0, place].nonzero().flatten().tolist()
                scores = [weight[head] @ torch.tanh(query[row, head, place] + key[row, head, s]) for s in seen]
                shares = torch.stack(scores).softmax(0) if seen else []
                rows.append(
                    sum(
                        (share * value[row, head, s] for share, s in zip(shares, seen, strict=True)),
                        torch.zeros(HEAD_WIDTH),
                    )
                )
    return torch.stack(rows).view(ROWS, HEADS, QUERIES, HEAD_WIDTH)


@pytest.mark.parametrize("mask", ["none", "keys", "each_query", "blind"])
def test_additive_attention_is_its_equation_in_value_and_gradient(mask):
    inputs, visible = random_inputs(torch.float32), make_mask(mask)
    found = []
    for function in (
        lambda q, k, v, w, m: additive_attention(q, k, v, m, weight_HE=w),
        lambda q, k, v, w, m: additive_by_loops(q, k, v, m, w),
    ):
        weight = torch.randn(HEADS, HEAD_WIDTH, generator=torch.Generator().manual_seed(4)).requires_grad_()
        values = value_and_gradients(lambda q, k, v, m, f=function, w=weight: f(q, k, v, w, m), inputs, visible)
        found.append([*values, weight.grad])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("kind", kernels.KINDS)
def test_a_query_that_sees_nothing_gives_zeros_and_no_gradient(kind, dtype, rate):
    inputs, visible = random_inputs(dtype), torch.zeros(ROWS, 1, QUERIES, KEYS, dtype=torch.bool)
    attend = kernels.implementation("attention", kind)
    out, *gradients = value_and_gradients(lambda q, k, v, m: attend(q, k, v, m, dropout_rate=rate), inputs, visible)
    assert not out.any()
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("kind", kernels.KINDS)
def test_dropout_of_attention_keeps_the_expected_output(kind):
    query, key, value = (tensor.requires_grad_() for tensor in random_inputs(torch.float32))
    attend = kernels.implementation("attention", kind)
    torch.manual_seed(4)
    draws = torch.stack([attend(query, key, value, dropout_rate=0.25) for _ in range(1500)])
    spread = draws.std(0) / 1500**0.5
    assert ((draws.mean(0) - attention(query, key, value)).abs() < 5 * spread + 1e-3).all()


def make_pair(width: int = 12) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    torch.manual_seed(5)
    ours, theirs = MultiHeadAttention(width, HEADS), nn.MultiheadAttention(width, HEADS, batch_first=True)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    for linear, weight, bias in zip(
        (ours.query, ours.key, ours.value), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
    ):
        linear.weight.data, linear.bias.data = weight, bias
    ours.output.load_state_dict(theirs.out_proj.state_dict())
    return ours, theirs


def test_self_attention_is_that_of_torch_with_the_same_weights():
    ours, theirs = make_pair()
    x, mask = torch.randn(2, QUERIES, 12), torch.arange(QUERIES) < torch.tensor([[3], [5]])
    causal = torch.ones(QUERIES, QUERIES, dtype=torch.bool).tril()
    got, cache = ours(x, mask.unsqueeze(1) & causal)
    expected, _ = theirs(x, x, x, key_padding_mask=~mask, attn_mask=~causal, need_weights=False)
    torch.testing.assert_close(got, expected)
    assert cache is None


def test_cross_attention_is_that_of_torch_with_the_same_weights():
    ours, theirs = make_pair()
    x, memory = torch.randn(2, QUERIES, 12), torch.randn(2, KEYS, 12)
    mask = torch.arange(KEYS) < torch.tensor([[3], [7]])
    got = ours.cross(x, ours.memory_keys_values(memory), mask.unsqueeze(1))
    expected, _ = theirs(x, memory, memory, key_padding_mask=~mask, need_weights=False)
    torch.testing.assert_close(got, expected)


@pytest.fixture(params=kernels.KINDS)
def cache_type(request):
    return kernels.implementation("cache", request.param)


@pytest.mark.parametrize("learning", [True, False])
def test_a_cache_holds_what_was_appended_whatever_the_pieces(cache_type, learning):
    torch.manual_seed(6)
    keys, values = torch.randn(2, HEADS, 11, HEAD_WIDTH), torch.randn(2, HEADS, 11, HEAD_WIDTH)
    cache = cache_type.empty(keys)
    with torch.set_grad_enabled(learning):
        for first, last in ((0, 1), (1, 2), (2, 7), (7, 8), (8, 11)):
            cache = cache.append(keys[:, :, first:last], values[:, :, first:last])
    assert cache.length == 11
    assert torch.equal(cache.keys, keys) and torch.equal(cache.values, values)


@torch.no_grad()
def test_rows_of_a_cache_go_separate_ways_after_select(cache_type):
    torch.manual_seed(7)
    first, second, third = torch.randn(3, 2, HEADS, 1, HEAD_WIDTH).unbind(0)
    cache = cache_type.empty(first).append(first, first)
    left, right = cache.select(torch.tensor([1, 1])), cache.select(torch.tensor([0, 1]))
    left, right = left.append(second, second), right.append(third, third)
    assert torch.equal(left.keys, torch.cat((first[[1, 1]], second), 2))
    assert torch.equal(right.values, torch.cat((first, third), 2))
