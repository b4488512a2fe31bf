"""The whole model: front-end, encoder, guided decoder stack, output layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from seq2seq_suite.model.audio import Masking, Subsampled
from seq2seq_suite.model.ctc import CtcHead
from seq2seq_suite.model.dag import Links
from seq2seq_suite.model.decoder import Cache, DecoderStack, Memory, RecurrentDecoderStack
from seq2seq_suite.model.dropout import Dropout
from seq2seq_suite.model.embeddings import FactorisedEmbedding, token_embedding
from seq2seq_suite.model.encoders import (
    ConvolutionalEncoder,
    RecurrentEncoder,
    RecurrentNetworkEncoder,
    SelfAttentionEncoder,
)
from seq2seq_suite.model.experts import MixtureOfExperts
from seq2seq_suite.model.frontends import Tokens, Words
from seq2seq_suite.model.guide import Guide
from seq2seq_suite.model.label_head import LabelHead, LabelView
from seq2seq_suite.model.layers import LayerShape
from seq2seq_suite.model.length import LengthHead
from seq2seq_suite.model.output import Labeller, OutputLayer
from seq2seq_suite.model.picture import ConvolutionalStem, Patches
from seq2seq_suite.model.pointer import Pointer, smoothed_cross_entropy
from seq2seq_suite.model.positions import LearnedPositions, NoPositions, RotaryPositions, SinusoidalPositions
from seq2seq_suite.model.rnn_decoder import RecurrentNetworkDecoder
from seq2seq_suite.model.segments import Segments, Sentences
from seq2seq_suite.model.slots import Slots
from seq2seq_suite.sizes import Sizes
from seq2seq_suite.types import PAD, Batch, States

if TYPE_CHECKING:
    from seq2seq_suite.config_backbone import Backbone


@dataclass(frozen=True)
class Prompt:
    """All that decoding needs of a batch of sentences, computed once."""

    memory: Memory | None
    guide: Tensor | None  # (B,S,K*D)
    states: States
    labels: LabelView | None = None
    output: Tensor | None = None  # the output layer's weight, packed for many steps

    def select(self, sentences: Tensor) -> Prompt:
        """The given sentences, (B',) int64."""
        labels = self.labels.select(sentences) if self.labels is not None else None
        guide = self.guide.index_select(0, sentences) if self.guide is not None else None
        memory = self.memory.select(sentences) if self.memory is not None else None
        return Prompt(memory, guide, self.states.select(sentences), labels, self.output)


@dataclass(frozen=True)
class Extras:
    """What only some tasks ask of the model.

    Args:
        guide: adds the automaton's state to the decoder's input.
        labeller: predicts auxiliary labels at each source position.
        pointer: lets symbols be copied from the source.
        label_head: says of each target symbol whether it is in the target.
        ctc: spells what is said in the source out of the encoder's output.
        length_head: predicts how long the output will be.
        links: make the decoder's positions the vertices of a graph.
        slots: lie over a picture, each to write an object.
    """

    guide: Guide | None = None
    labeller: Labeller | None = None
    pointer: Pointer | None = None
    label_head: LabelHead | None = None
    ctc: CtcHead | None = None
    length_head: LengthHead | None = None
    links: Links | None = None
    slots: Slots | None = None


class Seq2Seq(nn.Module):
    """An encoder-decoder Transformer made of given parts, or a decoder alone.

    Args:
        frontend: source -> States; None for a language model.
        encoder: States -> States; None for a language model, whose decoder has no memory then.
        decoder: the stack, or a `RecurrentNetworkDecoder`, which is called alike.
        positions: of the target.
        embedding: of target symbols.
        output: hidden -> logits.
        dropout_rate: of the embedded target.
        extras: what the task asks for besides.
    """

    def __init__(self, frontend: nn.Module | None, encoder: nn.Module | None, decoder: DecoderStack, *,
                 positions: nn.Module, embedding: nn.Embedding | FactorisedEmbedding, output: OutputLayer,
                 dropout_rate: float, extras: Extras):
        super().__init__()
        self.frontend, self.encoder, self.decoder = frontend, encoder, decoder
        self.positions, self.embedding, self.output = positions, embedding, output
        self.dropout = Dropout(dropout_rate)
        self.guide, self.labeller = extras.guide, extras.labeller
        self.pointer, self.label_head, self.ctc = extras.pointer, extras.label_head, extras.ctc
        self.length_head, self.links, self.slots = extras.length_head, extras.links, extras.slots
        self.scale = math.sqrt(embedding.embedding_dim)
        self.has_experts = any(isinstance(part, MixtureOfExperts) for part in self.modules())

    def encode(self, batch: Batch) -> States:
        """The batch's source as vectors (B,S',D), none of them for a language model."""
        balance: list[Tensor] | None = [] if self.learns_balance() else None
        if self.encoder is None:
            nothing = batch.source_mask[:, :0]
            return States(self.output.bias.new_zeros(*nothing.shape, self.decoder.shape.width), nothing,
                          balance=balance)
        states = self.encoder(replace(self.frontend(batch.source, batch.source_mask), balance=balance))
        symbols = None
        if self.pointer is not None:
            symbols = batch.source if batch.source.dim() == 2 else batch.source[..., 0]
        return replace(states, symbols=symbols, scores=batch.scores, balance=balance)

    def prepare(self, states: States) -> Prompt:
        """What decoding needs of the encoder's output, computed once for all steps."""
        guide = self.guide.prepare(states.values) if self.guide is not None else None
        labels = self.label_head(states) if self.label_head is not None else None
        return Prompt(self.decoder.remember(states), guide, states, labels)

    def learns_balance(self) -> bool:
        """Whether a pass now leaves load-balance losses in its states: there are experts, and gradients."""
        return self.has_experts and torch.is_grad_enabled()

    def labels_of(self, states: States) -> tuple[tuple[int, ...], ...]:
        """The likeliest auxiliary label of each source position, of the first kind; empty rows without a labeller."""
        if self.labeller is None:
            return ((),) * states.mask.size(0)
        rows = self.labeller(states.values).tolist()
        return tuple(tuple(row[:length]) for row, length in zip(rows, states.mask.sum(1).tolist(), strict=True))

    def embed(self, symbols: Tensor, prompt: Prompt, *, offset: int = 0, focus: Tensor | None = None,
              context: Tensor | None = None) -> Tensor:
        """The decoder's input.

        Args:
            symbols: (N,T) int64 previous symbols.
            prompt: of B sentences, N a multiple of B.
            offset: position of the first column.
            focus, context: the automaton's state before each symbol to come, (N,T,K) and (N,T,M).

        Returns:
            (N,T,D).
        """
        x = self.positions(self.look_up(symbols), offset)
        if self.guide is not None:
            x = self.guide(x, prompt.guide, focus, context)
        return self.dropout(x)

    def look_up(self, symbols: Tensor) -> Tensor:
        """Vectors (...,D) of symbols (...) int64, without positions."""
        return self.embedding(symbols) * self.scale

    def place(self, vectors: Tensor) -> Tensor:
        """The decoder's input (N,T,D) made of vectors (N,T,D) instead of symbols: with positions."""
        return self.dropout(self.positions(vectors))

    def decode(self, x: Tensor, visible: Tensor | None, prompt: Prompt, cache: Cache | None = None,
               *, mask: Tensor | None = None) -> tuple[Tensor, Cache | None]:
        """Hidden states (N,T,D) of embedded input (N,T,D); see `DecoderStack.forward`."""
        # A first pass without gradients, whose outputs the second one reads, leaves no losses behind.
        balance = prompt.states.balance if self.learns_balance() else None
        return self.decoder(x, visible, prompt.memory, cache, mask=mask, balance=balance)

    def logits(self, hidden: Tensor, prompt: Prompt) -> Tensor:
        """(N,T,V) unnormalised log-probabilities of the symbols after hidden states (N,T,D)."""
        logits = self.output(hidden, prompt.output)
        if self._label_pointer:
            logits = logits + self.label_head.point(hidden, prompt.labels)
        return logits if self.pointer is None else self.pointer(hidden, logits, prompt.states)

    @property
    def _label_pointer(self) -> bool:
        return self.label_head is not None and self.label_head.has_pointer

    def cross_entropy(self, hidden: Tensor, prompt: Prompt, targets: Tensor, mask: Tensor,
                      label_smoothing: float = 0.0) -> Tensor:
        """Summed cross-entropy with smoothed labels, in float32.

        Args:
            hidden: (N,T,D) before each symbol.
            prompt: that they come from.
            targets: (N,T) int64.
            mask: (N,T) bool, True for the symbols that count.
            label_smoothing: share of probability spread over all symbols.
        """
        places = mask.flatten().nonzero().squeeze(1)
        targets = targets.flatten().index_select(0, places)
        if self.pointer is None and not self._label_pointer:
            return self.output.cross_entropy(hidden.flatten(0, 1).index_select(0, places), targets, label_smoothing)
        logits = self.logits(hidden, prompt).flatten(0, 1).index_select(0, places)
        return smoothed_cross_entropy(logits.float().log_softmax(-1), targets, label_smoothing)

    def num_parameters(self) -> int:
        """Trained numbers, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def num_core_parameters(self) -> int:
        """Those of encoder and decoder stack, which any task could share."""
        parts = [part for part in (self.encoder, self.decoder) if part is not None]
        return sum(parameter.numel() for part in parts for parameter in part.parameters())


def build_model(backbone: Backbone, sizes: Sizes) -> Seq2Seq:
    """The model that a configuration and a task's vocabularies describe."""
    shape = LayerShape(backbone.width, backbone.feed_forward_width, backbone.num_heads, backbone.dropout,
                       backbone.attention_dropout, backbone.activation, backbone.norm, backbone.norm_placement,
                       backbone.encoder_kernel, backbone.attention_score, backbone.experts, backbone.experts_per_token,
                       backbone.expert_capacity)
    rotary = None
    if backbone.positions == "rotary":
        rotary = RotaryPositions(backbone.width // backbone.num_heads, backbone.max_positions)
    embedding = token_embedding(sizes.target_symbols, backbone.width, narrow_width=backbone.embedding_width)
    output = OutputLayer(backbone.width, sizes.target_symbols, tied=embedding if backbone.tie_embeddings else None)
    extras = _build_extras(backbone.width, sizes)
    return Seq2Seq(
        _build_frontend(backbone, sizes, embedding) if sizes.has_source else None,
        _build_encoder(backbone, shape, rotary) if sizes.has_source else None,
        _build_decoder(backbone, shape, rotary, has_memory=sizes.has_source),
        positions=_build_positions(backbone), embedding=embedding, output=output, dropout_rate=backbone.dropout,
        extras=extras)


def _build_extras(width: int, sizes: Sizes) -> Extras:
    guide = label_head = None
    if sizes.num_focus:
        guide = Guide(width, sizes.num_focus, sizes.num_context, sizes.target_symbols)
    labeller = Labeller(width, sizes.source_labels) if sizes.source_labels else None
    if sizes.label_head:
        label_head = LabelHead(width, sizes.target_symbols, label_wise=sizes.label_head == "label_wise",
                               pointer=sizes.label_pointer, scores=sizes.scores)
    return Extras(guide, labeller, Pointer(width) if sizes.pointer else None, label_head,
                  CtcHead(width, sizes.ctc_symbols) if sizes.ctc_symbols else None,
                  LengthHead(width, sizes.length_ratio) if sizes.length_ratio else None,
                  Links(width, sizes.link_heads) if sizes.link_heads else None,
                  Slots(width, sizes.slots, sizes.picture_rows) if sizes.slots else None)


def _build_encoder(backbone: Backbone, shape: LayerShape, rotary: RotaryPositions | None) -> nn.Module:
    if backbone.encoder == "conv":
        return ConvolutionalEncoder(shape, backbone.encoder_layers, dilations=backbone.encoder_dilations)
    if backbone.encoder == "rnn":
        return RecurrentNetworkEncoder(shape, backbone.encoder_layers, cell=backbone.cell)
    if backbone.encoder_steps == 1:
        return SelfAttentionEncoder(shape, backbone.encoder_layers, rotary)
    return RecurrentEncoder(shape, backbone.encoder_layers, rotary, num_steps=backbone.encoder_steps,
                            positions=_build_positions(backbone))


def _build_decoder(backbone: Backbone, shape: LayerShape, rotary: RotaryPositions | None, *, has_memory: bool
                   ) -> nn.Module:
    if backbone.decoder == "rnn":
        return RecurrentNetworkDecoder(backbone.width, backbone.decoder_layers, cell=backbone.cell,
                                       dropout_rate=backbone.dropout)
    if backbone.decoder_steps == 1:
        return DecoderStack(shape, backbone.decoder_layers, rotary=rotary, has_memory=has_memory)
    return RecurrentDecoderStack(shape, backbone.decoder_layers, rotary=rotary, num_steps=backbone.decoder_steps,
                                 positions=_build_positions(backbone), has_memory=has_memory)


def _build_positions(backbone: Backbone) -> nn.Module:
    match backbone.positions:
        case "sinusoidal":
            return SinusoidalPositions(backbone.width, backbone.max_positions)
        case "learned":
            return LearnedPositions(backbone.width, backbone.max_positions)
        case _:
            return NoPositions()


def _build_frontend(backbone: Backbone, sizes: Sizes, target_embedding: nn.Embedding | FactorisedEmbedding
                    ) -> nn.Module:
    positions = _build_positions(backbone)
    if sizes.sound is not None:
        sound = sizes.sound
        masking = Masking(sound.frequency_bars, sound.frequency_width, sound.time_bars, sound.time_share)
        return Subsampled(torch.tensor(sound.mean), torch.tensor(sound.deviation), backbone.width,
                          factor=sound.subsampling, positions=positions, dropout_rate=backbone.dropout,
                          masking=masking)
    if sizes.picture_stride:
        if sizes.patches:
            return Patches(backbone.width, stride=sizes.picture_stride, dropout_rate=backbone.dropout)
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
