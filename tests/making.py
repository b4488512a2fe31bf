"""Strategies made in a line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from seq2seq_suite.sizes import BoxOptions, SetOptions, Sizes
from seq2seq_suite.strategies.auxiliary import Auxiliaries
from seq2seq_suite.strategies.base import Strategy


def strategy_of(kind: type[Strategy], *, sizes: Sizes | None = None, sets: SetOptions | None = None,
                boxes: BoxOptions | None = None, width: int = 16, auxiliaries: Auxiliaries | None = None, seed: int = 1,
                noise: float = 0.2, **options: Any) -> Any:
    """A strategy of that class, with its options and noise on its weights; labels are smoothed only where asked for."""
    if "label_smoothing" in kind.Options.model_fields:
        options = {"label_smoothing": 0.0, **options}
    sizes = sizes or Sizes(target_symbols=9, source_symbols=11)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = kind(kind.Options(**options), replace(sizes, sets=sets or sizes.sets, boxes=boxes or sizes.boxes), width,
                    auxiliaries)
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.add_(torch.randn_like(parameter) * noise)
    return made
