"""What `kernels` computes fast, the plain code of `model` and `strategies` computes too: in value and in gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite import kernels
from seq2seq_suite.kernels import attention as fast_attention
from seq2seq_suite.kernels import convolution as fast_convolution
from seq2seq_suite.kernels import linear as fast_linear
from seq2seq_suite.kernels import output as fast_output
from seq2seq_suite.kernels import product as fast_product
from seq2seq_suite.kernels import projections as fast_projections
from seq2seq_suite.model.attention import attention as plain_attention

ROWS, WIDTH, SYMBOLS = 13, 8, 11
TARGETS = torch.arange(ROWS) * 7 % SYMBOLS
CHOSEN = torch.stack((TARGETS, TARGETS.flip(0), (TARGETS + 3) % SYMBOLS), 1)


@dataclass(frozen=True)
class Case:
    """A slot, the shapes of the tensors that its gradients are taken of, and a call of an implementation on them.

    `changed` are names of fast modules that decide how they go about it: (module, name, value).
    """

    slot: str
    shapes: tuple[tuple[int, ...], ...]
    call: Callable[..., tuple[Tensor, ...]]
    changed: tuple[tuple[object, str, object], ...] = ()


def masks() -> dict[str, Tensor | None]:
    drawn = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(3)) < 0.5
    drawn[..., 0] = True
    blind = drawn.clone()
    blind[0, :, 1], blind[1, :, 4] = False, False
    return {
        "all": None,
        "keys": (torch.arange(7) < torch.tensor([[4], [7]])).view(2, 1, 1, 7),
        "queries": drawn,
        "blind": blind,
    }


def attention(function, query, key, value, bias, *, mask: Tensor | None) -> tuple[Tensor, ...]:
    if torch.is_autocast_enabled("cpu"):
        query, key, value, bias = (tensor.bfloat16() for tensor in (query, key, value, bias))
    return function(query, key, value, mask), function(query, key, value, mask, bias)


def cache(function, keys, values) -> tuple[Tensor, ...]:
    filled = function.empty(keys)
    for first, last in ((0, 1), (1, 2), (2, 5), (5, 6)):
        filled = filled.append(keys[:, :, first:last], values[:, :, first:last])
    chosen = filled.select(torch.tensor([1, 0, 1])).append(*(x[[0, 0, 1], :, 6:] for x in (keys, values)))
    return filled.keys, filled.values, chosen.keys, chosen.values


def cross_entropy(function, hidden, weight, bias, *, smoothing: float) -> tuple[Tensor, ...]:
    weights = torch.linspace(0.0, 2.0, ROWS)
    return tuple(function(hidden, weight, bias, TARGETS, smoothing, one) for one in (None, weights))


def gather_log_probs(function, hidden, weight, bias) -> tuple[Tensor, ...]:
    scores, likeliest, highest = function(hidden, weight, bias, CHOSEN)
    return (scores, likeliest, highest) if hidden.dtype == torch.float32 else (scores,)  # near ones may change places


def depthwise(function, x, weight, bias) -> tuple[Tensor, ...]:
    return (function(x, weight, bias).float(),)


def dropout(function, x, residual) -> tuple[Tensor, ...]:
    return (function(x, 0.0) + residual,)


def product(function, x, weight, bias) -> tuple[Tensor, ...]:
    return function(x, weight, bias), function(x.unsqueeze(0), weight), function(x.detach(), weight, bias)


class Given(nn.Module):
    """A linear layer of these tensors, so that they may be leaves of a case."""

    def __init__(self, weight: Tensor, bias: Tensor):
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


def projections(function, x, *weights) -> tuple[Tensor, ...]:
    linears = [Given(*pair) for pair in zip(weights[::2], weights[1::2], strict=True)]
    return *function(x, linears), *function(x.detach(), linears[1:])


def linear(function, hidden, weight, bias) -> tuple[Tensor, ...]:
    return (function(weight, bias)(hidden),)


OUTPUT = ((ROWS, WIDTH), (SYMBOLS, WIDTH), (SYMBOLS,))
HEADS = ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4))  # queries, keys and values
CASES = {
    **{
        f"attention to {name}": Case("attention", (*HEADS, (3, 5, 7)), partial(attention, mask=mask))
        for name, mask in masks().items()
    },
    "cache": Case("cache", HEADS[1:], cache),
    **{
        f"convolution of {kernel} positions": Case(
            "depthwise", ((2, WIDTH, 6), (WIDTH, 1, kernel), (WIDTH,)), depthwise
        )
        for kernel in (1, 3, 15)
    },
    "dropout": Case("dropout", ((3, 5), (3, 5)), dropout),
    "product": Case(
        "product", OUTPUT, product, ((fast_product, "_LEAST_PRODUCTS", 0), (fast_product, "_LEAST_TRAINED", 0))
    ),
    "product of few": Case("product", OUTPUT, product),
    "projections": Case("projections", (OUTPUT[0], *3 * OUTPUT[1:]), projections),
    "projections together": Case(
        "projections", (OUTPUT[0], *3 * OUTPUT[1:]), projections, ((fast_projections, "_gains", lambda x: True),)
    ),
    "linear": Case("linear", OUTPUT, linear),
    "packed linear": Case("linear", OUTPUT, linear, ((fast_linear, "_PACKED_SYMBOLS", SYMBOLS),)),
    **{
        f"cross-entropy, {rows} rows in a chunk, smoothing {smoothing}": Case(
            "cross_entropy",
            OUTPUT,
            partial(cross_entropy, smoothing=smoothing),
            ((fast_output, "_CHUNK_ELEMENTS", rows * SYMBOLS),),
        )
        for rows in (1, 4, 13, 100)
        for smoothing in (0.0, 0.1)
    },
    **{
        f"log-probabilities, {rows} rows in a chunk": Case(
            "gather_log_probs", OUTPUT, gather_log_probs, ((fast_output, "_CHUNK_ELEMENTS", rows * SYMBOLS),)
        )
        for rows in (1, 4, 100)
    },
}


@pytest.fixture(params=CASES)
def case(request, monkeypatch) -> Case:
    found = CASES[request.param]
    for module, name, value in found.changed:
        monkeypatch.setattr(module, name, value)
    return found


def inputs_of(case: Case) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(shape) for shape in case.shapes]


def values_and_gradients(case: Case, kind: str, *, low: bool) -> list[Tensor]:
    leaves = [tensor.requires_grad_() for tensor in inputs_of(case)]
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        values = case.call(kernels.implementation(case.slot, kind), *leaves)
    learned = [value for value in values if value.requires_grad]
    torch.manual_seed(2)
    sum((value.float() * torch.randn(value.shape)).sum() for value in learned).backward()
    return [*(value.detach() for value in values), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("low", [False, True], ids=["float32", "bfloat16"])
def test_the_fast_twin_equals_the_plain_code_in_value_and_gradient(case, low):
    tolerance = {"rtol": 0.05, "atol": 0.1} if low else {"rtol": 1e-4, "atol": 1e-5}
    for fast, plain in zip(
        values_and_gradients(case, "fast", low=low), values_and_gradients(case, "plain", low=low), strict=True
    ):
        assert fast.dtype == plain.dtype
        torch.testing.assert_close(fast, plain, **tolerance)


@pytest.mark.parametrize("mask", masks())
def test_attention_by_products_is_the_plain_one_in_float32_too(mask):
    case, mask = CASES[f"attention to {mask}"], masks()[mask]
    torch.manual_seed(1)
    query, key, value, bias = inputs_of(case)
    for given in (None, bias):
        torch.testing.assert_close(
            fast_attention._by_products(query, key, value, mask, given, 0.0),
            plain_attention(query, key, value, mask, given),
            rtol=1e-4,
            atol=1e-5,
        )


def test_without_gradients_the_values_are_equal_too(case):
    with torch.inference_mode():
        fast, plain = (
            case.call(kernels.implementation(case.slot, kind), *inputs_of(case)) for kind in ("fast", "plain")
        )
    for have, want in zip(fast, plain, strict=True):
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)


def test_the_fast_convolution_stays_in_float32():
    with torch.autocast("cpu", torch.bfloat16):
        out = fast_convolution.depthwise(torch.randn(2, WIDTH, 6), torch.randn(WIDTH, 1, 3), torch.randn(WIDTH))
    assert out.dtype == torch.float32


def test_every_slot_has_a_case():
    # In tests/search/test_beam.py, test_models.py, test_decoder.py.
    elsewhere = {"greedy", "beam", "encoder", "decoder"}
    assert {case.slot for case in CASES.values()} | elsewhere == set(kernels.SLOTS)
