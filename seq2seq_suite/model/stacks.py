"""Builds encoder and decoder: the tables of their kinds and of positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from seq2seq_suite.model.attention import MultiHeadAttention
from seq2seq_suite.model.decoder import TransformerDecoder
from seq2seq_suite.model.encoder import TransformerEncoder
from seq2seq_suite.model.layers import FeedForward, LayerShape
from seq2seq_suite.model.positions import (
    LearnedPositions,
    NoPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
)
from seq2seq_suite.model.variants.additive import AdditiveMultiHeadAttention
from seq2seq_suite.model.variants.alibi import AlibiPositions
from seq2seq_suite.model.variants.convolutional import ConvolutionalEncoder
from seq2seq_suite.model.variants.experts import MixtureOfExperts
from seq2seq_suite.model.variants.recurrent import RecurrentDecoder, RecurrentEncoder
from seq2seq_suite.model.variants.universal import UniversalTransformerDecoder, UniversalTransformerEncoder

if TYPE_CHECKING:
    from seq2seq_suite.options.backbone import Backbone

# Added to the input; `backbone.positions` of another kind add nothing.
INPUT_POSITIONS = {
    "sinusoidal": lambda backbone: SinusoidalPositions(backbone.width, backbone.max_positions),
    "learned": lambda backbone: LearnedPositions(backbone.width, backbone.max_positions),
}
# Inside self-attention; those of another kind leave it as it is.
ATTENTION_POSITIONS = {
    "rotary": lambda backbone: RotaryPositions(backbone.width // backbone.num_heads, backbone.max_positions),
    "alibi": lambda backbone: AlibiPositions(backbone.num_heads),
}
ATTENTIONS = {"dot": MultiHeadAttention, "additive": AdditiveMultiHeadAttention}  # by `backbone.attention_score`


def build_positions(backbone: Backbone) -> nn.Module:
    """The positions that are added to the input of an encoder or a decoder."""
    build = INPUT_POSITIONS.get(backbone.positions)
    return build(backbone) if build is not None else NoPositions()


def build_encoder(backbone: Backbone) -> nn.Module:
    """States -> States."""
    shape, positions = _shape(backbone, backbone.encoder_kernel), _attention_positions(backbone)
    match backbone.encoder:
        case "conv":
            return ConvolutionalEncoder(shape, backbone.encoder_layers, dilations=backbone.encoder_dilations)
        case "rnn":
            return RecurrentEncoder(shape, backbone.encoder_layers, cell=backbone.cell)
    if backbone.encoder_steps == 1:
        return TransformerEncoder(shape, backbone.encoder_layers, positions)
    return UniversalTransformerEncoder(shape, backbone.encoder_layers, positions, num_steps=backbone.encoder_steps,
                                       step_positions=build_positions(backbone))


def prepared(stack: nn.Module) -> nn.Module:
    """The encoder or the decoder for a search, in which its weights are constant: as it is."""
    return stack


def build_decoder(backbone: Backbone, *, has_memory: bool) -> nn.Module:
    """The decoder, called as `TransformerDecoder` is."""
    shape, positions = _shape(backbone, backbone.decoder_kernel), _attention_positions(backbone)
    if backbone.decoder == "rnn":
        return RecurrentDecoder(backbone.width, backbone.decoder_layers, cell=backbone.cell,
                                dropout_rate=backbone.dropout)
    if backbone.decoder_steps == 1:
        return TransformerDecoder(shape, backbone.decoder_layers, positions, has_memory=has_memory)
    return UniversalTransformerDecoder(shape, backbone.decoder_layers, positions, num_steps=backbone.decoder_steps,
                                       step_positions=build_positions(backbone), has_memory=has_memory)


def _attention_positions(backbone: Backbone) -> RelativePositions | None:
    build = ATTENTION_POSITIONS.get(backbone.positions)
    return build(backbone) if build is not None else None


def _shape(backbone: Backbone, kernel: int) -> LayerShape:
    feed_forward = None
    if backbone.experts:
        def feed_forward(shape: LayerShape) -> MixtureOfExperts:
            networks = [FeedForward(shape) for _ in range(backbone.experts)]
            return MixtureOfExperts(networks, shape.width, experts_per_token=backbone.experts_per_token,
                                    capacity=backbone.expert_capacity)
    return LayerShape(width=backbone.width, feed_forward_width=backbone.feed_forward_width,
                      num_heads=backbone.num_heads, dropout=backbone.dropout,
                      attention_dropout=backbone.attention_dropout, activation=backbone.activation,
                      norm=backbone.norm, norm_placement=backbone.norm_placement, kernel=kernel,
                      attention=ATTENTIONS[backbone.attention_score], feed_forward=feed_forward)
