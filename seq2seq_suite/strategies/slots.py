"""Objects in parallel: each slot of a grid over the picture predicts one, or noise."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.shapes import GROUP, BoxShape
from seq2seq_suite.common.types import SPECIALS, Batch, Constraint, Distributions, Hypothesis, Loss, States, to_device
from seq2seq_suite.model.picture import plane
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.options.strategies import SlotsOptions
from seq2seq_suite.strategies.auxiliary import Auxiliaries
from seq2seq_suite.strategies.base import Strategy
from seq2seq_suite.strategies.boxes import gaussian_targets, hypotheses, likeliest_corner


class SlotGrid(nn.Module):
    """One vector for each slot, from its part of the picture; one for each of its symbols, from that.

        in:  mean of the encoder's vectors in the slot's rectangle + position in the plane
        out: h_j = W_j h + b_j for the symbols j of a group

    Args:
        width: D.
        grid: rows and columns of slots.
        picture_rows: rows of the encoder's positions, which come row by row.
    """

    places: Tensor

    def __init__(self, width: int, grid: tuple[int, int], picture_rows: int):
        super().__init__()
        self.grid, self.picture_rows = grid, picture_rows
        self.symbols = nn.Linear(width, GROUP * width)
        self.register_buffer("places", plane(*grid, width), persistent=False)

    def forward(self, states: States) -> Tensor:
        """The decoder's input (B,N,D) of N slots."""
        cells = states.values.transpose(1, 2).unflatten(2, (self.picture_rows, -1))
        return functional.adaptive_avg_pool2d(cells, self.grid).flatten(2).transpose(1, 2) + self.places

    def groups(self, hidden: Tensor) -> Tensor:
        """(B,N,D) -> (B,N,5,D)."""
        return self.symbols(hidden).unflatten(2, (GROUP, -1))


