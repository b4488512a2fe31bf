"""Layers: PyTorch's with the same weights; the gated network against its equation."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from seq2seq_suite.common.types import States
from seq2seq_suite.model.build import build_encoder
from seq2seq_suite.model.layers import FeedForward, TransformerLayer, causal
from seq2seq_suite.model.positions import RotaryPositions
from seq2seq_suite.model.variants.real_positions import on_real_positions
from seq2seq_suite.options.backbone import Backbone


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    projections = ours.query, ours.key, ours.value
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = (
        torch.cat([getattr(one, name).data for one in projections]) for name in ("weight", "bias")
    )
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_norm(ours: nn.Module, theirs: nn.LayerNorm) -> None:
    theirs.weight.data, theirs.bias.data = ours.gain.data, ours.bias.data


def copy_feed_forward(ours: FeedForward, theirs: nn.Module) -> None:
    theirs.linear1.load_state_dict(ours.inner.state_dict())
    theirs.linear2.load_state_dict(ours.outer.state_dict())


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_an_encoder_layer_is_that_of_torch_with_the_same_weights(layer_shape, roughen, activation, placement):
    shape = layer_shape(activation=activation, norm_placement=placement)
    ours = roughen(shape.layer(shape))
    theirs = nn.TransformerEncoderLayer(
        16, 2, 24, dropout=0.0, activation=activation, batch_first=True, norm_first=placement == "pre"
    )
    copy_attention(ours.attention, theirs.self_attn)
    copy_feed_forward(ours.feed_forward, theirs)
    copy_norm(ours.attention_norm, theirs.norm1)
    copy_norm(ours.feed_forward_norm, theirs.norm2)
    x, mask = torch.randn(2, 6, 16), torch.arange(6) < torch.tensor([[4], [6]])
    got, _ = ours(x, mask.unsqueeze(1))
    torch.testing.assert_close(got[mask], theirs(x, src_key_padding_mask=~mask)[mask], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_decoder_layer_is_that_of_torch_with_the_same_weights(layer_shape, roughen, activation, placement):
    shape = layer_shape(activation=activation, norm_placement=placement)
    ours = roughen(shape.layer(shape, has_memory=True))
    theirs = nn.TransformerDecoderLayer(
        16, 2, 24, dropout=0.0, activation=activation, batch_first=True, norm_first=placement == "pre"
    )
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy_feed_forward(ours.feed_forward, theirs)
    for name, norm in (("attention", theirs.norm1), ("cross", theirs.norm2), ("feed_forward", theirs.norm3)):
        copy_norm(getattr(ours, f"{name}_norm"), norm)
    x, memory, mask = torch.randn(2, 5, 16), torch.randn(2, 6, 16), torch.arange(6) < torch.tensor([[4], [6]])
    got, past = ours(
        x, causal(5), memory=ours.cross_attention.memory_keys_values(memory), memory_visible=mask.unsqueeze(1)
    )
    expected = theirs(x, memory, tgt_mask=~causal(5)[0], memory_key_padding_mask=~mask)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert past is None


def test_swish_is_its_equation(layer_shape, roughen):
    shape, x = layer_shape(activation="swish"), torch.randn(2, 3, 16)
    network = roughen(shape.feed_forward(shape))
    inner = x @ network.inner.weight.t() + network.inner.bias
    expected = (inner / (1 + (-inner).exp())) @ network.outer.weight.t() + network.outer.bias
    torch.testing.assert_close(network(x), expected)


def test_geglu_is_its_equation_with_the_approximate_gelu(layer_shape, roughen):
    shape, x = layer_shape(activation="geglu", feed_forward_width=48), torch.randn(2, 3, 16)
    network = roughen(shape.feed_forward(shape))
    gate, value = (x @ half.t() for half in network.inner.weight.chunk(2))
    gate = gate / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)))
    torch.testing.assert_close(network(x), (gate * value) @ network.outer.weight.t())


def test_swiglu_is_its_equation_at_two_thirds_of_the_width(layer_shape, roughen):
    shape, x = layer_shape(activation="swiglu", feed_forward_width=48), torch.randn(2, 3, 16)
    network = roughen(shape.feed_forward(shape))
    gate, value = network.inner.weight.chunk(2)
    assert gate.shape == (32, 16) and network.inner.bias is None and network.outer.bias is None
    expected = (functional.silu(x @ gate.t()) * (x @ value.t())) @ network.outer.weight.t()
    torch.testing.assert_close(network(x), expected)
    assert shape.feed_forward(layer_shape(activation="swiglu", feed_forward_width=25)).outer.in_features == 24


def test_causal_sees_itself_and_all_before_it():
    assert causal(3).tolist() == [[[True, False, False], [True, True, False], [True, True, True]]]
    assert causal(2, past=2).tolist() == [[[True, True, True, False], [True, True, True, True]]]


def test_dropout_acts_in_training_only(layer_shape, roughen):
    layer = roughen(TransformerLayer(layer_shape(dropout=0.3, attention_dropout=0.3), RotaryPositions(8, 6)))
    x, mask = torch.randn(2, 6, 16), torch.ones(2, 6, dtype=torch.bool)
    assert not torch.equal(*(layer(x, mask.unsqueeze(1))[0] for _ in range(2)))
    layer.eval()
    assert torch.equal(*(layer(x, mask.unsqueeze(1))[0] for _ in range(2)))


def test_a_decoder_layer_convolves_between_its_two_attentions(layer_shape, roughen):
    layer = roughen(TransformerLayer(layer_shape(encoder_kernel=3), has_memory=True)).eval()
    x, mask, memory = torch.randn(2, 5, 16), torch.arange(5) < torch.tensor([[3], [5]]), torch.randn(2, 4, 16)
    seen, read = mask.unsqueeze(1), torch.ones(2, 1, 4, dtype=torch.bool)
    read_keys = layer.cross_attention.memory_keys_values(memory)
    y = x + layer.attention(layer.attention_norm(x), seen, None)[0]
    with on_real_positions(mask):
        got, _ = layer(x, seen, memory=read_keys, memory_visible=read)
        y = y + layer.convolution(layer.convolution_norm(y))
    y = y + layer.cross_attention.cross(layer.cross_norm(y), read_keys, read)
    expected = y + layer.feed_forward(layer.feed_forward_norm(y))
    torch.testing.assert_close(got[mask], expected[mask])


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_padding_changes_nothing_in_a_layer_with_a_convolution(layer_shape, roughen, placement):
    encoder = roughen(
        build_encoder(
            Backbone.model_validate(
                {
                    "width": 16,
                    "feed_forward_width": 24,
                    "num_heads": 2,
                    "dropout": 0.0,
                    "encoder_layers": 1,
                    "encoder_kernel": 5,
                    "norm_placement": placement,
                }
            )
        )
    )
    x = torch.randn(1, 7, 16)
    padded = torch.cat((x, 9.0 * torch.randn(1, 4, 16)), 1)
    mask = torch.arange(11).unsqueeze(0) < 7
    torch.testing.assert_close(encoder(States(padded, mask)).values[:, :7], encoder(States(x, mask[:, :7])).values)
