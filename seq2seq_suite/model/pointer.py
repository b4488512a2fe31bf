"""Copying from the source: a mixture of generating a symbol and pointing at one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import SPECIALS, UNLIKELY, States, source_symbols
from seq2seq_suite.model.output import LogitTerm
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq


class Pointer(nn.Module):
    """p(w) = g P_vocabulary(w) + (1 - g) sum over i with w_i = w of a_i.

    The attention a over source positions has its own projections, a = softmax((W_q h)(W_k m_i)^T / sqrt(D)), and
    the gate is g = sigmoid(w [h; sum_i a_i m_i] + b). Positions without a symbol of the target vocabulary are
    masked; if all are, g is 1.

    Source: See et al. 2017, eq. 8 and 9.
    Differs: dot-product attention instead of additive; the gate does not see the input embedding beside the state;
    only words of the vocabulary are copied: it is not extended by those of each example.
    """

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(2 * width, 1)
        nn.init.zeros_(self.gate.bias)

    def forward(self, hidden: Tensor, logits: Tensor, states: States) -> Tensor:
        """Log-probabilities of the next symbol.

        Args:
            hidden: (N,T,D), N a multiple of B, a sentence's beams side by side.
            logits: (N,T,V) of the vocabulary.
            states: of the source, (B,S,D), with their symbols (B,S).

        Returns:
            (N,T,V) float32.
        """
        assert states.symbols is not None  # `PointerSeq2Seq.encode_source` gives them
        words, width, symbols = states.symbols, hidden.size(-1), logits.size(-1)
        hidden_BKD = hidden.reshape(len(words), -1, width)  # K = beams * T queries to one source
        scores = self.query(hidden_BKD) @ self.key(states.values).transpose(1, 2) / math.sqrt(width)
        can_copy = (states.mask & (words >= len(SPECIALS))).unsqueeze(1)
        weights = scores.float().masked_fill(~can_copy, torch.finfo(torch.float32).min).softmax(-1) * can_copy
        gate = self.gate(torch.cat((hidden_BKD, weights.to(states.values.dtype) @ states.values), -1)).float()
        gate = gate.masked_fill(~can_copy.any(-1, keepdim=True), float("inf"))

        # Where each word of the source occurs last: there goes the attention to all its places.
        order = torch.arange(words.size(1), device=words.device).expand_as(words)
        last = words.new_zeros(len(words), symbols).scatter_reduce_(1, words, order, "amax").gather(1, words)
        mass = torch.zeros_like(weights).scatter_add(2, last.unsqueeze(1).expand_as(weights), weights)
        # The smallest number keeps the logarithm and its gradient finite where nothing is copied.
        copied = functional.logsigmoid(-gate) + mass.clamp(min=torch.finfo(torch.float32).tiny).log()
        generated = functional.logsigmoid(gate) + torch.log_softmax(logits.float(), -1).view(len(words), -1, symbols)
        # log(e^x + e^y) = x + softplus(y - x), for the source's words alone: the others have no y.
        places = words.unsqueeze(1).expand_as(weights)
        added = functional.softplus(copied - generated.gather(2, places)) * (mass > 0)
        return generated.scatter_add(2, places, added).view_as(logits)


def smoothed_cross_entropy(
    log_probabilities: Tensor, targets: Tensor, label_smoothing: float, row_weights: Tensor | None = None
) -> Tensor:
    """-(1 - e) log p(y) - e / V sum_v log p(v), summed over rows.

    Args:
        log_probabilities: (N,V).
        targets: (N,) int64.
        label_smoothing: e.
        row_weights: (N,) float32, of the rows in the sum; None: 1.

    Source: Szegedy et al. 2016, section 7.
    """
    log_probabilities = log_probabilities if row_weights is None else log_probabilities * row_weights.unsqueeze(1)
    chosen = log_probabilities.gather(1, targets.unsqueeze(1)).sum()
    if not label_smoothing:
        return -chosen
    return -(1.0 - label_smoothing) * chosen - label_smoothing * log_probabilities.mean(1).sum()


class WholeLogits(Seq2Seq):
    """A model whose losses need all logits together, because something is added to those of the output layer."""

    def cross_entropy(
        self,
        hidden: Tensor,
        memory: Memory,
        targets: Tensor,
        asked: Tensor,
        label_smoothing: float = 0.0,
        row_weights: Tensor | None = None,
    ) -> Tensor:
        """See `Seq2Seq.cross_entropy`."""
        targets = targets.flatten().index_select(0, asked)
        logits = self.logits(hidden, memory).flatten(0, 1).index_select(0, asked)
        return smoothed_cross_entropy(logits.float().log_softmax(-1), targets, label_smoothing, row_weights)

    def gather_log_probs(
        self, hidden: Tensor, memory: Memory, asked: Tensor, symbols: Tensor, *, never: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Seq2Seq.gather_log_probs`."""
        logits = self.logits(hidden, memory).flatten(0, 1).index_select(0, asked).float()
        for symbol in never:
            logits[:, symbol] = UNLIKELY
        scores = logits.log_softmax(-1)
        gained, best = scores.detach().max(-1)
        return scores.gather(1, symbols), best, gained


class PointerSeq2Seq(WholeLogits):
    """A model with a `pointer`, by which symbols are copied from the source."""

    pointer: Pointer

    def encode_source(self, source: Tensor, source_mask: Tensor) -> States:
        """See `Seq2Seq.encode_source`; with the symbols of the source."""
        return replace(super().encode_source(source, source_mask), symbols=source_symbols(source))

    def logits(self, hidden: Tensor, memory: Memory) -> Tensor:
        """See `Seq2Seq.logits`."""
        return self.pointer(hidden, super().logits(hidden, memory), memory.states)


@dataclass(frozen=True)
class TermMemory(Memory):
    """A memory with a term of the logits."""

    added: LogitTerm


class TermSeq2Seq(WholeLogits):
    """A model to whose logits a strategy adds a term that it reads off the source."""

    @staticmethod
    def with_term(memory: Memory, added: LogitTerm) -> TermMemory:
        """The memory with the term."""
        return TermMemory(memory.cross, memory.states, added)

    def logits(self, hidden: Tensor, memory: Memory) -> Tensor:
        """See `Seq2Seq.logits`."""
        logits = super().logits(hidden, memory)
        return logits + memory.added(hidden) if isinstance(memory, TermMemory) else logits