class Slots(Strategy):
    """A non-autoregressive model of objects: N slots see each other and write five symbols each, all in one pass.

    The order of objects says nothing, so the loss is that of the best order: objects o are given to slots s so that
    the sum of

        -log p_s(o) + anchor_weight |centre(o) - centre(s)|^2

    is least, distances in slots; the other slots are to write noise. From the first update on, the second term decides
    which slot is whose. An object has one slot, or `slots_per_object`: more of them learn from it.

    Source: Carion et al. 2020 (DETR), eq. 1, for matching; Du et al. 2021 (order-agnostic cross-entropy), eq. 4, for
    its cost, the likelihood itself; Wang et al. 2022 (DE-DETRs) for several slots an object.
    Differs: no queries are learned: a slot has its place, as an anchor has.
    """

    writes = ("objects",)
    Options = SlotsOptions
    options: SlotsOptions
    target: BoxShape
    span: Tensor  # bins from a slot to the next

    def __init__(self, options: SlotsOptions, target: BoxShape, width: int, auxiliaries: Auxiliaries):
        super().__init__(options, target, width, auxiliaries)
        self.first_label = len(SPECIALS) + target.bins
        self.head = SlotGrid(width, options.grid, target.rows)
        span = [bins / slots for bins, slots in zip(target.extent, options.grid, strict=True)]
        self.register_buffer("span", torch.tensor(span), persistent=False)

    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """Coordinates of objects, and classes, noise by its weight."""
        objects = self._targets(batch)[1].sum() * self.options.slots_per_object
        noise = self.target.noise_weight * (batch.target.size(0) * math.prod(self.options.grid) - objects)
        return {
            "coordinates": ((GROUP - 1) * objects).clamp(min=1),
            "classes": (objects + noise.round().long()).clamp(min=1),
        }

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """Summed cross-entropy of coordinates and of classes, under the best matching."""
        states = model.encode(batch)
        logits = self._logits(model, states)
        target, real = self._targets(batch)
        bins = logits[:, :, :-1, len(SPECIALS) : self.first_label].log_softmax(-1)
        classes = logits[:, :, -1, self.first_label :].log_softmax(-1)
        places = (target[:, :, :-1] - len(SPECIALS)).clamp(min=0)
        labels = (target[:, :, -1] - self.first_label).clamp(min=0)
        missed_BNK = -torch.einsum("bnjv,bkjv->bnk", bins, gaussian_targets(places, self.target))
        wrong_BNK = -classes.gather(2, labels.unsqueeze(1).expand(-1, classes.size(1), -1))
        costs = missed_BNK.detach() + wrong_BNK.detach() + self._distances(places)
        chosen = self._match(costs.masked_fill(~real.unsqueeze(1), math.nan))
        noise = -self.target.noise_weight * classes[:, :, self.target.labels]
        chosen_slots = torch.zeros_like(noise, dtype=torch.bool)
        chosen_slots[chosen[:2]] = True
        sums = {
            "coordinates": missed_BNK[chosen].sum(),
            "classes": wrong_BNK[chosen].sum() + noise.masked_fill(chosen_slots, 0.0).sum(),
        }
        judged = (
            Distributions("coordinates", lambda: bins, chosen_slots.unsqueeze(2).expand(-1, -1, GROUP - 1)),
            Distributions("classes", lambda: classes, torch.ones_like(chosen_slots)),
        )
        own = Loss(sums, self.own_counts(batch), {"coordinates": 1.0, "classes": 1.0}, judged)
        return self.auxiliaries.added(own, batch, states)

    def _logits(self, model: Seq2Seq, states: States) -> Tensor:
        """(B,N,5,V) float32."""
        memory = model.prepare(states)
        hidden, _ = model.decode(model.dropout(self.head(states)), None, memory)
        return model.logits(self.head.groups(hidden).flatten(1, 2), memory).float().unflatten(1, (-1, GROUP))

    def _targets(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Groups of symbols (B,K,5), and (B,K) bool which of them are objects."""
        count = batch.target.size(1) // GROUP * GROUP
        groups = batch.target[:, :count].unflatten(1, (-1, GROUP))
        there = batch.target_mask[:, :count].unflatten(1, (-1, GROUP)).all(2)
        return groups, there & (groups[:, :, -1] != self.first_label + self.target.labels)

    def _distances(self, places: Tensor) -> Tensor:
        """(B,N,K): `anchor_weight` times the squared distance between slots and bins (B,K,4), in slots."""
        rows, columns = self.options.grid
        number = torch.arange(rows * columns, device=places.device)
        centres = torch.stack((number // columns, number % columns), 1) + 0.5
        found = (places[:, :, :2] + places[:, :, 2:] + 1) / 2.0 / self.span
        return self.options.anchor_weight * (found.unsqueeze(1) - centres[:, None]).square().sum(3)

    def _match(self, costs_BNK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Row, slot and number of each slot's object (M,), int64; NaN in the costs where there is none."""
        from scipy.optimize import linear_sum_assignment  # takes a quarter of a second to import

        found = []
        for row, costs in enumerate(costs_BNK.cpu().numpy()):
            numbers = np.tile((~np.isnan(costs).any(0)).nonzero()[0], self.options.slots_per_object)
            _, slots = linear_sum_assignment(costs[:, numbers].T)
            found.append(np.stack((np.full_like(slots, row), slots, numbers)))
        rows, slots, numbers = to_device(torch.from_numpy(np.concatenate(found, 1)), costs_BNK.device).unbind()
        return rows, slots, numbers

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
        """One hypothesis of each picture: a group of each slot, and the certainty of its class; no box is empty."""
        logits = self._logits(model, model.encode(batch))
        certainty, label = logits[:, :, -1, self.first_label :].softmax(-1)[..., :-1].max(-1)
        corners: list[Tensor] = []
        for place in range(GROUP - 1):
            corners.append(
                likeliest_corner(
                    logits[:, :, place, len(SPECIALS) : self.first_label], corners[-2] if place >= 2 else None
                )
            )
        symbols = torch.stack((*(len(SPECIALS) + corner for corner in corners), self.first_label + label), 2)
        return hypotheses(symbols.flatten(1), certainty)
