"""Puts fast twins, or functions of your own, in the places of the plain functions of a finished model.

Each slot has one signature, that of the plain function or class, and two implementations that are equal in value and
gradient. What is built is plain; nothing in `model`, `search` and `strategies` knows of this module:

    learner = Learner(build_model(...), strategy)
    kernels.accelerate(learner, components={"attention": "my_lab.py:attend"})
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.user_code import load_code

if TYPE_CHECKING:
    from torch import nn

# What a slot's implementation is called, and the modules of the plain and of the fast one.
SLOTS = {
    "greedy": ("greedy_or_sample", "seq2seq_suite.search.beam", "seq2seq_suite.kernels.beam"),
    "beam": ("beam_search", "seq2seq_suite.search.beam", "seq2seq_suite.kernels.beam"),
    "attention": ("attention", "seq2seq_suite.model.attention", "seq2seq_suite.kernels.attention"),
    "encoder": ("prepared", "seq2seq_suite.kernels.plain", "seq2seq_suite.kernels.decoder"),
    "decoder": ("prepared", "seq2seq_suite.kernels.plain", "seq2seq_suite.kernels.decoder"),
    "cache": ("KeysValues", "seq2seq_suite.model.attention", "seq2seq_suite.kernels.cache"),
    "depthwise": ("depthwise", "seq2seq_suite.model.variants.conformer", "seq2seq_suite.kernels.convolution"),
    "dropout": ("dropout", "seq2seq_suite.kernels.plain", "seq2seq_suite.kernels.dropout"),
    "projections": ("projections", "seq2seq_suite.kernels.plain", "seq2seq_suite.kernels.projections"),
    "product": ("product", "seq2seq_suite.kernels.plain", "seq2seq_suite.kernels.product"),
    "linear": ("linear", "seq2seq_suite.kernels.plain", "seq2seq_suite.kernels.linear"),
    "cross_entropy": ("cross_entropy", "seq2seq_suite.model.output", "seq2seq_suite.kernels.output"),
    "gather_log_probs": ("gather_log_probs", "seq2seq_suite.model.output", "seq2seq_suite.kernels.output"),
}
KINDS = ("fast", "plain")

_components: ContextVar[Mapping[str, Any]] = ContextVar("components", default=MappingProxyType({}))


@contextmanager
def using(components: Mapping[str, Any]) -> Iterator[None]:
    """In the block `accelerate` takes these functions, slot -> function, where its own components have none."""
    check("fast", components)
    token = _components.set({**_components.get(), **components})
    try:
        yield
    finally:
        _components.reset(token)


def accelerate(learner: nn.Module, kind: str = "fast", components: Mapping[str, Any] | None = None) -> None:
    """Put a slot's implementation in each of its places in a finished model, strategy, or both.

    Args:
        learner: changed in place.
        kind: fast; with plain only `components` are put there.
        components: slot -> implementation in place of both, a function or class, or `FILE.py:NAME`.

    Raises:
        ConfigError: an unknown kind or slot, or a component that cannot be loaded.
    """
    found = chosen(kind, components)
    if kind != "plain" or components or _components.get():
        from seq2seq_suite.kernels.places import put

        put(learner, found)


def chosen(kind: str = "fast", components: Mapping[str, Any] | None = None) -> dict[str, Callable[..., Any]]:
    """Each slot's implementation as `accelerate` takes it."""
    given = dict(components or {})
    check(kind, given)
    own = {slot: load_code(one, key="components") if isinstance(one, str) else one for slot, one in given.items()}
    own = {**_components.get(), **own}
    return {slot: own[slot] if slot in own else implementation(slot, kind) for slot in SLOTS}


def implementation(slot: str, kind: str) -> Callable[..., Any]:
    """The fast or the plain implementation of a slot."""
    name, plain, fast = SLOTS[slot]
    return getattr(importlib.import_module(plain if kind == "plain" else fast), name)


def check(kind: str, components: Mapping[str, Any]) -> None:
    """Raises ConfigError for an unknown kind or slot."""
    if kind not in KINDS:
        raise ConfigError(f"kernels: got {kind}", expected=f"one of {', '.join(KINDS)}")
    for slot in components:
        if slot not in SLOTS:
            raise ConfigError(f"components.{slot}: unknown slot", expected=f"one of {', '.join(SLOTS)}")
