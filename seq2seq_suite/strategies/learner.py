"""A model with its strategy: trained, saved, averaged and initialised as one module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from seq2seq_suite.common.types import Batch, Constraint, Hypothesis, Loss
from seq2seq_suite.model.modules import ModuleDict
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.model.variants.experts import MixtureOfExperts, load_balances
from seq2seq_suite.model.variants.power_norm import PowerNorm
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.base import Strategy
from seq2seq_suite.strategies.consistency import consistent, term_of

_Value = TypeVar("_Value")


class Trained(nn.Module):
    """A module with parameters to train, some of them in the core."""

    def core_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of encoder and decoder stack, which tasks can share."""
        raise NotImplementedError

    def num_parameters(self, *, learning: bool = False) -> int:
        """The number of parameters, or of those that are not frozen, shared ones counted once."""
        return sum(one.numel() for one in self.parameters() if one.requires_grad or not learning)

    def num_core_parameters(self) -> int:
        """How many of them are the core's."""
        return sum(parameter.numel() for parameter in self.core_parameters())


class Learner(Trained):
    """A model and the strategy that it learns and predicts by; `learner(batch)` is the loss.

    The load-balance losses of a batch's layers of experts are added up, as in Fedus et al. 2021, section 2.2. Of
    several batches each counts as much as it has target symbols.

    Args:
        model: encoder and decoder.
        strategy: with its heads.
        balance_weight: of the load-balance loss.
        norm_warmup: share of the training in which PowerNorm takes each batch's own statistics.
    """

    def __init__(self, model: Seq2Seq, strategy: Strategy, *, balance_weight: float = 0.0, norm_warmup: float = 0.0):
        super().__init__()
        self.norm_warmup = norm_warmup
        self.power_norms = [part for part in model.modules() if isinstance(part, PowerNorm)]
        self.model, self.strategy, self.balance_weight = model, strategy, balance_weight
        self.has_experts = any(isinstance(part, MixtureOfExperts) for part in model.modules())

    def forward(self, batch: Batch) -> Loss:
        """Named sums and counts over a batch; in training with `strategy.consistency` of two passes over it."""
        loss = self._pass(batch)
        if self._compares():
            return consistent(self.strategy, loss, self._pass(batch))
        return replace(loss, judged=())  # which would keep the encoder's output

    def _compares(self) -> bool:
        return self.strategy.options.consistency > 0.0 and torch.is_grad_enabled()

    def _pass(self, batch: Batch) -> Loss:
        with load_balances() as balances:
            loss = self.strategy.loss(self.model, batch)
        if not balances:
            return loss
        counts = self.counts(batch)
        return replace(
            loss,
            sums={**loss.sums, "balance": counts["balance"] * torch.stack(balances).sum()},
            counts=counts,
            weights={**loss.weights, "balance": self.balance_weight},
        )

    def counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """The counts of the loss, known in advance."""
        counts = self.strategy.counts(batch)
        if self._compares():
            counts |= {term_of(name): count for name, count in self.strategy.own_counts(batch).items()}
        balances = self.has_experts and torch.is_grad_enabled()
        return {**counts, "balance": batch.target_mask.sum()} if balances else counts

    def generate(
        self, batch: Batch, *, options: SearchOptions, limit: Tensor, constraint: Constraint | None = None
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each item, best first; see `Strategy.generate`."""
        return self.strategy.generate(self.model, batch, options=options, limit=limit, constraint=constraint)

    def set_fraction_done(self, share: float) -> None:
        """Set the share of the training that is done."""
        self.strategy.fraction_done = share
        for norm in self.power_norms:
            norm.warms = share < self.norm_warmup

    def core_parameters(self) -> Iterator[nn.Parameter]:
        parts = (part for part in (self.model.encoder, self.model.decoder) if part is not None)
        return itertools.chain.from_iterable(part.parameters() for part in parts)


class JointLearner(Trained):
    """Learners of several tasks that share encoder and decoder stack, and front-ends of equal kind.

    The losses are those of `Batch.task`, named `task/loss`.

    Args:
        parts: name -> the task's learner; `build_model(..., like=...)` makes their models share.
        weights: name -> weight of the task's loss, a mean over its own symbols.
    """

    def __init__(self, parts: Mapping[str, Learner], weights: Mapping[str, float]):
        super().__init__()
        first = next(iter(parts.values())).model
        self.encoder, self.decoder = first.encoder, first.decoder  # first, so that checkpoints use these names
        self.parts, self.weights = ModuleDict(parts), dict(weights)

    def forward(self, batch: Batch) -> Loss:
        """Named sums and counts over a batch."""
        own = self.parts[batch.task](batch)
        weights = {name: self.weights[batch.task] * weight for name, weight in own.weights.items()}
        return Loss(_named(batch.task, own.sums), _named(batch.task, own.counts), _named(batch.task, weights))

    def counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """The counts that the loss will have."""
        return _named(batch.task, self.parts[batch.task].counts(batch))

    def set_fraction_done(self, share: float) -> None:
        """Set the share of the training that is done."""
        for part in self.parts.values():
            part.set_fraction_done(share)

    def core_parameters(self) -> Iterator[nn.Parameter]:
        """The first part's, which all share."""
        return next(iter(self.parts.values())).core_parameters()


def _named(task: str, values: Mapping[str, _Value]) -> dict[str, _Value]:
    return {f"{task}/{name}": value for name, value in values.items()}
