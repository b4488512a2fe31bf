"""What a run has come to, without what depends on the clock: two runs of the same settings agree in all of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

_CLOCK = ("second", "time", "minute")  # in the names of figures that depend on the clock


def fingerprint(run: Path) -> dict[str, str]:
    """A digest of each part of a run: weights of `best` and `last`, rows of metrics, test figures, predictions."""
    found = {}
    for pattern in ("checkpoints/best/model.safetensors", "checkpoints/last/model.safetensors", "predictions/*.jsonl"):
        for path in sorted(run.glob(pattern)) + sorted(run.glob(f"tasks/*/{pattern}")):
            found[str(path.relative_to(run))] = hashlib.sha256(path.read_bytes()).hexdigest()
    for path in sorted(run.glob("metrics.jsonl")):
        rows = [timeless(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        found[path.name] = _digest(rows)
    for path in [run / "summary.json", *sorted(run.glob("tasks/*/summary.json"))]:
        if path.exists():
            splits = json.loads(path.read_text(encoding="utf-8"))["splits"]
            found[str(path.relative_to(run))] = _digest(timeless(splits))
    return found


def timeless(value: Any) -> Any:
    """A value without the figures that depend on the clock.

    >>> timeless({"update": 3, "seconds": 0.1, "tokens_per_second": 9.0, "test": {"f1": 2.0}})
    {'update': 3, 'test': {'f1': 2.0}}
    """
    if isinstance(value, dict):
        return {key: timeless(inner) for key, inner in value.items() if not any(word in key for word in _CLOCK)}
    return value


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The parts in which two fingerprints differ."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
