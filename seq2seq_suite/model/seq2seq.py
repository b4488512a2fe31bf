"""The whole model: front-end, encoder, decoder, output layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from seq2seq_suite.common.types import PerRow, States
from seq2seq_suite.model.layers import causal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seq2seq_suite.common.types import Batch
    from seq2seq_suite.model.decoder import Cache, CrossKeysValues, TransformerDecoder
    from seq2seq_suite.model.output import OutputLayer
    from seq2seq_suite.model.variants.factorised import FactorisedEmbedding
    from seq2seq_suite.model.variants.recurrent import RecurrentDecoder


@dataclass(frozen=True)
class Memory(PerRow):
    """What decoding needs of a batch of sources, computed once."""

    cross: CrossKeysValues | None
    states: States


class Seq2Seq(nn.Module):
    """p(y_t | y_<t, x): an encoder-decoder Transformer made of given parts; without a front-end a language model.

    Subclasses stand beside it: `prefix` reads the source in the decoder, `guide`, `pointer` and `tag` add a part each.

    Args:
        frontend: source -> States; None for a language model.
        encoder: States -> States; None for a language model.
        decoder: without an encoder it has no memory.
        positions: of the target.
        embedding, scale: of target symbols, and its factor; None: sqrt(D), Vaswani et al. 2017, section 3.4.
        output: hidden -> logits.
        dropout_rate: of the embedded target.
    """

    reads: ClassVar[tuple[str, ...]] = ()  # what `embed` asks to know of the task's automaton: see `Constraint`

    def __init__(
        self,
        frontend: nn.Module | None,
        encoder: nn.Module | None,
        decoder: TransformerDecoder | RecurrentDecoder,
        *,
        positions: nn.Module,
        embedding: nn.Embedding | FactorisedEmbedding,
        output: OutputLayer,
        dropout_rate: float,
        scale: float | None = None,
    ):
        super().__init__()
        self.frontend, self.encoder, self.decoder = frontend, encoder, decoder
        self.positions, self.embedding, self.output = positions, embedding, output
        self.dropout = nn.Dropout(dropout_rate)
        self.scale = math.sqrt(embedding.embedding_dim) if scale is None else scale

    def forward(self, source: Tensor, source_mask: Tensor, target_in: Tensor, **state: Tensor) -> Tensor:
        """The definition: each symbol sees the source and the symbols before it; all faster paths agree with it.

        Args:
            source, source_mask: as of a `Batch`.
            target_in: (B,T) int64, BEGIN y_1 ... y_T-1.
            state: of the automaton, as `reads` says.

        Returns:
            (B,T,V) logits of y_1 ... y_T.
        """
        memory = self.prepare(self.encode_source(source, source_mask))
        x = self.embed(target_in, memory, **state)
        hidden, _ = self.decode(x, causal(target_in.size(1), device=target_in.device), memory)
        return self.logits(hidden, memory)

    def encode(self, batch: Batch) -> States:
        """The batch's source as vectors (B,S',D), empty for a language model."""
        return self.encode_source(batch.source, batch.source_mask)

    def encode_source(self, source: Tensor, source_mask: Tensor) -> States:
        """`encode` of a source and its mask."""
        if self.frontend is None:
            nothing = source_mask[:, :0]
            return States(self.output.bias.new_zeros(*nothing.shape, self.embedding.embedding_dim), nothing)
        return self.read(self.frontend(source, source_mask))

    def read(self, states: States) -> States:
        """Embedded source -> encoder output."""
        assert self.encoder is not None  # a language model reads nothing
        return self.encoder(states)

    def prepare(self, states: States) -> Memory:
        """The memory for all steps of decoding, computed once."""
        return Memory(self.decoder.prepare_memory(states), states)

    def new_cache(self, memory: Memory) -> Cache:
        """The cache before the target's first symbol, a row for each sentence."""
        return self.decoder.new_cache(memory.states.values)

    def target_length(self, cache: Cache, memory: Memory) -> int:
        """The number of target symbols in a cache."""
        return cache.length

    def embed(self, symbols: Tensor, memory: Memory, *, offset: int | Tensor = 0) -> Tensor:
        """The decoder's input.

        Args:
            symbols: (N,T) int64 previous symbols.
            memory: of B sentences, N a multiple of B.
            offset: positions before the first column, the same of all rows or (N,).

        Returns:
            (N,T,D).
        """
        return self.dropout(self.with_positions(symbols, memory, offset))

    def with_positions(self, symbols: Tensor, memory: Memory, offset: int | Tensor) -> Tensor:
        """`embed` before dropout."""
        return self.positions(self.embed_symbols(symbols), offset)

    def embed_symbols(self, symbols: Tensor) -> Tensor:
        """Vectors (...,D) of symbols (...) int64, without positions."""
        return self.embedding(symbols) * self.scale

    def add_positions(self, vectors: Tensor) -> Tensor:
        """The decoder's input (N,T,D) from vectors (N,T,D) instead of symbols, with positions."""
        return self.dropout(self.positions(vectors))

    def decode(
        self, x: Tensor, visible: Tensor | None, memory: Memory, cache: Cache | None = None
    ) -> tuple[Tensor, Cache | None]:
        """Hidden states (N,T,D) of embedded input (N,T,D); see `TransformerDecoder.forward`."""
        return self.decoder(x, visible, memory.cross, cache)

    def logits(self, hidden: Tensor, memory: Memory) -> Tensor:
        """(N,T,V) unnormalised log-probabilities of the symbols after hidden states (N,T,D)."""
        return self.output(hidden)

    def cross_entropy(
        self,
        hidden: Tensor,
        memory: Memory,
        targets: Tensor,
        asked: Tensor,
        label_smoothing: float = 0.0,
        row_weights: Tensor | None = None,
    ) -> Tensor:
        """Summed cross-entropy with smoothed labels, in float32.

        Args:
            hidden, memory: (N,T,D) before each symbol, and what they read.
            targets: (N,T) int64.
            asked: (P,) int64, the `places` in the target of the symbols that count.
            label_smoothing: share of probability spread over all symbols.
            row_weights: (P,) float32, of these symbols in the sum; None: 1.
        """
        hidden, targets = hidden.flatten(0, 1).index_select(0, asked), targets.flatten().index_select(0, asked)
        return self.output.cross_entropy(hidden, targets, label_smoothing, row_weights)

    def gather_log_probs(
        self, hidden: Tensor, memory: Memory, asked: Tensor, symbols: Tensor, *, never: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`gather_log_probs` of `output` for symbols (P,K) at the places `asked` (P,) of hidden states (N,T,D)."""
        return self.output.gather_log_probs(hidden.flatten(0, 1).index_select(0, asked), symbols, never=never)
