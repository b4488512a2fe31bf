"""A classifier of each target symbol on the encoder, and a pointer from the decoder to what it found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq_suite.types import SPECIALS, States

_RARE = -4.0  # the bias of a fresh head: most labels do not hold


@dataclass(frozen=True)
class LabelView:
    """What the head found in B sources: logits (B,V), and with label-wise attention vectors (B,V,D)."""

    logits: Tensor
    vectors: Tensor | None

    def select(self, sentences: Tensor) -> LabelView:
        """The given sentences, (B',) int64."""
        vectors = self.vectors.index_select(0, sentences) if self.vectors is not None else None
        return LabelView(self.logits.index_select(0, sentences), vectors)


class LabelHead(nn.Module):
    """Is symbol l in the target? Pooled: w_l . mean(memory) + b_l. Label-wise, with a query for each symbol:

        v_l = sum_s softmax_s(q_l . K memory_s / sqrt(D)) V memory_s,    logit_l = w_l . v_l + b_l

    With a pointer the decoder's logit of l gains (P h) . v_l / sqrt(D) + gamma logit_l, so that it sees in one step
    what the source says of each label. Scores from outside, where the states hold them, add a_l score_l to logit_l.

    Args:
        width: D.
        num_symbols: V, the specials included; their logits are kept at zero.
        label_wise: attention of its own for each symbol.
        pointer: adds to the decoder's logits; needs `label_wise`.
        scores: reads scores from outside.

    Source: Mullenbach et al. 2018 (CAML), eq. 1-3, for label-wise attention; Vinyals et al. 2015 for pointing.
    """

    def __init__(self, width: int, num_symbols: int, *, label_wise: bool = False, pointer: bool = False,
                 scores: bool = False):
        super().__init__()
        if pointer and not label_wise:
            raise ValueError("a pointer needs label-wise attention")
        self.has_pointer, self.scale = pointer, 1.0 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(num_symbols, width))
        nn.init.normal_(self.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.full((num_symbols,), _RARE))
        self.register_buffer("is_label", torch.arange(num_symbols) >= len(SPECIALS), persistent=False)
        self.queries = nn.Parameter(torch.randn(num_symbols, width)) if label_wise else None
        if label_wise:
            self.keys, self.values = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.score_gain = nn.Parameter(torch.ones(num_symbols)) if scores else None
        if pointer:
            self.project = nn.Linear(width, width, bias=False)
            self.gain = nn.Parameter(torch.tensor(0.1))

    def forward(self, states: States) -> LabelView:
        """(B,S,D) -> logits (B,V) and vectors (B,V,D); padding changes nothing."""
        mask = states.mask.unsqueeze(-1)
        if self.queries is None:
            pooled = (states.values * mask).sum(1) / mask.sum(1).clamp(min=1)
            logits, vectors = nn.functional.linear(pooled, self.weight, self.bias), None
        else:
            scores = torch.matmul(self.keys(states.values), self.queries.t()).transpose(1, 2).float() * self.scale
            shares = scores.masked_fill(~states.mask.unsqueeze(1), float("-inf")).softmax(-1)
            vectors = torch.matmul(shares.to(states.values.dtype), self.values(states.values))
            logits = (vectors * self.weight).sum(-1) + self.bias
        if self.score_gain is not None:
            logits = logits + self.score_gain * states.scores
        return LabelView(logits.float().masked_fill(~self.is_label, 0.0), vectors)

    def point(self, hidden: Tensor, view: LabelView) -> Tensor:
        """What the decoder's logits gain.

        Args:
            hidden: (N,D) or (N,T,D), N a multiple of B, a sentence's rows side by side.
            view: of B sources.

        Returns:
            (N,V) or (N,T,V).
        """
        beams = hidden.size(0) // view.logits.size(0)
        vectors = view.vectors.repeat_interleave(beams, 0)
        logits = view.logits.repeat_interleave(beams, 0)
        flat = hidden.unsqueeze(1) if hidden.dim() == 2 else hidden
        added = torch.matmul(self.project(flat), vectors.transpose(1, 2)) * self.scale
        added = added + self.gain * logits.unsqueeze(1)
        return added.squeeze(1) if hidden.dim() == 2 else added

    def loss(self, view: LabelView, targets: Tensor, mask: Tensor) -> Tensor:
        """Summed binary cross-entropy over all labels, float32.

        Args:
            view: of B sources.
            targets: (B,T) symbols of each target; END and specials count for nothing.
            mask: (B,T) bool.
        """
        wanted = torch.zeros_like(view.logits).scatter_(1, targets.masked_fill(~mask, 0), 1.0)
        return nn.functional.binary_cross_entropy_with_logits(
            view.logits[:, len(SPECIALS):], wanted[:, len(SPECIALS):], reduction="sum")
