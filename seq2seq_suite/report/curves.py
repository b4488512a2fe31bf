"""Curves of a training, from the rows of metrics.jsonl."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from seq2seq_suite.terminal.tables import is_number

_MOST_POINTS = 400


def curve(metrics: Sequence[dict[str, Any]], split: str, key: str) -> list[list[Any]]:
    """Points (update, minutes, symbols, value) of a key on a split; None where a row lacks a value."""
    trained = [
        (row["update"], row["tokens"])
        for row in metrics
        if row.get("split") == "train" and is_number(row.get("update")) and is_number(row.get("tokens"))
    ]
    found = []
    for row in metrics:
        if row.get("split") == split and is_number(row.get("update")) and is_number(row.get(key)):
            symbols = row.get("tokens") if is_number(row.get("tokens")) else _between(trained, row["update"])
            seconds = row.get("seconds")
            found.append([row["update"], seconds / 60 if is_number(seconds) else None, symbols, row[key]])
    step = -(-len(found) // _MOST_POINTS) if found else 1
    return found[::-step][::-1]  # the last one is always there


def _between(trained: Sequence[tuple[float, float]], update: float) -> float | None:
    """The symbols read up to an update, between those of the rows of training around it."""
    if not trained:
        return None
    place = min(bisect_left(trained, (update, -math.inf)), len(trained) - 1)
    (a, before), (b, after) = trained[place - 1] if place else (0, 0), trained[place]
    return before + (after - before) * (update - a) / (b - a) if b > a else after
