"""The common part of the benchmarks' plots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@contextmanager
def picture(path: Path, size: tuple[float, float], *, panels: int = 1) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of so many inches with panels side by side, which share their vertical axis; written at the end."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    yield figure, axes
    figure.savefig(path, dpi=150)
