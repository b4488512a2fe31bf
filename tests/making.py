"""Strategies made in a line."""

from __future__ import annotations

from typing import Any

from seq2seq_suite.sizes import BoxOptions, SetOptions, Sizes
from seq2seq_suite.strategies.auxiliary import Auxiliaries
from seq2seq_suite.strategies.base import Strategy


def strategy_of(kind: type[Strategy], *, sets: SetOptions | None = None, boxes: BoxOptions | None = None,
                auxiliaries: Auxiliaries | None = None, **options: Any) -> Any:
    """A strategy of that class, with its options; labels are smoothed only where a test says so."""
    if "label_smoothing" in kind.Options.model_fields:
        options = {"label_smoothing": 0.0, **options}
    sizes = Sizes(target_symbols=9, source_symbols=11, sets=sets, boxes=boxes)
    return kind(kind.Options(**options), sizes, 16, auxiliaries)
