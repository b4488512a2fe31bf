"""The model that a configuration describes: which front-end, encoder, decoder, positions and heads it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

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
from seq2seq_suite.sizes import Sizes, SoundShape
from seq2seq_suite.types import PAD

if TYPE_CHECKING:
    from seq2seq_suite.config_backbone import Backbone


def build_model(backbone: Backbone, sizes: Sizes, *, like: Sequence[tuple[Sizes, Seq2Seq]] = ()) -> Seq2Seq:
    """The model that a configuration and a task's vocabularies describe.

    Args:
        backbone: the core's options.
        sizes: what the vocabularies ask of it.
        like: models of other tasks with what theirs asked: encoder and decoder stack are the first one's, and a
            front-end for sound is that of the first model that hears in the same way.
    """
    embedding = token_embedding(sizes.target_symbols, backbone.width, narrow_width=backbone.embedding_width)
    output = OutputLayer(backbone.width, sizes.target_symbols, tied=embedding if backbone.tie_embeddings else None)
    guide = Guide(backbone.width, sizes.num_focus, sizes.num_context, sizes.target_symbols) if sizes.num_focus else None
    pointer = Pointer(backbone.width) if sizes.pointer else None
    encodes = sizes.has_source and backbone.encoder != "none"
    positions = build_positions(backbone)
    # Source and target are one sequence to a decoder alone: learned positions go on from one to the other.
    frontend = _build_frontend(backbone, sizes, embedding, build_positions(backbone) if encodes else positions
                               ) if sizes.has_source else None
    if like:
        encoder, decoder = like[0][1].encoder, like[0][1].decoder
        alike = [model.frontend for other, model in like if sizes.sound is not None and other.sound is not None
                 and _heard(other.sound) == _heard(sizes.sound)]
        frontend = alike[0] if alike else frontend
    else:
        encoder = build_encoder(backbone) if encodes else None
        decoder = build_decoder(backbone, has_memory=encodes)
    kind = PrefixSeq2Seq if sizes.has_source and not encodes else Seq2Seq
    return kind(frontend, encoder, decoder, positions=positions, embedding=embedding, output=output,
                dropout_rate=backbone.dropout, guide=guide, pointer=pointer, has_tag=backbone.source_tag)


def _heard(sound: SoundShape) -> tuple[int, int]:
    """What front-ends for sound must have in common to be one."""
    return len(sound.mean), sound.subsampling


def _build_frontend(backbone: Backbone, sizes: Sizes, target_embedding: nn.Embedding | FactorisedEmbedding,
                    positions: nn.Module) -> nn.Module:
    if sizes.sound is not None:
        sound = sizes.sound
        masking = Masking(sound.frequency_bars, sound.frequency_width, sound.time_bars, sound.time_share)
        return Subsampled(torch.tensor(sound.mean), torch.tensor(sound.deviation), backbone.width,
                          factor=sound.subsampling, positions=positions, dropout_rate=backbone.dropout,
                          masking=masking)
    if sizes.picture_stride:
        return ConvolutionalStem(backbone.width, stride=sizes.picture_stride, channels=sizes.picture_channels,
                                 dropout_rate=backbone.dropout)
    segments = None
    if sizes.source_segments:
        segments = Segments(sizes.source_segments, backbone.width, jitter=sizes.segment_jitter)
    if sizes.sentences:
        embedding = token_embedding(sizes.source_symbols, backbone.width, narrow_width=backbone.embedding_width,
                                    padding_idx=PAD)
        return Sentences(embedding, segments=segments, dropout_rate=backbone.dropout)
    embedding = target_embedding
    if not sizes.shared_symbols:
        embedding = token_embedding(sizes.source_symbols, backbone.width, narrow_width=backbone.embedding_width)
    if not sizes.words:
        return Tokens(embedding, positions=positions, dropout_rate=backbone.dropout, segments=segments)
    return Words(embedding, sizes.source_characters, positions=positions, dropout_rate=backbone.dropout,
                 unknown_probability=torch.tensor(sizes.unknown_probability))
