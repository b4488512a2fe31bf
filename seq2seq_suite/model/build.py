"""Builds the model that a configuration describes: front-end, encoder, decoder, positions and heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from seq2seq_suite.common.parts import ACTIVATIONS, POSITIONS, TABLES, row_of
from seq2seq_suite.common.shapes import (
    PictureShape,
    SentenceShape,
    SetShape,
    Shape,
    SoundShape,
    SourceShape,
    TokenShape,
    WordShape,
)
from seq2seq_suite.common.types import PAD
from seq2seq_suite.common.user_code import blaming, is_code, load_code
from seq2seq_suite.model.attention import RelativePositions
from seq2seq_suite.model.audio import Masking, Subsampled
from seq2seq_suite.model.decoder import TransformerDecoder
from seq2seq_suite.model.encoder import TransformerEncoder
from seq2seq_suite.model.frontends import Tokens, Words
from seq2seq_suite.model.guide import Guide, GuidedSeq2Seq
from seq2seq_suite.model.layers import LayerShape
from seq2seq_suite.model.output import OutputLayer
from seq2seq_suite.model.picture import ConvolutionalStem
from seq2seq_suite.model.pointer import Pointer, PointerSeq2Seq, TermSeq2Seq
from seq2seq_suite.model.positions import NoPositions
from seq2seq_suite.model.prefix import PrefixSeq2Seq
from seq2seq_suite.model.segments import Segments, Sentences
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.model.tag import TaggedSeq2Seq
from seq2seq_suite.model.variants.conformer import Convolution
from seq2seq_suite.model.variants.convolutional import ConvolutionalEncoder
from seq2seq_suite.model.variants.embedding_norm import NormedPositions
from seq2seq_suite.model.variants.experts import MixtureOfExperts
from seq2seq_suite.model.variants.factorised import FactorisedEmbedding
from seq2seq_suite.model.variants.real_positions import (
    MaskedDecoder,
    MaskedEncoder,
    MaskedUniversalDecoder,
    MaskedUniversalEncoder,
)
from seq2seq_suite.model.variants.recurrent import RecurrentDecoder, RecurrentEncoder
from seq2seq_suite.model.variants.swiglu import GatedFeedForward
from seq2seq_suite.model.variants.universal import UniversalTransformerDecoder, UniversalTransformerEncoder
from seq2seq_suite.model.variants.whisper_frontend import WhisperFrontend

if TYPE_CHECKING:
    from seq2seq_suite.options.backbone import Backbone


def build_model(backbone: Backbone, shape: Shape, *, like: Sequence[tuple[Shape, Seq2Seq]] = ()) -> Seq2Seq:
    """The model that a configuration and a task's vocabularies describe.

    Args:
        backbone: the core's options.
        shape: what the vocabularies ask of it.
        like: models of other tasks with what theirs asked: encoder and decoder stack are the first one's, and a
            front-end for sound is that of the first model with the same kind of sound.
    """
    source, target = shape.source, shape.target
    has_source = type(source) is not SourceShape
    embedding = token_embedding(target.symbols, backbone.width, narrow_width=backbone.embedding_width)
    output = OutputLayer(backbone.width, target.symbols, tied=embedding if backbone.tie_embeddings else None)
    parts: dict[str, nn.Module | nn.Parameter] = {}
    if target.num_focus:
        parts["guide"] = Guide(backbone.width, target.num_focus, target.num_context, target.symbols)
    if isinstance(source, TokenShape) and source.copied:
        parts["pointer"] = Pointer(backbone.width)
    encodes = has_source and backbone.encoder != "none"
    positions, scale = _positions_of_input(backbone), None if backbone.scale_embeddings else 1.0
    # Source and target are one sequence for a decoder-only model, with consecutive learned positions.
    frontend = (
        _build_frontend(backbone, source, embedding, _positions_of_input(backbone) if encodes else positions, scale)
        if has_source
        else None
    )
    if like:
        encoder, decoder = like[0][1].encoder, like[0][1].decoder
        frontend = next((model.frontend for other, model in like if _sound_alike(other.source, source)), frontend)
    else:
        encoder = build_encoder(backbone) if encodes else None
        decoder = build_decoder(backbone, has_memory=encodes)
    if backbone.source_tag:
        parts["tag"] = nn.Parameter(torch.randn(backbone.width) * 0.02)
    kind = _kind(
        *(_WITH[name] for name in parts),
        *([TermSeq2Seq] if isinstance(target, SetShape) and target.pointer else []),
        *([PrefixSeq2Seq] if has_source and not encodes else []),
    )
    model = kind(
        frontend,
        encoder,
        decoder,
        positions=positions,
        embedding=embedding,
        output=output,
        dropout_rate=backbone.dropout,
        scale=scale,
    )
    for name, part in parts.items():
        setattr(model, name, part)
    return model


_WITH = {"guide": GuidedSeq2Seq, "pointer": PointerSeq2Seq, "tag": TaggedSeq2Seq}  # what a model with a part is


@cache
def _kind(*kinds: type[Seq2Seq]) -> type[Seq2Seq]:
    """A model that is of several kinds."""
    if len(kinds) < 2:
        return kinds[0] if kinds else Seq2Seq
    return type("".join(kind.__name__.removesuffix("Seq2Seq") for kind in kinds) + "Seq2Seq", kinds, {})


def _sound_alike(one: SourceShape, other: SourceShape) -> bool:
    """Whether one front-end for sound serves both."""
    return (
        isinstance(one, SoundShape)
        and isinstance(other, SoundShape)
        and (len(one.mean), one.subsampling, one.whisper) == (len(other.mean), other.subsampling, other.whisper)
    )


def _build_frontend(
    backbone: Backbone,
    source: SourceShape,
    target_embedding: nn.Embedding | FactorisedEmbedding,
    positions: nn.Module,
    scale: float | None,
) -> nn.Module:
    width, rate = backbone.width, backbone.dropout

    def embedding(padding_idx: int | None = None) -> nn.Embedding | FactorisedEmbedding:
        return token_embedding(source.symbols, width, narrow_width=backbone.embedding_width, padding_idx=padding_idx)

    match source:
        case SoundShape(whisper=True):
            masking = Masking(*source.masking) if any(source.masking) else None
            return WhisperFrontend(len(source.mean), width, dropout_rate=rate, masking=masking)
        case SoundShape():
            return Subsampled(
                torch.tensor(source.mean),
                torch.tensor(source.deviation),
                width,
                factor=source.subsampling,
                positions=positions,
                dropout_rate=rate,
                masking=Masking(*source.masking),
            )
        case PictureShape():
            return ConvolutionalStem(width, stride=source.stride, channels=source.channels, dropout_rate=rate)
        case WordShape():
            return Words(
                embedding(),
                source.characters,
                positions=positions,
                dropout_rate=rate,
                unknown_probability=torch.tensor(source.dropped),
            )
        case SentenceShape():
            segments = Segments(source.segments, width, jitter=source.segment_jitter)
            return Sentences(embedding(PAD), segments=segments, dropout_rate=rate, scale=scale)
        case TokenShape():
            segments = Segments(source.segments, width, jitter=source.segment_jitter) if source.segments else None
            return Tokens(
                target_embedding if source.shared else embedding(),
                positions=positions,
                dropout_rate=rate,
                segments=segments,
                scale=scale,
            )
    raise TypeError(f"no front-end reads {source}")


def token_embedding(
    size: int, width: int, *, narrow_width: int = 0, padding_idx: int | None = None
) -> nn.Embedding | FactorisedEmbedding:
    """An embedding whose rows have expected length one, as weights tied to the output need.

    Args:
        size: V.
        width: D.
        narrow_width: E of a factorised embedding; 0 for one matrix.
        padding_idx: a symbol whose vector is zero and stays so; None for none.
    """
    if narrow_width:
        embedding = FactorisedEmbedding(size, width, narrow_width, padding_idx=padding_idx)
    else:
        embedding = nn.Embedding(size, width, padding_idx=padding_idx)
    nn.init.normal_(embedding.weight, std=(narrow_width or width) ** -0.5)
    if padding_idx is not None:
        with torch.no_grad():
            embedding.weight[padding_idx] = 0.0
    return embedding


# -- encoder and decoder: parts by the tables of `common.parts` ------------------------------------------------------


@dataclass(frozen=True)
class OwnPart:
    """A class of the user's own with its parameters; called as the class.

    Args:
        made: the class.
        key, reference: where it is named, and FILE.py:NAME.
        parameters: keyword arguments besides those of the call.
    """

    made: Any
    key: str
    reference: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def needs_real_positions(self) -> bool:
        """Whether it asks for the `variants.real_positions`."""
        return getattr(self.made, "needs_real_positions", False)

    @property
    def ends_in_norm(self) -> bool:
        """Of a layer: as of `TransformerLayer`."""
        return getattr(self.made, "ends_in_norm", True)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Its instance; raises ConfigError with the line where it fails."""
        with blaming(self.reference, key=f"backbone.{self.key}", expected="a class that is called as the suite's own"):
            return self.made(*given, **named, **dict(self.parameters))


