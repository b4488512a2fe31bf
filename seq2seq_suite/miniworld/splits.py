"""How the embedded data are divided: a text's CRC-32 determines its split, so that splits share none."""

from __future__ import annotations

import zlib
from collections.abc import Mapping


def size_of(split: str, defaults: Mapping[str, int], sizes: Mapping[str, int] | None) -> int:
    """How many items a split has, where `sizes` says nothing as by default; ValueError if there is no such split.

    >>> size_of("test", {"train": 9, "test": 2}, {"train": 5})
    2
    """
    for name in (split, *(sizes or {})):
        if name not in defaults:
            raise ValueError(f"unknown split {name!r}, choose from {', '.join(defaults)}")
    return {**defaults, **(sizes or {})}[split]


def falls_in(text: str, shares: range) -> bool:
    """Whether a text's CRC-32 modulo 100 is one of a split's shares."""
    return zlib.crc32(text.encode()) % 100 in shares
