"""Conditional computation: each position is processed by a few of many feed-forward networks.

Letters in this module: R real positions of a batch, N experts, k of them for a position, D width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import places, to_float64
from seq2seq_suite.model.variants.real_positions import real_positions

_FEW = 1024  # positions of a step of search, in which every expert computes all of them rather than wait
_balances: ContextVar[list[Tensor] | None] = ContextVar("balances", default=None)


@contextmanager
def load_balances() -> Iterator[list[Tensor]]:
    """The load-balance losses of all layers that compute with gradients inside the `with` block, in their order."""
    token = _balances.set(found := [])
    try:
        yield found
    finally:
        _balances.reset(token)


class MixtureOfExperts(nn.Module):
    """y = sum over the k likeliest experts i of g_i(x) FFN_i(x), with p(x) = softmax(x W) over all N experts.

    g_i = p_i / (sum of the k chosen p), which is the softmax of the k largest logits (Shazeer et al. 2017, eqs. 3 and
    5); for k = 1 that would be 1 and teach the router nothing, so that g = p (Fedus et al. 2021, eq. 2).

    In training an expert takes at most C = ceil(capacity k R / N) positions (Fedus et al. 2021, eq. 3, here for any k):
    first choices before second ones, then earlier rows and positions before later ones. A position beyond the capacity
    gets nothing from that expert; without any, the residual connection alone passes it on. Evaluation drops nothing, so
    that an output depends neither on its batch nor on later positions. Padding is never routed: it takes no room,
    does not count in R, and its output is zero.

    The load-balance loss is N sum_i f_i P_i (Fedus et al. 2021, eqs. 4 to 6, without the weight): P_i is the mean of
    p_i, f_i the share of the k R choices that fall on expert i before any is dropped. It is 1 if all are used equally.
    Both are means over one batch, so that several batches have the mean of their losses, not the loss of their union.

    Differs: no noise on the logits (Shazeer et al. 2017, eq. 4) or the input; the router computes in float32 whatever
    the precision of the rest, as Fedus et al. 2021, section 2.4, advise.

    Positions are sorted by expert, so that each expert is called once, on all its positions. On a CPU it is given
    these alone. On a GPU their number would need a synchronisation: in training each expert gets its capacity, C for
    all positions, real or not, and padding has weight 0; in a decoder's step all experts compute all positions. The
    outputs are the same; long inputs in evaluation need a synchronisation.

    Args:
        experts: N networks (...,D) -> (...,D).
        width: D.
        experts_per_token: k.
        capacity: room of an expert in training, as a multiple of what even use needs.
    """

    needs_real_positions = True

    def __init__(self, experts: Sequence[nn.Module], width: int, *, experts_per_token: int, capacity: float):
        super().__init__()
        self.experts = nn.ModuleList(experts)
        self.router = nn.Linear(width, len(self.experts), bias=False)
        self.experts_per_token, self.capacity = experts_per_token, capacity

    def forward(self, x: Tensor) -> Tensor:
        """The mixture (B,T,D) at each of the `real_positions` of x (B,T,D).

        Its load-balance loss goes to `load_balances`.
        """
        positions_PD, mask = x.flatten(0, 1), real_positions()
        mask = None if mask is None else mask.expand(x.shape[:2])
        if x.device.type != "cpu" and (self.training or len(positions_PD) <= _FEW):
            return self.in_equal_parts(positions_PD, None if mask is None else mask.flatten()).view(x.shape)
        real = None if mask is None else places(mask)
        tokens_RD = positions_PD if real is None else positions_PD.index_select(0, real)
        probabilities_RN, gates_Rk, chosen_Rk = self._route(tokens_RD)
        choices = chosen_Rk.t().flatten()
        sizes = functional.one_hot(choices, len(self.experts)).sum(0)
        self._add_balance(sizes, choices.numel(), probabilities_RN)
        room = math.ceil(self.capacity * choices.numel() / len(self.experts)) if self.training else None
        kept = [own[:room] for own in choices.argsort(stable=True).split(sizes.tolist())]
        order = torch.cat(kept)
        token = order % max(1, len(tokens_RD))

        parts = tokens_RD.index_select(0, token).split([len(own) for own in kept])
        outputs = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        weighted = outputs * gates_Rk.t().flatten().index_select(0, order).unsqueeze(1).to(outputs.dtype)
        place = token if real is None else real.index_select(0, token)
        return weighted.new_zeros(positions_PD.shape).index_add(0, place, weighted).view(x.shape)

    def in_equal_parts(self, positions_PD: Tensor, real_P: Tensor | None) -> Tensor:
        """The mixture (P,D) of which no shape depends on a value; `real_P` bool, None: all."""
        count, experts = len(positions_PD), len(self.experts)
        probabilities_PN, gates_Pk, chosen_Pk = self._route(positions_PD)
        choices_kP = chosen_Pk.t()
        if real_P is not None:  # padding chooses an expert behind the last one
            choices_kP = choices_kP.masked_fill(~real_P, experts)
            probabilities_PN = probabilities_PN.masked_fill(~real_P.unsqueeze(1), 0.0)
        sizes = functional.one_hot(choices_kP.flatten(), experts + 1).sum(0)[:experts]
        self._add_balance(sizes, sizes.sum().clamp(min=1), probabilities_PN)
        most, room = count, sizes
        if self.training:
            most = min(count, math.ceil(self.capacity * choices_kP.numel() / experts))
            room = torch.minimum(sizes, (self.capacity * to_float64(sizes.sum()) / experts).ceil())

        begin, place = (sizes.cumsum(0) - sizes).unsqueeze(1), torch.arange(most, device=sizes.device)
        inside = (begin + place).clamp(max=max(0, choices_kP.numel() - 1)).flatten()
        order = choices_kP.flatten().argsort(stable=True).index_select(0, inside)
        token = order % max(1, count)
        parts = positions_PD.index_select(0, token).split(most)
        outputs = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        gates = gates_Pk.t().flatten().index_select(0, order) * (place < room.unsqueeze(1)).flatten()
        weighted = outputs * gates.unsqueeze(1).to(outputs.dtype)
        return weighted.new_zeros(positions_PD.shape).index_add(0, token, weighted)

    def _route(self, tokens_RD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Probabilities (R,N); gates and experts chosen, (R,k) each.

        Transposed, all first choices come before all second ones, and sorting by expert is stable.
        """
        with torch.autocast(tokens_RD.device.type, enabled=False):
            probabilities_RN = functional.linear(tokens_RD.float(), self.router.weight.float()).softmax(-1)
        gates_Rk, chosen_Rk = probabilities_RN.topk(self.experts_per_token, dim=1)
        if self.experts_per_token > 1:
            gates_Rk = gates_Rk / gates_Rk.sum(1, keepdim=True)
        return probabilities_RN, gates_Rk, chosen_Rk

    def _add_balance(self, sizes: Tensor, choices: int | Tensor, probabilities: Tensor) -> None:
        """The layer's load-balance loss, of `choices` that fall on experts by `sizes` (N,), for who asked for it."""
        balances = _balances.get()
        if balances is not None and torch.is_grad_enabled():
            choices = max(1, choices) if isinstance(choices, int) else choices
            tokens = choices / self.experts_per_token
            balances.append(len(self.experts) * (sizes / choices * probabilities.sum(0)).sum() / tokens)
