"""Factorised embeddings are the explicit product of their factors, as input and as output."""

import pytest
import torch
from making import num_parameters
from torch.nn import functional

from seq2seq_suite.common.shapes import SentenceShape, Shape, TargetShape, TokenShape, WordShape
from seq2seq_suite.common.types import PAD
from seq2seq_suite.kernels import output as fast_output
from seq2seq_suite.kernels.linear import _PACKED_SYMBOLS, linear
from seq2seq_suite.model.build import token_embedding
from seq2seq_suite.model.output import OutputLayer

SYMBOLS, WIDTH, NARROW = 13, 8, 3


def make_factors(symbols: int = SYMBOLS):
    torch.manual_seed(1)
    embedding = token_embedding(symbols, WIDTH, narrow_width=NARROW)
    return embedding, *(factor.detach().clone().requires_grad_() for factor in (embedding.weight, embedding.projection))


def test_input_and_tied_output_are_the_product_of_the_factors_in_value_and_gradient(monkeypatch):
    monkeypatch.setattr(fast_output, "_CHUNK_ELEMENTS", 2 * SYMBOLS)
    embedding, table, projection = make_factors()
    layer = OutputLayer(WIDTH, SYMBOLS, tied=embedding)
    symbols, targets = torch.randint(0, SYMBOLS, (5,)), torch.randint(0, SYMBOLS, (5,))
    wide = table @ projection.t()
    torch.testing.assert_close(embedding(symbols), wide[symbols])
    torch.testing.assert_close(layer(embedding(symbols)), wide[symbols] @ wide.t())

    got = layer.cross_entropy(embedding(symbols).tanh(), targets, 0.1)
    expected = functional.cross_entropy(wide[symbols].tanh() @ wide.t(), targets, reduction="sum", label_smoothing=0.1)
    got.backward()
    expected.backward()
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(embedding.weight.grad, table.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(embedding.projection.grad, projection.grad, rtol=1e-4, atol=1e-5)


def test_a_packed_narrow_weight_gives_the_same_logits():
    embedding, table, projection = make_factors(_PACKED_SYMBOLS)
    layer, hidden = OutputLayer(WIDTH, _PACKED_SYMBOLS, tied=embedding), torch.randn(4, 1, WIDTH)
    with torch.inference_mode():
        packed = linear(layer.weight, layer.bias)
        torch.testing.assert_close(packed(layer.narrow(hidden)), hidden @ (table @ projection.t()).t())


def test_rows_have_expected_length_one_and_padding_none():
    torch.manual_seed(2)
    for narrow in (0, 32):
        embedding = token_embedding(500, 64, narrow_width=narrow, padding_idx=PAD)
        lengths = embedding(torch.arange(500)).detach().norm(dim=1)
        assert lengths[PAD] == 0.0 and float(lengths[1:].mean()) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    "source, tables, projections",
    [
        (TokenShape(SYMBOLS), 2, 2),
        (TokenShape(SYMBOLS, shared=True), 1, 1),
        (WordShape(SYMBOLS, dropped=(0.0,) * SYMBOLS), 2, 2),
        (SentenceShape(SYMBOLS, segments=4), 2, 2),
    ],
    ids=["tokens", "shared", "words", "sentences"],
)
def test_every_front_end_of_symbols_has_narrow_ones(make_model, source, tables, projections):
    shape = Shape(source, TargetShape(SYMBOLS))
    narrow, wide = make_model(shape, embedding_width=NARROW), make_model(shape)
    saved = tables * SYMBOLS * (16 - NARROW) - projections * 16 * NARROW
    assert num_parameters(wide) - num_parameters(narrow) == saved
    untied = make_model(shape, embedding_width=NARROW, tie_embeddings=False)
    assert num_parameters(untied) - num_parameters(narrow) == 16 * SYMBOLS
