"""The output layer: tied weights learn from both ends, and a weight is packed where that pays."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from seq2seq_suite import kernels
from seq2seq_suite.kernels import linear, torch_private
from seq2seq_suite.model.output import OutputLayer

COUNT, WIDTH, SYMBOLS = 13, 8, 11


def make_inputs() -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(shape) for shape in ((COUNT, WIDTH), (SYMBOLS, WIDTH), (SYMBOLS,))]


def plain(hidden, weight, bias, targets, smoothing):
    logits = functional.linear(hidden, weight, bias)
    return functional.cross_entropy(logits.float(), targets, reduction="sum", label_smoothing=smoothing)


def test_what_is_never_to_be_written_is_never_likeliest():
    torch.manual_seed(1)
    layer, hidden = OutputLayer(WIDTH, SYMBOLS).requires_grad_(False), torch.randn(COUNT, WIDTH)
    logits = layer(hidden)
    logits[:, [0, 5]] = float("-inf")
    score, likeliest = logits.log_softmax(-1).max(-1)
    _, best, gained = layer.gather_log_probs(hidden, torch.zeros(COUNT, 1, dtype=torch.int64), never=(0, 5))
    assert torch.equal(best, likeliest)
    torch.testing.assert_close(gained, score)


@pytest.mark.parametrize("kind", kernels.KINDS)
def test_no_targets_cost_nothing(kind):
    hidden, weight, bias = (tensor.requires_grad_() for tensor in make_inputs())
    function = kernels.implementation("cross_entropy", kind)
    loss = function(hidden[:0], weight, bias, torch.zeros(0, dtype=torch.int64), 0.1)
    loss.backward()
    assert float(loss.detach()) == 0.0 and not weight.grad.any()


def test_tied_weights_get_the_gradients_of_both_uses():
    torch.manual_seed(2)
    embedding, symbols, targets = nn.Embedding(SYMBOLS, WIDTH), torch.tensor([3, 5]), torch.tensor([5, 7])
    layer = OutputLayer(WIDTH, SYMBOLS, tied=embedding)
    layer.cross_entropy(embedding(symbols), targets, 0.1).backward()
    as_input, as_output = (embedding.weight.detach().clone().requires_grad_() for _ in range(2))
    plain(functional.embedding(symbols, as_input), as_output, layer.bias.detach(), targets, 0.1).backward()
    assert as_input.grad.any() and as_output.grad.any()
    torch.testing.assert_close(embedding.weight.grad, as_input.grad + as_output.grad)


def test_logits_are_the_products_plus_bias():
    torch.manual_seed(3)
    layer, hidden = OutputLayer(WIDTH, SYMBOLS), torch.randn(2, 3, WIDTH)
    nn.init.normal_(layer.bias)
    torch.testing.assert_close(layer(hidden), hidden @ layer.weight.t() + layer.bias)


def is_prepared(weight: torch.Tensor) -> bool:
    return not isinstance(linear.linear(weight, torch.zeros(weight.size(0))), partial)


def test_the_product_is_the_plain_one_where_gradients_or_low_precision_are():
    weight = torch.randn(linear._PACKED_SYMBOLS, 24)
    assert not is_prepared(weight)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert not is_prepared(weight)
    with torch.inference_mode():
        assert is_prepared(weight) == torch.backends.mkldnn.is_available()


@pytest.mark.parametrize(
    ("symbols", "rows"), [(linear._PACKED_SYMBOLS - 1, 3), (linear._PACKED_SYMBOLS, 1), (linear._PACKED_SYMBOLS, 3)]
)
def test_a_large_weight_is_packed_once_for_steps_of_several_rows(monkeypatch, symbols, rows):
    made, packed = [], torch_private.packed
    monkeypatch.setattr(torch_private, "packed", lambda weight: made.append(weight) or packed(weight))
    weight, bias, hidden = torch.randn(symbols, 24), torch.randn(symbols), torch.randn(rows, 1, 24)
    with torch.inference_mode():
        multiply = linear.linear(weight, bias)
        for _ in range(2):
            torch.testing.assert_close(multiply(hidden), hidden @ weight.t() + bias)
    several = symbols >= linear._PACKED_SYMBOLS and rows > 1
    assert len(made) == (several and torch.backends.mkldnn.is_available())


def test_a_search_has_the_weight_as_it_is():
    """Also after what the version of a tensor does not tell: fused optimisers, and writing to `data`."""
    weight, hidden = nn.Parameter(torch.randn(linear._PACKED_SYMBOLS, 24)), torch.randn(3, 24)
    bias, optimizer = torch.randn(weight.size(0)), torch.optim.AdamW([weight], lr=0.1, fused=True)
    weight.grad = torch.randn(weight.shape)
    for change in (lambda: None, optimizer.step, lambda: weight.data.mul_(2.0)):
        change()
        with torch.inference_mode():
            torch.testing.assert_close(linear.linear(weight, bias)(hidden), hidden @ weight.t() + bias)


def test_without_the_private_functions_of_torch_the_plain_product_is_used(monkeypatch):
    monkeypatch.setattr(torch_private.torch.ops, "mkldnn", object())
    monkeypatch.setattr(torch_private.torch, "cpu", object())
    monkeypatch.setattr(torch_private, "has_onednn", torch_private.has_onednn.__wrapped__)
    with torch.inference_mode():
        assert not is_prepared(torch.randn(linear._PACKED_SYMBOLS, 24))
    assert not torch_private.multiplies_bfloat16(torch.device("cpu"))
