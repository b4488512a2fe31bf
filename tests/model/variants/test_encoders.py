"""Encoders by convolution and by recurrence: their equations, their reach, and what padding may do."""

import pytest
import torch
from torch import nn

from seq2seq_suite.common.types import States
from seq2seq_suite.model.variants.convolutional import ConvolutionalEncoder, GatedConvolution
from seq2seq_suite.model.variants.recurrent import RecurrentEncoder

KINDS = {
    "conv": {"encoder": "conv", "encoder_kernel": 3},
    "dilated": {"encoder": "conv", "encoder_kernel": 3, "encoder_dilations": (1, 2)},
    "post": {"encoder": "conv", "encoder_kernel": 5, "norm_placement": "post"},
    "lstm": {"encoder": "rnn"},
    "gru": {"encoder": "rnn", "cell": "gru"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing_at_real_positions(make_model, make_batch, kind):
    model, batch = make_model(**KINDS[kind]), make_batch([4, 7, 1], [2, 2, 2])
    states = model.encode(batch)
    for row, length in enumerate((4, 7, 1)):
        alone = make_batch([length], [2])
        alone = type(alone)(
            batch.source[row : row + 1, :length],
            batch.source_mask[row : row + 1, :length],
            alone.target,
            alone.target_mask,
            alone.given,
            "test",
        )
        torch.testing.assert_close(model.encode(alone).values[0], states.values[row, :length], rtol=1e-4, atol=1e-5)


def test_a_gated_convolution_is_its_equation(roughen):
    layer, x, mask = roughen(GatedConvolution(6, 3, 2)), torch.randn(1, 7, 6), torch.ones(1, 7, dtype=torch.bool)
    got, weight, bias = layer(x, mask), layer.convolution.weight, layer.convolution.bias
    for place in range(7):
        total = bias.clone()
        for number, offset in enumerate((-2, 0, 2)):
            if 0 <= place + offset < 7:
                total = total + weight[:, :, number] @ x[0, place + offset]
        value, gate = total.chunk(2)
        torch.testing.assert_close(got[0, place], value * gate.sigmoid(), rtol=1e-4, atol=1e-5)


def test_layers_reach_as_far_as_their_windows_together(layer_shape, roughen):
    encoder = roughen(ConvolutionalEncoder(layer_shape(), 2, kernel=3, dilations=(1, 3))).eval()
    x, mask = torch.randn(1, 15, 16), torch.ones(1, 15, dtype=torch.bool)
    before = encoder(States(x, mask)).values
    x[0, 7, 0] += 1.0  # of all features alike, a norm would see nothing
    changed = (encoder(States(x, mask)).values - before).abs().amax(2)[0] > 1e-6
    assert changed.nonzero().squeeze(1).tolist() == [3, 4, 5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_recurrent_layer_is_that_of_torch_read_both_ways(layer_shape, cell):
    encoder = RecurrentEncoder(layer_shape(norm_placement="post"), 1, cell=cell).eval()
    (layer,) = encoder.layers
    build = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
    forward, backward = build(16, 8, batch_first=True), build(16, 8, batch_first=True)
    for name, value in layer.named_parameters():
        part = backward if name.endswith("_reverse") else forward
        getattr(part, name.removesuffix("_reverse")).data = value.data
    x, mask = torch.randn(1, 5, 16), torch.tensor([[True] * 4 + [False]])
    ahead, back = forward(x[:, :4])[0], backward(x[:, :4].flip(1))[0].flip(1)
    got = encoder(States(x, mask)).values
    torch.testing.assert_close(got[:, :4], torch.cat((ahead, back), 2))
    assert (got[:, 4] == 0).all()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_recurrent_layer_adds_to_what_it_reads(layer_shape, cell):
    encoder = RecurrentEncoder(layer_shape(norm_placement="post"), 2, cell=cell).eval()
    for value in encoder.layers[1].parameters():
        value.data.zero_()  # such a layer reads nothing
    states = States(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool))
    one = RecurrentEncoder(layer_shape(norm_placement="post"), 1, cell=cell).eval()
    one.layers[0].load_state_dict(encoder.layers[0].state_dict())
    torch.testing.assert_close(encoder(states).values, one(states).values)
