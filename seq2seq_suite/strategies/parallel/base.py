"""All target positions in parallel: the base of the non-autoregressive strategies.

Shape suffixes in this module: B sentences, N rows (a multiple of B, a sentence's rows side by side), S encoder
positions, C decoder positions, T target symbols, D width, V symbols.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import BEGIN, PAD, UNKNOWN, UNLIKELY
from seq2seq_suite.strategies.base import Strategy
from seq2seq_suite.strategies.parallel.glancing import glance

if TYPE_CHECKING:
    from seq2seq_suite.common.types import Batch, Constraint, Hypothesis, Loss, States
    from seq2seq_suite.model.guide import GuidedMemory, GuidedSeq2Seq
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.options.strategies import ParallelOptions

UNREADABLE = (PAD, BEGIN, UNKNOWN)  # symbols that no text has


def uniform_copy(states: States, lengths: Tensor, most: int = 0) -> tuple[Tensor, Tensor]:
    """Encoder positions copied uniformly over the decoder's: C position t reads S position round(t (S-1) / (C-1)).

    Args:
        states: the encoder's output, B sentences.
        lengths: (N,) int64, C of each row.
        most: no length is larger; 0 if unknown. It is C where the largest length would need a device synchronisation.

    Returns:
        (N,C,D) and mask (N,C).

    Source: Gu et al. 2018, section 3.1.
    """
    rows, sources = lengths.size(0), states.mask.sum(1)
    repeats = rows // sources.size(0)
    positions = most if most and lengths.device.type != "cpu" else int(lengths.max())
    place = torch.arange(positions, device=lengths.device)
    step = (sources.repeat_interleave(repeats) - 1).clamp(min=0) / (lengths - 1).clamp(min=1)
    mask = place < lengths.unsqueeze(1)
    index = (place * step.unsqueeze(1)).round().long().masked_fill(~mask, 0)
    values = states.values.repeat_interleave(repeats, 0) if repeats > 1 else states.values
    return values.gather(1, index.unsqueeze(2).expand(-1, -1, values.size(2))), mask


class Parallel(Strategy):
    """A strategy whose decoder sees all positions of an input that is copied from the source."""

    options: ParallelOptions
    never: ClassVar[tuple[int, ...]] = UNREADABLE  # symbols that are never predicted

    @abstractmethod
    def decoder_length(self, states: States, batch: Batch) -> Tensor:
        """(B,) int64, how many positions the decoder has in training."""

    @abstractmethod
    def own_loss(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor, revealed: Tensor
    ) -> Loss:
        """The loss of hidden states (B,C,D) at real positions `mask` (B,C), some of them `revealed` (B,C)."""

    @abstractmethod
    def alignment(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(B,C) int64 each: the target's symbol at each position that has one, -1 elsewhere; the likeliest symbol."""

    @abstractmethod
    def predict(
        self,
        model: Seq2Seq,
        batch: Batch,
        states: States,
        memory: Memory,
        *,
        options: SearchOptions,
        limit: Tensor,
        constraint: Constraint | None,
    ) -> list[list[Hypothesis]]:
        """For each sentence its hypotheses, best first."""

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """The strategy's own loss, and the auxiliary ones."""
        states = model.encode(batch)
        memory = model.prepare(states)
        most = self.options.most_positions(states.mask.size(1)) or batch.target.size(1)
        vectors, mask = self.decoder_inputs(model, memory, batch, self.decoder_length(states, batch), most)
        symbols, revealed = self.glance(model, memory, batch, vectors, mask)
        hidden = self.run_decoder(model, memory, vectors, mask, symbols, revealed)
        own = self.own_loss(model, memory, batch, hidden, mask, revealed)
        return self.auxiliaries.added(own, batch, states)

    @torch.inference_mode()
    def generate(
        self,
        model: Seq2Seq,
        batch: Batch,
        *,
        options: SearchOptions,
        limit: Tensor,
        constraint: Constraint | None = None,
    ) -> list[list[Hypothesis]]:
        states = model.encode(batch)
        found = self.predict(
            model,
            batch,
            states,
            model.prepare(states),
            options=options,
            limit=limit,
            constraint=constraint if options.constraint else None,
        )
        return self.auxiliaries.annotated(found, states)

    def decoder_inputs(
        self, model: Seq2Seq, memory: Memory, batch: Batch, lengths: Tensor, most: int = 0
    ) -> tuple[Tensor, Tensor]:
        """The decoder's input (N,C,D) for rows of `lengths` (N,), and its mask (N,C); `most` as of `uniform_copy`."""
        return uniform_copy(memory.states, lengths, most)

    def glance(
        self, model: Seq2Seq, memory: Memory, batch: Batch, vectors: Tensor, mask: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        """Symbols (B,C) to show in the decoder's input and where (B,C) bool; None and nowhere outside training."""
        return glance(self, model, memory, batch, vectors, mask)

    @staticmethod
    def run_decoder(
        model: Seq2Seq,
        memory: Memory,
        vectors: Tensor,
        mask: Tensor,
        symbols: Tensor | None = None,
        revealed: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (N,C,D) over vectors (N,C,D), with `symbols` (N,C), if any, in their place where `revealed`."""
        if symbols is not None and revealed is not None:
            targets = model.embed_symbols(symbols.clamp(min=0))
            vectors = torch.where(revealed.unsqueeze(2), targets.to(vectors.dtype), vectors)
        return model.decode(model.add_positions(vectors), mask.unsqueeze(1), memory)[0]

    def output_log_probs(self, model: Seq2Seq, memory: Memory, hidden: Tensor) -> Tensor:
        """(N,C,V) float32 log-probabilities of the symbols that an output may have."""
        logits = model.logits(hidden, memory).float()
        for symbol in self.never:
            logits[..., symbol] = UNLIKELY
        return logits.log_softmax(-1)


class Aligned(Parallel):
    """A parallel decoder whose guide, where it has one, reads the source positions that each symbol is tied to."""

    def decoder_inputs(
        self, model: Seq2Seq, memory: Memory, batch: Batch, lengths: Tensor, most: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Decoder inputs; with a guide, only its features, zero after the target."""
        vectors, mask = super().decoder_inputs(model, memory, batch, lengths, most)
        if model.reads:
            guided, known = cast("GuidedSeq2Seq", model), cast("GuidedMemory", memory)  # as `reads` says
            focus = functional.pad(batch.auxiliary["focus"], (0, 0, 0, mask.size(1)), value=-1)[:, : mask.size(1)]
            focus = focus.repeat_interleave(len(mask) // len(focus), 0)
            vectors = guided.guide(torch.zeros_like(vectors), known.guide, focus, focus[..., :0])
        return vectors, mask


def symbols_before_end(batch: Batch) -> Tensor:
    """(B,) int64, target symbols of each row without END."""
    return batch.target_mask.sum(1) - 1
