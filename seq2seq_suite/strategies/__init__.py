"""The strategies: how a model learns and decodes targets, one file for each kind."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.lazy_imports import exports
from seq2seq_suite.common.user_code import is_code, load_code
from seq2seq_suite.options import strategies as sections

if TYPE_CHECKING:
    from seq2seq_suite.options.strategies import StrategyOptions
    from seq2seq_suite.strategies.base import Strategy

# The table: kind -> its classes, each for other targets, as module.Class in this package. A class without
# `Options` is given those of `options/strategies.py` by which it annotates `options`.
KINDS = {
    "autoregressive": ("assisted.Assisted", "language_model.LanguageModel", "sets.Sets", "boxes.Boxes"),
    "length_head": ("parallel.length_head.LengthHead",),
    "mask_predict": ("parallel.mask_predict.MaskPredict",),
    "cut_at_end": ("parallel.cut_at_end.CutAtEnd",),
    "ctc": ("parallel.ctc.Ctc",),
    "dag": ("parallel.dag.Dag",),
    "blocks": ("blocks.Blocks", "block_language_model.BlockLanguageModel"),
    "slots": ("slots.Slots",),
}
__getattr__, __dir__ = exports(
    __name__,
    {"Learner": "learner", "Strategy": "base"}
    | {name: module for rows in KINDS.values() for module, name in (row.rsplit(".", 1) for row in rows)},
)


def classes_of(kind: str) -> tuple[type[Strategy], ...]:
    """The classes of a kind of the table, or the one that `FILE.py:NAME` names, whose code is run.

    Raises:
        ConfigError: the code is not trusted, fails, or is no strategy.
    """
    if not is_code(kind):
        return _of_table(kind)
    from seq2seq_suite.strategies.base import Strategy

    for one in KINDS:
        _of_table(one)  # the user's code may read their `Options`
    found = load_code(kind, key="strategy.kind")
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise ConfigError(
            f"strategy.kind: {kind} is no strategy",
            remedy="derive it from a strategy of the suite",
            expected="a subclass of seq2seq_suite.strategies.base.Strategy",
        )
    return (found,)


@cache
def _of_table(kind: str) -> tuple[type[Strategy], ...]:
    names = (name.rsplit(".", 1) for name in KINDS[kind])
    found = tuple(getattr(import_module(f"{__name__}.{module}"), name) for module, name in names)
    for base in dict.fromkeys(base for one in found for base in one.__mro__ if "Options" not in vars(base)):
        section = inspect.get_annotations(base).get("options")
        if isinstance(section, str) and section in vars(sections):
            base.Options = vars(sections)[section]
    return found


def options_of(kind: str) -> type[StrategyOptions]:
    """The options of a kind: the section `strategy` of a configuration."""
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
