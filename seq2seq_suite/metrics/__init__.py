"""Metrics. `METRICS` is the table of those that `metrics` of a configuration may add to the task's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.examples import Score
from seq2seq_suite.common.user_code import is_code, load_code

# Figures by name, of outputs (None: malformed) and references, as the lines of text that `predict` writes.
Metric = Callable[[Sequence[str | None], Sequence[str]], Score | Mapping[str, float]]
METRICS = {  # name -> module:function of this package
    "bleu": "bleu:score_translations",
    "error_rates": "error_rate:error_rates",
    "rouge": "rouge:rouge",
}


def find_metric(name: str) -> Metric:
    """A metric of the table, or the function that `FILE.py:NAME` names, whose code is run.

    Raises:
        ConfigError: there is none of that name, or the code is not trusted or fails.
    """
    if is_code(name):
        return load_code(name, key="metrics")
    if name not in METRICS:
        raise ConfigError(
            f"metrics: there is no metric {name!r}",
            remedy="choose one of these, or write your own",
            expected=f"one of {', '.join(METRICS)}, or FILE.py:NAME",
        )
    module, _, function = METRICS[name].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), function)
