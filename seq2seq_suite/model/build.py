"""Builds the model that a configuration describes: front-end, encoder, decoder, positions and heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from seq2seq_suite.common.shapes import (
    PictureShape,
    SentenceShape,
    Shape,
    SoundShape,
    SourceShape,
    TokenShape,
    WordShape,
)
from seq2seq_suite.common.types import PAD
from seq2seq_suite.model.audio import Masking, Subsampled
from seq2seq_suite.model.embeddings import token_embedding
from seq2seq_suite.model.frontends import Tokens, Words
from seq2seq_suite.model.guide import Guide
from seq2seq_suite.model.output import OutputLayer
from seq2seq_suite.model.picture import ConvolutionalStem
from seq2seq_suite.model.pointer import Pointer
from seq2seq_suite.model.prefix import PrefixSeq2Seq
from seq2seq_suite.model.segments import Segments, Sentences
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.model.stacks import build_decoder, build_encoder, build_positions
from seq2seq_suite.model.variants.factorised import FactorisedEmbedding

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
    guide = Guide(backbone.width, target.num_focus, target.num_context, target.symbols) if target.num_focus else None
    pointer = Pointer(backbone.width) if isinstance(source, TokenShape) and source.copied else None
    encodes = has_source and backbone.encoder != "none"
    positions = build_positions(backbone)
    # Source and target are one sequence for a decoder-only model, with consecutive learned positions.
    frontend = _build_frontend(backbone, source, embedding, build_positions(backbone) if encodes else positions
                               ) if has_source else None
    if like:
        encoder, decoder = like[0][1].encoder, like[0][1].decoder
        frontend = next((model.frontend for other, model in like if _sound_alike(other.source, source)), frontend)
    else:
        encoder = build_encoder(backbone) if encodes else None
        decoder = build_decoder(backbone, has_memory=encodes)
    kind = PrefixSeq2Seq if has_source and not encodes else Seq2Seq
    return kind(frontend, encoder, decoder, positions=positions, embedding=embedding, output=output,
                dropout_rate=backbone.dropout, guide=guide, pointer=pointer, has_tag=backbone.source_tag)


def _sound_alike(one: SourceShape, other: SourceShape) -> bool:
    """Whether one front-end for sound serves both."""
    return isinstance(one, SoundShape) and isinstance(other, SoundShape) and (
        len(one.mean), one.subsampling) == (len(other.mean), other.subsampling)


def _build_frontend(backbone: Backbone, source: SourceShape, target_embedding: nn.Embedding | FactorisedEmbedding,
                    positions: nn.Module) -> nn.Module:
    width, rate = backbone.width, backbone.dropout

    def embedding(padding_idx: int | None = None) -> nn.Embedding | FactorisedEmbedding:
        return token_embedding(source.symbols, width, narrow_width=backbone.embedding_width, padding_idx=padding_idx)

    match source:
        case SoundShape():
            return Subsampled(torch.tensor(source.mean), torch.tensor(source.deviation), width,
                              factor=source.subsampling, positions=positions, dropout_rate=rate,
                              masking=Masking(*source.masking))
        case PictureShape():
            return ConvolutionalStem(width, stride=source.stride, channels=source.channels, dropout_rate=rate)
        case WordShape():
            return Words(embedding(), source.characters, positions=positions, dropout_rate=rate,
                         unknown_probability=torch.tensor(source.dropped))
    segments = Segments(source.segments, width, jitter=source.segment_jitter) if source.segments else None
    if isinstance(source, SentenceShape):
        return Sentences(embedding(PAD), segments=segments, dropout_rate=rate)
    return Tokens(target_embedding if source.shared else embedding(), positions=positions, dropout_rate=rate,
                  segments=segments)
