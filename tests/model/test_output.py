"""The output layer: cross-entropy by chunks is cross-entropy, and tied weights learn from both ends."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from seq2seq_suite.model import output
from seq2seq_suite.model.output import OutputLayer, linear_choice, linear_cross_entropy

COUNT, WIDTH, SYMBOLS = 13, 8, 11


def make_inputs() -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(shape) for shape in ((COUNT, WIDTH), (SYMBOLS, WIDTH), (SYMBOLS,))]


def value_and_gradients(function, inputs) -> list[torch.Tensor]:
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    value = function(*leaves)
    (0.7 * value).backward()
    return [value.detach(), *(leaf.grad for leaf in leaves)]


def plain(hidden, weight, bias, targets, smoothing):
    logits = functional.linear(hidden, weight, bias)
    return functional.cross_entropy(logits.float(), targets, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows_in_a_chunk", [1, 4, 13, 100])
def test_cross_entropy_by_chunks_is_that_of_torch_in_value_and_gradients(monkeypatch, smoothing, rows_in_a_chunk):
    monkeypatch.setattr(output, "_CHUNK_ELEMENTS", rows_in_a_chunk * SYMBOLS)
    inputs, targets = make_inputs(), torch.randint(0, SYMBOLS, (COUNT,))
    got = value_and_gradients(lambda h, w, b: linear_cross_entropy(h, w, b, targets, smoothing), inputs)
    expected = value_and_gradients(lambda h, w, b: plain(h, w, b, targets, smoothing), inputs)
    for have, want in zip(got, expected, strict=True):
        torch.testing.assert_close(have, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_under_autocast_cross_entropy_is_near_and_its_sum_float32(monkeypatch, smoothing):
    monkeypatch.setattr(output, "_CHUNK_ELEMENTS", 4 * SYMBOLS)
    inputs, targets = make_inputs(), torch.randint(0, SYMBOLS, (COUNT,))
    expected = value_and_gradients(lambda h, w, b: plain(h, w, b, targets, smoothing), inputs)
    with torch.autocast("cpu", torch.bfloat16):
        got = value_and_gradients(lambda h, w, b: linear_cross_entropy(h, w, b, targets, smoothing), inputs)
    for have, want in zip(got, expected, strict=True):
        assert have.dtype == torch.float32
        torch.testing.assert_close(have, want, rtol=0.03, atol=0.06)


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("rows_in_a_chunk", [1, 4, 100])
def test_a_choice_by_chunks_is_a_gathered_log_softmax_in_value_and_gradients(monkeypatch, rows_in_a_chunk, low):
    monkeypatch.setattr(output, "_CHUNK_ELEMENTS", rows_in_a_chunk * SYMBOLS)
    inputs, symbols = make_inputs(), torch.randint(0, SYMBOLS, (COUNT, 3))
    factors = torch.randn(COUNT, 3)

    def plain_choice(hidden, weight, bias):
        return (functional.linear(hidden, weight, bias).log_softmax(-1).gather(1, symbols) * factors).sum()

    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        got = value_and_gradients(lambda *inputs: (linear_choice(*inputs, symbols)[0] * factors).sum(), inputs)
    tolerance = {"rtol": 0.05, "atol": 0.1} if low else {"rtol": 1e-4, "atol": 1e-5}
    for have, want in zip(got, value_and_gradients(plain_choice, inputs), strict=True):
        assert have.dtype == torch.float32
        torch.testing.assert_close(have, want, **tolerance)
    if not low:
        _, best, gained = linear_choice(*inputs, symbols)
        score, likeliest = functional.linear(*inputs).log_softmax(-1).max(-1)
        assert torch.equal(best, likeliest)
        torch.testing.assert_close(gained, score)


def test_what_is_never_to_be_written_is_never_likeliest():
    torch.manual_seed(1)
    layer, hidden = OutputLayer(WIDTH, SYMBOLS).requires_grad_(False), torch.randn(COUNT, WIDTH)
    logits = layer(hidden)
    logits[:, [0, 5]] = float("-inf")
    score, likeliest = logits.log_softmax(-1).max(-1)
    _, best, gained = layer.choose(hidden, torch.zeros(COUNT, 1, dtype=torch.int64), never=(0, 5))
    assert torch.equal(best, likeliest)
    torch.testing.assert_close(gained, score)


def test_no_targets_cost_nothing():
    hidden, weight, bias = (tensor.requires_grad_() for tensor in make_inputs())
    loss = linear_cross_entropy(hidden[:0], weight, bias, torch.zeros(0, dtype=torch.int64), 0.1)
    loss.backward()
    assert float(loss.detach()) == 0.0 and not weight.grad.any()


def test_without_gradients_the_value_is_the_same():
    inputs, targets = make_inputs(), torch.randint(0, SYMBOLS, (COUNT,))
    with torch.no_grad():
        torch.testing.assert_close(linear_cross_entropy(*inputs, targets, 0.1), plain(*inputs, targets, 0.1))


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


def test_packed_weight_gives_the_logits_of_the_plain_one():
    torch.manual_seed(2)
    layer = OutputLayer(24, output._PACKED_SYMBOLS)
    nn.init.normal_(layer.bias)
    hidden = torch.randn(5, 1, 24)
    with torch.inference_mode():
        packed = layer.pack()
        torch.testing.assert_close(layer(hidden, packed), functional.linear(hidden, layer.weight, layer.bias))
    if torch.backends.mkldnn.is_available():
        assert packed is not None


@pytest.mark.parametrize("symbols", [output._PACKED_SYMBOLS - 1, output._PACKED_SYMBOLS])
def test_weight_is_not_packed_where_gradients_or_few_symbols_are(symbols):
    layer = OutputLayer(24, symbols)
    assert layer.pack() is None
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert layer.pack() is None
    with torch.inference_mode():
        assert (layer.pack() is None) == (symbols < output._PACKED_SYMBOLS or not torch.backends.mkldnn.is_available())
