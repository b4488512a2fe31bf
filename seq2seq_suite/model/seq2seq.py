"""The whole model: front-end, encoder, guided decoder stack, output layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from seq2seq_suite.model.decoder import Cache, DecoderStack, Memory
from seq2seq_suite.model.dropout import Dropout
from seq2seq_suite.model.encoders import SelfAttentionEncoder
from seq2seq_suite.model.frontends import Tokens, Words, token_embedding
from seq2seq_suite.model.guide import Guide
from seq2seq_suite.model.layers import LayerShape
from seq2seq_suite.model.output import Labeller, OutputLayer
from seq2seq_suite.model.positions import LearnedPositions, NoPositions, RotaryPositions, SinusoidalPositions
from seq2seq_suite.types import Batch, Sizes, States

if TYPE_CHECKING:
    from seq2seq_suite.config import Backbone


@dataclass(frozen=True)
class Prompt:
    """All that decoding needs of a batch of sentences, computed once."""

    memory: Memory
    guide: Tensor | None  # (B,S,K*D)
    states: States

    def select(self, sentences: Tensor) -> Prompt:
        """The given sentences, (B',) int64."""
        states = States(self.states.values.index_select(0, sentences), self.states.mask.index_select(0, sentences))
        guide = self.guide.index_select(0, sentences) if self.guide is not None else None
        return Prompt(self.memory.select(sentences), guide, states)


class Seq2Seq(nn.Module):
    """An encoder-decoder Transformer made of given parts.

    Args:
        frontend: source -> States.
        encoder: States -> States.
        decoder: the stack.
        positions: of the target.
        embedding: of target symbols.
        output: hidden -> logits.
        dropout_rate: of the embedded target.
        guide: adds the automaton's state to the decoder's input; or None.
        labeller: predicts auxiliary labels at each source position; or None.
    """

    def __init__(self, frontend: nn.Module, encoder: nn.Module, decoder: DecoderStack, *, positions: nn.Module,
                 embedding: nn.Embedding, output: OutputLayer, dropout_rate: float, guide: Guide | None = None,
                 labeller: Labeller | None = None):
        super().__init__()
        self.frontend, self.encoder, self.decoder = frontend, encoder, decoder
        self.positions, self.embedding, self.output = positions, embedding, output
        self.dropout = Dropout(dropout_rate)
        self.guide, self.labeller = guide, labeller
        self.scale = math.sqrt(embedding.embedding_dim)

    def encode(self, batch: Batch) -> States:
        """The batch's source as vectors (B,S',D)."""
        return self.encoder(self.frontend(batch.source, batch.source_mask))

    def prepare(self, states: States) -> Prompt:
        """What decoding needs of the encoder's output, computed once for all steps."""
        guide = self.guide.prepare(states.values) if self.guide is not None else None
        return Prompt(self.decoder.remember(states), guide, states)

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
        x = self.positions(self.embedding(symbols) * self.scale, offset)
        if self.guide is not None:
            x = self.guide(x, prompt.guide, focus, context)
        return self.dropout(x)

    def decode(self, x: Tensor, visible: Tensor | None, prompt: Prompt, cache: Cache | None = None,
               *, mask: Tensor | None = None) -> tuple[Tensor, Cache | None]:
        """Hidden states (N,T,D) of embedded input (N,T,D); see `DecoderStack.forward`."""
        return self.decoder(x, visible, prompt.memory, cache, mask=mask)

    def num_parameters(self) -> int:
        """Trained numbers, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


def build_model(backbone: Backbone, sizes: Sizes) -> Seq2Seq:
    """The model that a configuration and a task's vocabularies describe."""
    shape = LayerShape(backbone.width, backbone.feed_forward_width, backbone.num_heads, backbone.dropout,
                       backbone.attention_dropout, backbone.activation, backbone.norm, backbone.norm_placement)
    rotary = None
    if backbone.positions == "rotary":
        rotary = RotaryPositions(backbone.width // backbone.num_heads, backbone.max_positions)
    embedding = token_embedding(sizes.target_symbols, backbone.width)
    output = OutputLayer(backbone.width, sizes.target_symbols, tied=embedding if backbone.tie_embeddings else None)
    guide = None
    if sizes.num_focus:
        guide = Guide(backbone.width, sizes.num_focus, sizes.num_context, sizes.target_symbols)
    labeller = Labeller(backbone.width, sizes.source_labels) if sizes.source_labels else None
    return Seq2Seq(
        _build_frontend(backbone, sizes, embedding),
        SelfAttentionEncoder(shape, backbone.encoder_layers, rotary),
        DecoderStack(shape, backbone.decoder_layers, rotary=rotary),
        positions=_build_positions(backbone), embedding=embedding, output=output, dropout_rate=backbone.dropout,
        guide=guide, labeller=labeller)


def _build_positions(backbone: Backbone) -> nn.Module:
    match backbone.positions:
        case "sinusoidal":
            return SinusoidalPositions(backbone.width, backbone.max_positions)
        case "learned":
            return LearnedPositions(backbone.width, backbone.max_positions)
        case _:
            return NoPositions()


def _build_frontend(backbone: Backbone, sizes: Sizes, target_embedding: nn.Embedding) -> nn.Module:
    positions = _build_positions(backbone)
    if not sizes.words:
        embedding = target_embedding if sizes.shared_symbols else token_embedding(sizes.source_symbols, backbone.width)
        return Tokens(embedding, positions=positions, dropout_rate=backbone.dropout)
    return Words(sizes.source_symbols, sizes.source_characters, backbone.width, positions=positions,
                 dropout_rate=backbone.dropout, unknown_probability=torch.tensor(sizes.unknown_probability))
