"""Writing files that no crash can leave half written, and JSON that every reader takes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def atomic_write_text(path: Path, text: str) -> None:
    """Write a file so that a reader, or a crash, finds the old contents or the new, never a part.

    Halves of surrogate pairs, which JSON text may hold, are written as they are.
    """
    atomic_write_bytes(path, text.encode("utf-8", errors="surrogatepass"))


def atomic_write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON: figures that are not finite become null, tensors and numpy figures plain numbers.

    >>> to_json({"loss": float("nan"), "f1": 90.5})
    '{"loss": null, "f1": 90.5}'
    """
    return json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    """The same data with null for figures that JSON cannot hold; tensors and numpy figures become plain ones."""
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
