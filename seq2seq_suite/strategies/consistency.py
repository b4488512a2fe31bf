"""Consistency of two passes over one batch: their losses, and how much their predictions differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.types import Loss

if TYPE_CHECKING:
    from seq2seq_suite.strategies.base import Strategy


def consistent(strategy: Strategy, first: Loss, second: Loss) -> Loss:
    """The mean of two losses of one batch, and the divergence of the distributions that they judge.

        L = (L_1 + L_2) / 2 + w (KL(p_1 || p_2) + KL(p_2 || p_1)) / 2

    The divergence of the distributions of each loss is summed over the slots that count in both passes. It has the
    count of that loss, its weight times w, and the name `term_of` it. Auxiliary losses are averaged and not compared.

    The passes differ in whatever training draws: dropout, symbols that are hidden or revealed, lengths of blocks and,
    where the source is sound, SpecAugment's masks, which the front-end draws in each pass. Over frames of CTC each
    side's target is held fixed, as in CR-CTC; elsewhere both sides have gradients, as in R-Drop.

    Args:
        strategy: of both losses; its `options.consistency` is w.
        first, second: of one batch, with what they judge.

    Raises:
        ConfigError: the strategy's loss does not give the distributions that it judges.

    Source: Liang et al. 2021 (R-Drop), eqs. 2 to 4; Yao et al. 2024 (CR-CTC), section 3.
    Differs: R-Drop adds the two losses, so that its alpha is 2 w. CR-CTC masks more than a plain run does; here the
        task's `audio` says how much.
    """
    weight = strategy.options.consistency
    if not first.judged:
        raise ConfigError(
            f"strategy.consistency {weight:g}: strategy.kind {strategy.options.kind} does not give the distributions "
            "that its loss judges",
            expected="a strategy whose `loss` fills `Loss.judged`",
            remedy="set strategy.consistency=0",
        )
    sums = {name: (one + second.sums[name]) / 2 for name, one in first.sums.items()}
    counts, weights = dict(first.counts), dict(first.weights)
    for one, other in zip(first.judged, second.judged, strict=True):
        name = term_of(one.loss)
        each = divergence(one.logits(), other.logits(), fixed=strategy.positions_are == "frames")
        total = each.masked_fill(~(one.counted & other.counted), 0.0).sum()
        sums[name] = sums[name] + total if name in sums else total
        counts[name], weights[name] = counts[one.loss], weight * weights[one.loss]
    return Loss(sums, counts, weights)


def term_of(loss: str) -> str:
    """The name of the divergence of the distributions that a loss judges.

    >>> term_of("cross_entropy")
    'cross_entropy_consistency'
    """
    return f"{loss}_consistency"


def divergence(first: Tensor, second: Tensor, *, fixed: bool = False) -> Tensor:
    """(...) float32, half of KL(p || q) + KL(q || p).

    Args:
        first, second: (...,V) logits of p and q.
        fixed: each p and q has no gradient where the other one is compared with it.
    """
    log_p, log_q = (logits.float().log_softmax(-1) for logits in (first, second))
    to_p, to_q = (log_p.detach(), log_q.detach()) if fixed else (log_p, log_q)
    both = functional.kl_div(log_q, to_p, reduction="none", log_target=True) + functional.kl_div(
        log_p, to_q, reduction="none", log_target=True
    )
    return both.sum(-1) / 2
