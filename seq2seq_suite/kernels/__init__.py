"""Which code computes: the plain one of `model` and `strategies`, its fast twin in this package, or one of your own.

Each slot has one signature, that of the plain function or class, and two implementations that are equal in value and
gradient. What is chosen when a model is built stays chosen for that model:

    with kernels.use("plain", {"attention": "my_lab.py:attend"}):
        model = build_model(...)
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2seq_suite.types import ConfigError


@dataclass(frozen=True)
class Slot:
    """Where the two implementations of a slot are, as module:name within the package."""

    plain: str
    fast: str


SLOTS = {
    "greedy": Slot("strategies.beam:greedy_or_sample", "kernels.beam:greedy_or_sample"),
    "beam": Slot("strategies.beam:beam_search", "kernels.beam:beam_search"),
    "attention": Slot("model.attention:attention", "kernels.attention:attention"),
    "cache": Slot("model.attention:KeysValues", "kernels.cache:KeysValues"),
    "depthwise": Slot("model.convolution:depthwise", "kernels.convolution:depthwise"),
    "dropout": Slot("model.dropout:dropout", "kernels.dropout:dropout"),
    "linear": Slot("model.output:linear", "kernels.linear:linear"),
    "cross_entropy": Slot("model.output:cross_entropy", "kernels.output:cross_entropy"),
    "gather_log_probs": Slot("model.output:gather_log_probs", "kernels.output:gather_log_probs"),
}
KINDS = ("fast", "plain")

_chosen: ContextVar[tuple[str, Mapping[str, Any]]] = ContextVar("kernels", default=("fast", {}))


@contextmanager
def use(kind: str, components: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Models that are built inside the `with` block compute with these implementations.

    Args:
        kind: fast or plain.
        components: slot -> implementation in place of both, a function or class, or `FILE.py:NAME`.

    Raises:
        ConfigError: a kind or slot that there is not, or a component that cannot be loaded.
    """
    given = dict(components or {})
    check(kind, given)
    loaded = {slot: load(one) if isinstance(one, str) else one for slot, one in given.items()}
    token = _chosen.set((kind, loaded))
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
    module, _, name = getattr(SLOTS[slot], kind).partition(":")
    return getattr(importlib.import_module(f"seq2seq_suite.{module}"), name)


def check(kind: str, components: Mapping[str, Any]) -> None:
    """Raises ConfigError for a kind or a slot that there is not."""
    if kind not in KINDS:
        raise ConfigError(f"kernels: got {kind}", expected=f"one of {', '.join(KINDS)}")
    for slot in components:
        if slot not in SLOTS:
            raise ConfigError(f"components.{slot}: unknown slot", expected=f"one of {', '.join(SLOTS)}")


def load(component: str) -> Callable[..., Any]:
    """The function or class that `FILE.py:NAME` names; the file's code is run.

    Raises:
        ConfigError: there is no such file, it fails, or it has no such function or class.
    """
    file, _, name = component.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"components: there is no file {file or component}", expected="FILE.py:NAME",
                          remedy="give the path relative to the YAML file that names it")
    spec = importlib.util.spec_from_file_location(f"component_{path.stem}", path)
    module = importlib.util.module_from_spec(spec) if spec is not None else None
    if module is None:
        raise ConfigError(f"components: {file} is no Python file", expected="FILE.py:NAME")
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's code may raise
        raise ConfigError(f"components: the code fails: {type(error).__name__}: {error}", file=file,
                          line=_line_of(error, path), remedy=f"try it with: python {file}") from error
    found = getattr(module, name, None)
    if not callable(found):
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ConfigError(f"components: it has no function or class {name}", file=file,
                          expected=f"one of {', '.join(there)}" if there else "a function or class")
    return found


def _line_of(error: Exception, path: Path) -> int:
    """Where in the file an error arose, 0 if that is not known."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 0
    line, trace = 0, error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == str(path) else line
        trace = trace.tb_next
    return line
