"""Chooses the code that computes: the plain one of `model` and `strategies`, its fast twin here, or your own.

Each slot has one signature, that of the plain function or class, and two implementations that are equal in value and
gradient. The choice when a model is built stays with that model:

    with kernels.use("plain", {"attention": "my_lab.py:attend"}):
        model = build_model(...)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.user_code import load_code

# What a slot's implementation is called, and the modules of the plain and of the fast one.
SLOTS = {
    "greedy": ("greedy_or_sample", "search.beam", "kernels.beam"),
    "beam": ("beam_search", "search.beam", "kernels.beam"),
    "attention": ("attention", "model.attention", "kernels.attention"),
    "encoder": ("prepared", "model.stacks", "kernels.decoder"),
    "decoder": ("prepared", "model.stacks", "kernels.decoder"),
    "cache": ("KeysValues", "model.attention", "kernels.cache"),
    "depthwise": ("depthwise", "model.convolution", "kernels.convolution"),
    "dropout": ("dropout", "model.dropout", "kernels.dropout"),
    "product": ("product", "model.linear", "kernels.product"),
    "linear": ("linear", "model.output", "kernels.linear"),
    "cross_entropy": ("cross_entropy", "model.output", "kernels.output"),
    "gather_log_probs": ("gather_log_probs", "model.output", "kernels.output"),
}
KINDS = ("fast", "plain")

_chosen: ContextVar[tuple[str, Mapping[str, Any]]] = ContextVar("kernels", default=("fast", {}))


@contextmanager
def use(kind: str, components: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Models that are built inside the `with` block use these implementations.

    Args:
        kind: fast or plain.
        components: slot -> implementation in place of both, a function or class, or `FILE.py:NAME`. Those of a block
            around this one hold where none is given.

    Raises:
        ConfigError: an unknown kind or slot, or a component that cannot be loaded.
    """
    given = dict(components or {})
    check(kind, given)
    loaded = {slot: load_code(one, key="components") if isinstance(one, str) else one for slot, one in given.items()}
    token = _chosen.set((kind, {**_chosen.get()[1], **loaded}))
    try:
        yield
    finally:
        _chosen.reset(token)


def chosen(slot: str) -> Callable[..., Any]:
    """The implementation of a slot in the `use` block around this call; outside of any, the fast one."""
    kind, components = _chosen.get()
    return components[slot] if slot in components else implementation(slot, kind)


def implementation(slot: str, kind: str) -> Callable[..., Any]:
    """The fast or the plain implementation of a slot."""
    name, plain, fast = SLOTS[slot]
    return getattr(importlib.import_module(f"seq2seq_suite.{plain if kind == 'plain' else fast}"), name)


def check(kind: str, components: Mapping[str, Any]) -> None:
    """Raises ConfigError for an unknown kind or slot."""
    if kind not in KINDS:
        raise ConfigError(f"kernels: got {kind}", expected=f"one of {', '.join(KINDS)}")
    for slot in components:
        if slot not in SLOTS:
            raise ConfigError(f"components.{slot}: unknown slot", expected=f"one of {', '.join(SLOTS)}")
