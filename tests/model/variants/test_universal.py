"""Layers that are applied several times are these layers in plain loops."""

import pytest
import torch

from seq2seq_suite.common.types import States
from seq2seq_suite.model.encoder import TransformerEncoder
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.positions import LearnedPositions, NoPositions
from seq2seq_suite.model.variants.universal import UniversalTransformerDecoder, UniversalTransformerEncoder

WIDTH = 16


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_universal_layers_are_the_same_layers_applied_again_in_plain_loops(layer_shape, roughen, placement):
    torch.manual_seed(3)
    shape = layer_shape(norm_placement=placement)
    positions = LearnedPositions(WIDTH, 9)
    encoder = roughen(UniversalTransformerEncoder(shape, 2, num_steps=3, step_positions=positions))
    x, mask = torch.randn(2, 5, WIDTH), torch.arange(5) < torch.tensor([[3], [5]])
    expected = x
    for step in range(3):
        expected = expected + encoder.signal.gains[step] * positions.table[:5] + encoder.signal.vectors[step]
        for layer in encoder.layers:
            expected, _ = layer(expected, mask.unsqueeze(1))
    if placement == "pre":
        expected = encoder.norm(expected)
    torch.testing.assert_close(encoder(States(x, mask)).values, expected)


@pytest.mark.parametrize(("placement", "weight"), [("pre", 0.0), ("post", 1.0)])
def test_positions_return_at_every_later_step_of_a_post_norm_stack_and_stay_in_a_pre_norm_one(
    layer_shape, placement, weight
):
    encoder = UniversalTransformerEncoder(
        layer_shape(norm_placement=placement), 1, num_steps=3, step_positions=NoPositions()
    )
    assert encoder.signal.gains.tolist() == [0.0, weight, weight]


def test_one_step_without_a_step_vector_is_the_ordinary_encoder(layer_shape, roughen):
    torch.manual_seed(4)
    encoder = roughen(UniversalTransformerEncoder(layer_shape(), 2, num_steps=1, step_positions=NoPositions()))
    ordinary = TransformerEncoder(layer_shape(), 2)
    ordinary.load_state_dict(
        {name: value for name, value in encoder.state_dict().items() if not name.startswith("signal.")}
    )
    with torch.no_grad():
        encoder.signal.vectors.zero_()
    states = States(torch.randn(2, 5, WIDTH), torch.arange(5) < torch.tensor([[3], [5]]))
    torch.testing.assert_close(encoder(states).values, ordinary(states).values)


def test_a_universal_decoder_is_its_layers_applied_again_in_plain_loops(layer_shape, roughen):
    torch.manual_seed(5)
    positions = LearnedPositions(WIDTH, 9)
    stack = roughen(
        UniversalTransformerDecoder(layer_shape(), 1, num_steps=2, step_positions=positions, has_memory=False)
    )
    x = torch.randn(2, 5, WIDTH)
    expected = x
    for step in range(2):
        expected = expected + stack.signal.gains[step] * positions.table[:5] + stack.signal.vectors[step]
        expected, _ = stack.layers[0](expected, causal(5))
    torch.testing.assert_close(stack(x, causal(5), None)[0], stack.norm(expected))
