"""Targets that are sets, decoded one symbol after another: order, an order-free loss, and decisions over sets."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.shapes import SetShape
from seq2seq_suite.common.types import (
    BEGIN,
    END,
    PAD,
    SPECIALS,
    UNKNOWN,
    Batch,
    Constraint,
    Hypothesis,
    Loss,
    PerRow,
    States,
)
from seq2seq_suite.model.pointer import TermSeq2Seq
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.auxiliary import Auxiliaries

if TYPE_CHECKING:
    from seq2seq_suite.options.strategies import AutoregressiveOptions

_RARE = -4.0  # the bias of a fresh head: most labels do not hold
_EXTRA_STEPS = 1  # of a rollout beyond each target's length, to be seen after a mistake


@dataclass(frozen=True)
class LabelView(PerRow):
    """What the head found in B sources: logits (B,V), and with label-wise attention vectors (B,V,D)."""

    logits: Tensor
    vectors: Tensor | None


class LabelHead(nn.Module):
    """Is symbol l in the target? Pooled: w_l . mean(memory) + b_l. Label-wise, with a query for each symbol:

        v_l = sum_s softmax_s(q_l . K memory_s / sqrt(D)) V memory_s,    logit_l = w_l . v_l + b_l

    With a pointer the decoder's logit of l gains (P h) . v_l / sqrt(D) + gamma logit_l, so that it sees in one step
    what the source says of each label.

    Args:
        width: D.
        num_symbols: V, the specials included; their logits are kept at zero.
        label_wise: attention of its own for each symbol.
        pointer: adds to the decoder's logits; needs `label_wise`.

    Source: Mullenbach et al. 2018 (CAML), eq. 1-3, for label-wise attention; Vinyals et al. 2015 for pointing.
    """

    is_label: Tensor

    def __init__(self, width: int, num_symbols: int, *, label_wise: bool = False, pointer: bool = False):
        super().__init__()
        if pointer and not label_wise:
            raise ValueError("a pointer needs label-wise attention")
        self.scale = 1.0 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(num_symbols, width))
        nn.init.normal_(self.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.full((num_symbols,), _RARE))
        self.register_buffer("is_label", torch.arange(num_symbols) >= len(SPECIALS), persistent=False)
        self.queries = nn.Parameter(torch.randn(num_symbols, width)) if label_wise else None
        if label_wise:
            self.keys, self.values = nn.Linear(width, width, bias=False), nn.Linear(width, width)
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
        return LabelView(logits.float().masked_fill(~self.is_label, 0.0), vectors)

    def loss(self, view: LabelView, targets: Tensor, mask: Tensor) -> Tensor:
        """Summed binary cross-entropy over all labels, float32.

        Args:
            view: of B sources.
            targets: (B,T) symbols of each target; END and specials count for nothing.
            mask: (B,T) bool.
        """
        wanted = torch.zeros_like(view.logits).scatter_(1, targets.masked_fill(~mask, 0), 1.0)
        return nn.functional.binary_cross_entropy_with_logits(
            view.logits[:, len(SPECIALS) :], wanted[:, len(SPECIALS) :], reduction="sum"
        )


@dataclass(frozen=True)
class LabelPointing(PerRow):
    """The bonus on the decoder's logits from a head's predictions for B sources.

    Args:
        view: what it has found.
        project: (D,D) P.
        gain: gamma.
    """

    view: LabelView
    project: Tensor
    gain: Tensor

    def select(self, rows: Tensor) -> LabelPointing:
        """That of the given sources, (B',) int64."""
        return replace(self, view=self.view.select(rows))

    def __call__(self, hidden: Tensor) -> Tensor:
        """(N,T,V) of hidden states (N,T,D), N a multiple of B, a sentence's rows side by side."""
        beams = hidden.size(0) // self.view.logits.size(0)
        assert self.view.vectors is not None  # `LabelHead` sees to it
        vectors, logits = (part.repeat_interleave(beams, 0) for part in (self.view.vectors, self.view.logits))
        projected = functional.linear(hidden, self.project)
        added = torch.matmul(projected, vectors.transpose(1, 2)) / math.sqrt(hidden.size(-1))
        return added + self.gain * logits.unsqueeze(1)


class Sets(Assisted):
    """An autoregressive model of sets.

    The order-free loss uses neither label smoothing nor scheduled sampling.

    Source: the order-free loss is that of optimal completion distillation (Sabour et al. 2019) applied to label sets
    (Tsai & Lee 2020): -log sum_{l in gold, not yet predicted} p(l), END once all are predicted, along the model's own
    rollout.
    """

    writes = ("labels",)

    def __init__(self, options: AutoregressiveOptions, target: SetShape, width: int, auxiliaries: Auxiliaries):
        super().__init__(options, target, width, auxiliaries)
        self.sets = target
        self.head = (
            LabelHead(width, target.symbols, label_wise=self.sets.head == "label_wise", pointer=self.sets.pointer)
            if self.sets.head
            else None
        )

    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """Target symbols, and examples for the label head."""
        name = "set" if self.sets.order == "free" else "cross_entropy"
        counts: dict[str, int | Tensor] = {name: batch.target_mask.sum()}
        if self.head is not None and self.sets.head_weight:
            counts["label_head"] = batch.target.size(0)
        return counts

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """The sequence's or the set's loss, and the label head's binary cross-entropy."""
        memory, found = self._read(model, batch)
        if self.sets.order == "random" and self.training:
            batch = replace(batch, target=shuffle(batch.target))
        if self.sets.order == "free":
            own = Loss({"set": self._set_loss(model, batch, memory)}, self.own_counts(batch), {"set": 1.0})
        else:
            own = self._cross_entropy(model, batch, memory)
        if self.head is not None and found is not None and self.sets.head_weight:
            own.sums["label_head"] = self.head.loss(found, batch.target, batch.target_mask)
            own.weights["label_head"] = self.sets.head_weight
        return self.auxiliaries.added(own, batch, memory.states)

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
        """Hypotheses of each item, best first; orders of one set count together where the sets are weighed.

        Only the first hypothesis has marginals, and none that was sampled.
        """
        if options.sampling or not (self.sets.head_mixture or self.sets.marginals):
            return super().generate(model, batch, options=options, limit=limit, constraint=constraint)
        # Without a length penalty, so that a score is a log-probability.
        wide = options.changed(num_hypotheses=options.beam_size, length_penalty=0.0)
        memory, view = self._read(model, batch)
        found = self.beam(model, batch, memory, options=wide, limit=limit, constraint=constraint)
        verdicts = view.logits.cpu().double() if view is not None and self.sets.head_mixture else None
        symbols = model.output.bias.numel()
        return [
            self._decide(hypotheses, verdicts[row] if verdicts is not None else None, symbols)[: options.num_hypotheses]
            for row, hypotheses in enumerate(found)
        ]

    def encode_source(self, model: Seq2Seq, batch: Batch) -> Memory:
        """What decoding needs of the batch's sources, and where the head points."""
        return self._read(model, batch)[0]

    def _read(self, model: Seq2Seq, batch: Batch) -> tuple[Memory, LabelView | None]:
        states = model.encode(batch)
        if self.head is None:
            return model.prepare(states), None
        view, memory = self.head(states), model.prepare(states)
        if self.sets.pointer:
            term = LabelPointing(view, self.head.project.weight, self.head.gain)
            memory = TermSeq2Seq.with_term(memory, term)
        return memory, view

    def _set_loss(self, model: Seq2Seq, batch: Batch, memory: Memory) -> Tensor:
        """-log sum_{l remaining} p(l) at each step of a rollout, up to the step that should write END."""
        previous, remaining, real = self._rollout(model, batch, memory)
        stepped = replace(batch, target_mask=real)
        log_probabilities = model.logits(self._hidden(model, stepped, memory, previous), memory).float().log_softmax(-1)
        return -log_probabilities.masked_fill(~remaining, float("-inf")).logsumexp(-1)[real].sum()

    @torch.no_grad()
    def _rollout(self, model: Seq2Seq, batch: Batch, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """What the model writes, drawn symbol by symbol without repetition.

        Where it would end too early it writes a label that is still missing instead.

        Returns:
            inputs (B,L), the right next symbols (B,L,V) and which steps count (B,L).
        """
        count, symbols = batch.target.size(0), model.output.bias.numel()
        wanted = torch.zeros(count, symbols, dtype=torch.bool, device=batch.target.device)
        wanted.scatter_(1, batch.target.masked_fill(~batch.target_mask, 0), True)
        wanted[:, : len(SPECIALS)] = False
        used = torch.zeros_like(wanted)
        used[:, [PAD, BEGIN, UNKNOWN]] = True
        cache = model.new_cache(memory)
        previous = torch.full((count,), BEGIN, device=wanted.device)
        open_rows, steps = torch.ones_like(wanted[:, 0]), batch.target_mask.sum(1) + _EXTRA_STEPS
        inputs, right, real = [], [], []
        for step in range(batch.target.size(1) + _EXTRA_STEPS):
            done = ~wanted.any(1)
            target = wanted.clone()
            target[:, END] = done
            inputs.append(previous)
            right.append(target)
            real.append(open_rows & (step < steps))
            open_rows = open_rows & ~done
            hidden, cache = model.decode(model.embed(previous.unsqueeze(1), memory, offset=step), None, memory, cache)
            logits = model.logits(hidden, memory).squeeze(1).float().masked_fill(used, float("-inf"))
            drawn = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
            missing = logits.masked_fill(~target, float("-inf")).argmax(1)
            previous = torch.where(drawn == END, missing, drawn)
            used = used.scatter(1, previous.unsqueeze(1), (previous != END).unsqueeze(1))
            wanted = wanted.scatter(1, previous.unsqueeze(1), False)
        return torch.stack(inputs, 1), torch.stack(right, 1), torch.stack(real, 1)

    def _decide(self, hypotheses: list[Hypothesis], verdict: Tensor | None, symbols: int) -> list[Hypothesis]:
        """Sets with score = log sum over orders of p(y) + mu log p_head(set), best first, the first with marginals."""
        by_set: dict[frozenset[int], list[Hypothesis]] = defaultdict(list)
        for hypothesis in hypotheses:
            by_set[frozenset(hypothesis.symbols)].append(hypothesis)
        mixture, merged, logs = self.sets.head_mixture, [], []
        for members, same in by_set.items():
            score = torch.tensor([one.score for one in same], dtype=torch.float64).logsumexp(0)
            logs.append(score)
            if verdict is not None:
                holds = torch.zeros(symbols, dtype=torch.bool)
                holds[list(members)] = True
                signs = torch.where(holds, verdict, -verdict)[len(SPECIALS) :]
                score = score + mixture * functional.logsigmoid(signs).sum()
            merged.append(replace(same[0], score=float(score)))
        merged.sort(key=lambda hypothesis: -hypothesis.score)
        if not self.sets.marginals:
            return merged
        sequence = torch.zeros(symbols, dtype=torch.float64)
        for share, members in zip(torch.stack(logs).softmax(0), by_set, strict=True):
            sequence[list(members)] += share
        if verdict is not None:
            sequence = (sequence + mixture * verdict.sigmoid()) / (1.0 + mixture)
        sequence[: len(SPECIALS)] = 0.0
        return [replace(merged[0], details={"marginals": tuple(sequence.tolist())}), *merged[1:]]


def shuffle(target: Tensor) -> Tensor:
    """(B,T) with the symbols before END in a random order of each row; END and padding stay.

    >>> _ = torch.manual_seed(0)
    >>> shuffle(torch.tensor([[5, 6, 7, 2, 0]]))[0].sort().values.tolist(), shuffle(torch.tensor([[4, 2, 0]])).tolist()
    ([0, 2, 5, 6, 7], [[4, 2, 0]])
    """
    moves = target >= len(SPECIALS)
    keys = torch.rand(target.shape, device=target.device)
    place = torch.arange(target.size(1), device=target.device, dtype=keys.dtype)
    order = torch.where(moves, keys, place + 1.0).argsort(dim=1, stable=True)
    return target.gather(1, order)
