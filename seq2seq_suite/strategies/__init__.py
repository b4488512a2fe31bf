"""The strategies: how a model learns and decodes targets, one file for each kind."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from seq2seq_suite.common.lazy_imports import exports

if TYPE_CHECKING:
    from seq2seq_suite.strategies.base import Strategy, StrategyOptions

# The list of all: kind -> its classes, each for other targets, as module.Class in this package.
KINDS = {
    "autoregressive": ("assisted.Assisted", "language_model.LanguageModel", "sets.Sets", "boxes.Boxes"),
    "length_head": ("parallel.length_head.LengthHead",),
    "mask_predict": ("parallel.mask_predict.MaskPredict",),
    "cut_at_end": ("parallel.cut_at_end.CutAtEnd",),
    "ctc": ("parallel.ctc.Ctc",),
    "dag": ("parallel.dag.Dag",),
    "slots": ("slots.Slots",),
}
__getattr__, __dir__ = exports(__name__, {"Learner": "learner", "Strategy": "base"} | {
    name: module for rows in KINDS.values() for module, name in (row.rsplit(".", 1) for row in rows)})


@cache
def classes_of(kind: str) -> tuple[type[Strategy], ...]:
    """The classes of a kind, imported when they are first asked for."""
    names = (name.rsplit(".", 1) for name in KINDS[kind])
    return tuple(getattr(import_module(f"{__name__}.{module}"), name) for module, name in names)


def options_of(kind: str) -> type[StrategyOptions]:
    """The options of a kind."""
    return classes_of(kind)[0].Options


def targets_of(kind: str) -> tuple[str, ...]:
    """The kinds of targets that a kind of strategy can write."""
    return tuple(target for strategy in classes_of(kind) for target in strategy.writes)


def strategy_for(kind: str, target: str) -> type[Strategy]:
    """The class that writes targets of a kind.

    >>> strategy_for("autoregressive", "labels").__name__
    'Sets'
    """
    return next(strategy for strategy in classes_of(kind) if target in strategy.writes)
