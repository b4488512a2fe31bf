"""Copying from the source: a mixture of generating a symbol and pointing at one."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.types import SPECIALS, States


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
        rows, length, width = hidden.shape
        sentences, symbols = states.symbols.size(0), logits.size(-1)
        hidden_BKD = hidden.reshape(sentences, -1, width)  # K = beams * T queries to one source
        scores = self.query(hidden_BKD) @ self.key(states.values).transpose(1, 2) / math.sqrt(width)
        can_copy = (states.mask & (states.symbols >= len(SPECIALS))).unsqueeze(1)
        scores = scores.float().masked_fill(~can_copy, torch.finfo(torch.float32).min)
        weights = scores.softmax(-1) * can_copy
        pointed = weights.to(states.values.dtype) @ states.values
        gate = self.gate(torch.cat((hidden_BKD, pointed), -1)).float()
        gate = gate.masked_fill(~can_copy.any(-1, keepdim=True), float("inf"))

        places = states.symbols.unsqueeze(1).expand_as(weights)
        copied = weights.new_zeros(*weights.shape[:2], symbols).scatter_add(2, places, weights)
        # The smallest number keeps the logarithm and its gradient finite if nothing is copied.
        copied = copied.clamp(min=torch.finfo(torch.float32).tiny).log()
        written = torch.log_softmax(logits.float(), -1).view(sentences, -1, symbols)
        mixed = torch.logaddexp(functional.logsigmoid(gate) + written, functional.logsigmoid(-gate) + copied)
        return mixed.view(rows, length, symbols)


def smoothed_cross_entropy(log_probabilities: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
    """-(1 - e) log p(y) - e / V sum_v log p(v), summed over rows.

    Args:
        log_probabilities: (N,V).
        targets: (N,) int64.
        label_smoothing: e.

    Source: Szegedy et al. 2016, section 7.
    """
    chosen = log_probabilities.gather(1, targets.unsqueeze(1)).sum()
    if not label_smoothing:
        return -chosen
    return -(1.0 - label_smoothing) * chosen - label_smoothing * log_probabilities.mean(1).sum()