def part_of(backbone: Backbone, key: str) -> Any:
    """The class or function that a key of `backbone` names.

    Raises:
        ConfigError: it is the user's own, and not trusted or broken.
    """
    name, parameters = getattr(backbone, key), backbone.parameters.get(key, {})
    if is_code(name):
        return OwnPart(load_code(name, key=f"backbone.{key}"), key, name, tuple(parameters.items()))
    module, _, attribute = row_of(TABLES[key], name).code.rpartition(".")
    return getattr(import_module(module), attribute)


def _positions_of_input(backbone: Backbone) -> nn.Module:
    """The positions of source or target, and the norm of their sum with the embeddings."""
    positions = build_positions(backbone)
    return (
        NormedPositions(positions, part_of(backbone, "norm")(backbone.width)) if backbone.embedding_norm else positions
    )


def build_positions(backbone: Backbone) -> nn.Module:
    """The positions that are added to the input of an encoder or a decoder."""
    if _act_inside(backbone):
        return NoPositions()
    return part_of(backbone, "positions")(backbone.width, backbone.max_positions)


def _act_inside(backbone: Backbone) -> bool:
    """Whether positions act inside self-attention."""
    if not is_code(backbone.positions):
        return POSITIONS[backbone.positions].inside
    made = part_of(backbone, "positions").made
    return isinstance(made, type) and issubclass(made, RelativePositions)


