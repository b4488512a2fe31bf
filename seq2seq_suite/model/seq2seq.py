"""The whole model: front-end, encoder, guided decoder stack, output layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seq2seq_suite import kernels
from seq2seq_suite.common.types import Batch, PerRow, States
from seq2seq_suite.model.decoder import Cache, CrossKeysValues, TransformerDecoder
from seq2seq_suite.model.dropout import Dropout
from seq2seq_suite.model.frontends import tokens_of
from seq2seq_suite.model.guide import Guide
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.output import LogitTerm, OutputLayer
from seq2seq_suite.model.pointer import Pointer, smoothed_cross_entropy
from seq2seq_suite.model.variants.factorised import FactorisedEmbedding


@dataclass(frozen=True)
class Memory(PerRow):
    """What decoding needs of a batch of sources, computed once."""

    cross: CrossKeysValues | None
    guide: Tensor | None  # (B,S,K*D)
    states: States
    added: LogitTerm | None = None  # by the strategy
    output: Callable[[Tensor], Tensor] | None = None  # the output layer, prepared for many steps
    decoder: Callable[..., tuple[Tensor, Cache]] | None = None  # the decoder, prepared likewise


class Seq2Seq(nn.Module):
    """p(y_t | y_<t, x): an encoder-decoder Transformer made of given parts; without a front-end a language model.

    Args:
        frontend: source -> States; None for a language model.
        encoder: States -> States; None for a language model.
        decoder: the stack, or a `RecurrentDecoder`, with the same interface; without an encoder it has no memory.
        positions: of the target.
        embedding: of target symbols.
        output: hidden -> logits.
        dropout_rate: of the embedded target.
        guide: adds the automaton's state to the decoder's input.
        pointer: lets symbols be copied from the source.
        has_tag: adds a learned vector for the task to the front-end's output, in joint runs.
    """

    def __init__(self, frontend: nn.Module | None, encoder: nn.Module | None, decoder: TransformerDecoder, *,
                 positions: nn.Module, embedding: nn.Embedding | FactorisedEmbedding, output: OutputLayer,
                 dropout_rate: float, guide: Guide | None = None, pointer: Pointer | None = None,
                 has_tag: bool = False):
        super().__init__()
        self.frontend, self.encoder, self.decoder = frontend, encoder, decoder
        self.positions, self.embedding, self.output = positions, embedding, output
        self.dropout = Dropout(dropout_rate)
        self.guide, self.pointer = guide, pointer
        self.tag = nn.Parameter(torch.randn(embedding.embedding_dim) * 0.02) if has_tag else None
        self.scale = math.sqrt(embedding.embedding_dim)
        self._prepared_encoder, self._prepared_decoder = kernels.chosen("encoder"), kernels.chosen("decoder")

    def forward(self, source: Tensor, source_mask: Tensor, target_in: Tensor, *, focus: Tensor | None = None,
                context: Tensor | None = None) -> Tensor:
        """The definition: each symbol sees the source and the symbols before it; all faster paths agree with it.

        Args:
            source, source_mask: as of a `Batch`.
            target_in: (B,T) int64, BEGIN y_1 ... y_T-1.
            focus, context: of the guide, (B,T,K) and (B,T,M).

        Returns:
            (B,T,V) logits of y_1 ... y_T.
        """
        memory = self.prepare(self.encode_source(source, source_mask))
        x = self.embed(target_in, memory, focus=focus, context=context)
        hidden, _ = self.decode(x, causal(target_in.size(1), device=target_in.device), memory)
        return self.logits(hidden, memory)

    def encode(self, batch: Batch) -> States:
        """The batch's source as vectors (B,S',D), empty for a language model."""
        return self.encode_source(batch.source, batch.source_mask)

    def encode_source(self, source: Tensor, source_mask: Tensor) -> States:
        """`encode` of a source and its mask."""
        if self.frontend is None:
            nothing = source_mask[:, :0]
            return States(self.output.bias.new_zeros(*nothing.shape, self.decoder.shape.width), nothing)
        states = self.frontend(source, source_mask)
        if self.tag is not None:
            states = replace(states, values=states.values + self.tag.to(states.values.dtype))
        symbols = tokens_of(source) if self.pointer is not None else None
        return replace(self.read(states), symbols=symbols)

    def read(self, states: States) -> States:
        """Embedded source -> encoder output."""
        return self._prepared_encoder(self.encoder)(states)

    def prepare(self, states: States) -> Memory:
        """The memory for all steps of decoding, computed once."""
        guide = self.guide.prepare(states.values) if self.guide is not None else None
        return Memory(self.decoder.remember(states), guide, states)

    def for_search(self, memory: Memory) -> Memory:
        """The memory with decoder and output layer prepared for the many steps of one search."""
        return replace(memory, output=self.output.prepare(), decoder=self._prepared_decoder(self.decoder))

    def new_cache(self, memory: Memory) -> Cache:
        """The cache before the target's first symbol, a row for each sentence."""
        return self.decoder.new_cache(memory.states.values)

    def written(self, cache: Cache, memory: Memory) -> int:
        """Target symbols in a cache."""
        return cache.length

    def embed(self, symbols: Tensor, memory: Memory, *, offset: int | Tensor = 0, focus: Tensor | None = None,
              context: Tensor | None = None) -> Tensor:
        """The decoder's input.

        Args:
            symbols: (N,T) int64 previous symbols.
            memory: of B sentences, N a multiple of B.
            offset: positions before the first column, the same of all rows or (N,).
            focus, context: the automaton's state before each symbol to come, (N,T,K) and (N,T,M).

        Returns:
            (N,T,D).
        """
        x = self.positions(self.look_up(symbols), offset)
        if self.guide is not None:
            x = self.guide(x, memory.guide, focus, context)
        return self.dropout(x)

    def look_up(self, symbols: Tensor) -> Tensor:
        """Vectors (...,D) of symbols (...) int64, without positions."""
        return self.embedding(symbols) * self.scale

    def place(self, vectors: Tensor) -> Tensor:
        """The decoder's input (N,T,D) from vectors (N,T,D) instead of symbols, with positions."""
        return self.dropout(self.positions(vectors))

    def decode(self, x: Tensor, visible: Tensor | None, memory: Memory, cache: Cache | None = None,
               *, mask: Tensor | None = None) -> tuple[Tensor, Cache | None]:
        """Hidden states (N,T,D) of embedded input (N,T,D); see `TransformerDecoder.forward`."""
        decoder = self.decoder if memory.decoder is None else memory.decoder
        return decoder(x, visible, memory.cross, cache, mask=mask)

    def logits(self, hidden: Tensor, memory: Memory) -> Tensor:
        """(N,T,V) unnormalised log-probabilities of the symbols after hidden states (N,T,D)."""
        logits = self.output(hidden, memory.output)
        if memory.added is not None:
            logits = logits + memory.added(hidden)
        return logits if self.pointer is None else self.pointer(hidden, logits, memory.states)

    def cross_entropy(self, hidden: Tensor, memory: Memory, targets: Tensor, asked: Tensor,
                      label_smoothing: float = 0.0) -> Tensor:
        """Summed cross-entropy with smoothed labels, in float32.

        Args:
            hidden: (N,T,D) before each symbol.
            memory: that they come from.
            targets: (N,T) int64.
            asked: (P,) int64, the `places` in the target of the symbols that count.
            label_smoothing: share of probability spread over all symbols.
        """
        targets = targets.flatten().index_select(0, asked)
        if self.pointer is None and memory.added is None:
            return self.output.cross_entropy(hidden.flatten(0, 1).index_select(0, asked), targets, label_smoothing)
        logits = self.logits(hidden, memory).flatten(0, 1).index_select(0, asked)
        return smoothed_cross_entropy(logits.float().log_softmax(-1), targets, label_smoothing)
