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

from seq2seq_suite.types import places

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

    Positions are sorted by expert, so that each expert is called once, on all its positions; a GPU is
    waited for twice, for which positions are real and for the sizes of these parts.

    Args:
        experts: N networks (...,D) -> (...,D).
        width: D.
        experts_per_token: k.
        capacity: room of an expert in training, as a multiple of what even use needs.
    """

    def __init__(self, experts: Sequence[nn.Module], width: int, *, experts_per_token: int, capacity: float):
        super().__init__()
        self.experts = nn.ModuleList(experts)
        self.router = nn.Linear(width, len(self.experts), bias=False)
        self.experts_per_token, self.capacity = experts_per_token, capacity

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mixture at each position; its load-balance loss goes to `load_balances`.

        Args:
            x: (B,T,D).
            mask: (B,T) bool of real positions; None: all.

        Returns:
            (B,T,D).
        """
        positions = x.flatten(0, 1)
        real = None if mask is None else places(mask)
        tokens_RD = positions if real is None else positions.index_select(0, real)
        probabilities_RN = self._route(tokens_RD)
        gates_Rk, chosen_Rk = probabilities_RN.topk(self.experts_per_token, dim=1)
        if self.experts_per_token > 1:
            gates_Rk = gates_Rk / gates_Rk.sum(1, keepdim=True)

        # All first choices come before all second ones, and sorting by expert is stable.
        choices = chosen_Rk.t().flatten()
        sizes = functional.one_hot(choices, len(self.experts)).sum(0)
        balances = _balances.get()
        if balances is not None and torch.is_grad_enabled():
            share = sizes / max(1, choices.numel())
            balances.append(len(self.experts) * (share * probabilities_RN.sum(0)).sum() / max(1, len(tokens_RD)))
        room = math.ceil(self.capacity * choices.numel() / len(self.experts)) if self.training else None
        taken = [own[:room] for own in choices.argsort(stable=True).split(sizes.tolist())]
        order = torch.cat(taken)
        token = order % max(1, len(tokens_RD))

        parts = tokens_RD.index_select(0, token).split([len(own) for own in taken])
        outputs = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        weighted = outputs * gates_Rk.t().flatten().index_select(0, order).unsqueeze(1).to(outputs.dtype)
        place = token if real is None else real.index_select(0, token)
        return weighted.new_zeros(positions.shape).index_add(0, place, weighted).view(x.shape)

    def _route(self, tokens_RD: Tensor) -> Tensor:
        with torch.autocast(tokens_RD.device.type, enabled=False):
            return functional.linear(tokens_RD.float(), self.router.weight.float()).softmax(-1)