def build_encoder(backbone: Backbone) -> nn.Module:
    """States -> States."""
    shape, positions = layer_shape(backbone, backbone.encoder_kernel), _positions_inside(backbone)
    match backbone.encoder:
        case "conv":
            return ConvolutionalEncoder(
                shape, backbone.encoder_layers, kernel=backbone.encoder_kernel, dilations=backbone.encoder_dilations
            )
        case "rnn":
            return RecurrentEncoder(shape, backbone.encoder_layers, cell=backbone.cell)
    if backbone.encoder_steps == 1:
        return (MaskedEncoder if shape.needs_real_positions else TransformerEncoder)(
            shape, backbone.encoder_layers, positions
        )
    return (MaskedUniversalEncoder if shape.needs_real_positions else UniversalTransformerEncoder)(
        shape,
        backbone.encoder_layers,
        positions,
        num_steps=backbone.encoder_steps,
        step_positions=build_positions(backbone),
    )


def build_decoder(backbone: Backbone, *, has_memory: bool) -> TransformerDecoder | RecurrentDecoder:
    """The decoder."""
    shape, positions = layer_shape(backbone, backbone.decoder_kernel), _positions_inside(backbone, decoder=True)
    if backbone.decoder == "rnn":
        return RecurrentDecoder(
            backbone.width, backbone.decoder_layers, cell=backbone.cell, dropout_rate=backbone.dropout
        )
    if backbone.decoder_steps == 1:
        return (MaskedDecoder if shape.needs_real_positions else TransformerDecoder)(
            shape, backbone.decoder_layers, positions, has_memory=has_memory
        )
    return (MaskedUniversalDecoder if shape.needs_real_positions else UniversalTransformerDecoder)(
        shape,
        backbone.decoder_layers,
        positions,
        num_steps=backbone.decoder_steps,
        step_positions=build_positions(backbone),
        has_memory=has_memory,
    )


def _positions_inside(backbone: Backbone, *, decoder: bool = False) -> RelativePositions | None:
    if not _act_inside(backbone):
        return None
    directed = {"causal": True} if decoder and row_of(POSITIONS, backbone.positions).directed else {}
    return part_of(backbone, "positions")(
        backbone.width // backbone.num_heads, backbone.max_positions, num_heads=backbone.num_heads, **directed
    )


def layer_shape(backbone: Backbone, kernel: int = 0) -> LayerShape:
    """What the layers of a stack are made of, with a convolution over `kernel` positions unless that is 0."""
    activation = part_of(backbone, "activation")
    if isinstance(activation, OwnPart):  # a class of it is made once, for all layers; a function is called as it is
        activation = (
            activation()
            if isinstance(activation.made, type)
            else partial(activation.made, **dict(activation.parameters))
        )
    norm, network = part_of(backbone, "norm"), part_of(backbone, "feed_forward")
    if backbone.feed_forward == "dense" and row_of(ACTIVATIONS, backbone.activation).gated:
        network = GatedFeedForward
    if backbone.experts:
        network = partial(
            _experts,
            network=network,
            count=backbone.experts,
            capacity=backbone.expert_capacity,
            experts_per_token=backbone.experts_per_token,
        )
    return LayerShape(
        width=backbone.width,
        feed_forward_width=backbone.feed_forward_width,
        num_heads=backbone.num_heads,
        dropout=backbone.dropout,
        attention_dropout=backbone.attention_dropout,
        activation=activation,
        norm=norm,
        attention=part_of(backbone, "attention_score"),
        feed_forward=network,
        layer=part_of(backbone, "norm_placement"),
        convolution=partial(Convolution, kernel=kernel) if kernel else None,
        needs_real_positions=bool(
            kernel or backbone.experts or any(getattr(part, "needs_real_positions", False) for part in (norm, network))
        ),
    )


def _experts(
    shape: LayerShape, *, network: Any, count: int, capacity: float, experts_per_token: int
) -> MixtureOfExperts:
    return MixtureOfExperts(
        [network(shape) for _ in range(count)], shape.width, experts_per_token=experts_per_token, capacity=capacity
    )
