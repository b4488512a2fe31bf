"""Quality of a study's variants and searches against what decoding takes: passes and milliseconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.at_vs_nat import Contestant, judge, measure, opened, read
from benchmarks.machine import markdown_table
from benchmarks.picture import picture
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.prediction.load_run import config_of
from seq2seq_suite.studies.study import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Times = Mapping[tuple[str, str], Contestant]  # by experiment and name

ROUNDS = 3
_MARKS = {0.0: "o", 0.5: "s", 0.7: "^", 0.9: "D", 0.99: "v"}  # of `search.threshold`
_VERIFIED, _OTHER, _TICK = "*", "X", "|"
_ORDERS = ("", "left", "any", "verified")  # of which the first that a line has bears its name
_TITLES = ("passes for each symbol", "ms a sentence, one at a time", "ms a sentence, in batches of 64")
_BEYOND, _LINE = 2.6, 10.0  # room for names, as a factor of passes; points from one name to the next


@dataclass(frozen=True)
class Point:
    """A variant with one of its searches, by the means over its seeds.

    Args:
        variant: its name.
        size: symbols of a block, of verified ones as trained; 0 for another strategy.
        order: `search.order`; empty where nothing reads it.
        threshold: `search.threshold`; NaN where nothing reads it.
        costs: passes for each symbol, then milliseconds.
        figure: of the primary metric.
        beside: it is no cell of the study.
    """

    variant: str
    size: int
    order: str
    threshold: float
    costs: tuple[float, ...]
    figure: float
    beside: bool = False

    @property
    def marker(self) -> str:
        """How it is drawn."""
        if self.order == "verified":
            return _VERIFIED
        return _MARKS.get(self.threshold, "h") if self.order else _TICK if self.costs[0] == 1.0 else _OTHER


def timed(cells: Sequence[Cell], beside: Sequence[str], sentences: int) -> dict[tuple[str, str], Contestant]:
    """The first seed's run of each cell on validation, with its search, and runs beside them, which take turns.

    Args:
        cells: of a study.
        beside: `NAME=RUN[:KEY=VALUE]` each.
        sentences: timed one by one, and four times as many in batches of 64.
    """
    found: dict[tuple[str, str], Contestant] = {}
    for experiment, some in grouped((cell.experiment, cell) for cell in cells if cell.split == "validation").items():
        own: list[Contestant] = []
        for cell in some:
            examples = own[0].examples if own else ()
            own.append(opened(cell.name, _directory(cell), _changes(cell), cell.split, examples))
            own[-1].figure, own[-1].passes = statistics.fmean(cell.figures), cell.cost("passes")
        others = [read(argument, "validation") for argument in beside]
        for one in others:
            judge(one)
        measure([*own, *others], rounds=ROUNDS, sentences=sentences)
        found |= {(experiment, one.name): one for one in [*own, *others]}
    return found


def rows_of_times(times: Times, sentences: int) -> list[str]:
    """The lines of the table of what was timed; none if nothing was."""
    if not times:
        return []
    rows = [
        [experiment, name, *(f"{cost:.{digits}f}" for cost, digits in zip(_measured(one), (2, 1, 2), strict=True))]
        for (experiment, name), one in times.items()
    ]
    return [
        "",
        f"Milliseconds a sentence of the first seed's runs, with the encoder: medians of {ROUNDS} rounds over "
        f"{sentences} sentences one by one, and four times as many in batches of 64.",
        "",
        *markdown_table(["experiment", "variant", "passes/symbol", "one at a time", "in batches of 64"], rows),
    ]


def plot_surface(cells: Sequence[Cell], path: Path, times: Times) -> None:
    """A line for each length of blocks and order, with a mark for each threshold; ticks and crosses for other decoders.

    On the validation split; several experiments have a picture each. Without `times` milliseconds are those of the
    study's own evaluation, which may have had other work beside it.
    """
    cells = [cell for cell in cells if cell.split == "validation"]
    experiments = grouped((cell.experiment, cell) for cell in cells)
    for experiment, own in experiments.items():
        points = [point_of(cell, times) for cell in own]
        known = {cell.name for cell in own}
        points += [
            Point(name, 0, "", math.nan, _measured(one), one.figure, beside=True)
            for (where, name), one in times.items()
            if where == experiment and name not in known
        ]
        titles = _TITLES if times else (_TITLES[0], "ms a sentence, in the study's batches")
        file = path.with_stem(f"{path.stem}-{experiment}") if len(experiments) > 1 else path
        with picture(file, (4.0 * len(titles) + 1.7, 4.4), panels=len(titles)) as (figure, panels):
            for place, (axes, title) in enumerate(zip(panels, titles, strict=True)):
                _draw(axes, points, place)
                axes.set(xlabel=title, xscale="log")
                axes.grid(alpha=0.25)
                for set_format in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
                    set_format(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "125" else "")
            better = "" if own[0].higher_is_better else ", less is better"
            panels[0].set_ylabel(f"{own[0].metric.replace('_', ' ')} on validation{better}")
            panels[0].set_title(experiment, fontsize="medium", loc="left")
            _name(figure, panels[0], points)
            _explain(figure, points)


def point_of(cell: Cell, times: Times) -> Point:
    """A cell with its search, and what that takes."""
    config = config_of(_directory(cell), _changes(cell))
    size = config.search.block or getattr(config.strategy, "block", 0)
    order = config.search.order if size > 1 else ""
    if order == "verified":  # of a model, whatever it drafts
        size = getattr(config.strategy, "block", 0)
    one = times.get((cell.experiment, cell.name))
    costs = _measured(one) if one else (cell.cost("passes"), cell.cost("milliseconds"))
    threshold = config.search.threshold if order in ("left", "any") else math.nan
    return Point(cell.variant, size, order, threshold, costs, statistics.fmean(cell.figures))


def _measured(one: Contestant) -> tuple[float, float, float]:
    return one.passes, one.alone, one.in_batches


def _directory(cell: Cell) -> Path:
    return Path(cell.runs[0]["directory"])


def _changes(cell: Cell) -> list[str]:
    return [f"search.{one}" for one in cell.search.split()]


def _series(points: Sequence[Point]) -> dict[tuple[str, int, str], list[Point]]:
    """Points of one line each, by variant, length of blocks and order, from the fewest passes to the most."""
    found = grouped(((one.variant, one.size, one.order), one) for one in points)
    return {key: sorted(some, key=lambda one: one.costs) for key, some in found.items()}


def _draw(axes: Axes, points: Sequence[Point], place: int) -> None:
    """The lines of a panel, whose costs are those at a place; the longer the blocks, the lighter."""
    from matplotlib import colormaps

    shades = sorted(dict.fromkeys((one.variant, one.size) for one in points if one.order), key=lambda one: one[1])
    for (variant, size, order), some in _series(points).items():
        colour = (
            colormaps["viridis"](0.85 * shades.index((variant, size)) / max(1, len(shades) - 1)) if order else "black"
        )
        if order != "verified":
            style = {"left": "-", "any": ":"}.get(order, "--")
            axes.plot(
                [one.costs[place] for one in some], [one.figure for one in some], style, color=colour, linewidth=1
            )
        for one in some:
            if one.beside and (place or one.marker != _TICK):  # that of greedy search lies on the others'
                axes.annotate(
                    one.variant,
                    (one.costs[place], one.figure),
                    xytext=(0, 9),
                    textcoords="offset points",
                    ha="center",
                    fontsize=6,
                )
            large = one.marker in (_TICK, _VERIFIED)
            axes.plot(
                [one.costs[place]],
                [one.figure],
                one.marker,
                color=colour,
                markerfacecolor="white" if order == "any" else colour,
                markersize=(14 if one.marker == _TICK else 9) if large else 5,
                markeredgewidth=2 if one.marker == _TICK else 1,
                zorder=3,
            )


def _name(figure: Figure, axes: Axes, points: Sequence[Point]) -> None:
    """Names left of the lines' first points, and right of ticks; one above the other where they would overlap."""
    first: dict[tuple[str, int], Point] = {}
    for (variant, size, _), some in sorted(_series(points).items(), key=lambda item: _ORDERS.index(item[0][2])):
        if not some[0].beside:
            first.setdefault((variant, size), some[0])
    lines = [variant for variant, _ in first]
    left, right = axes.get_xlim()
    axes.set_xlim(left / _BEYOND, right * _BEYOND)
    figure.canvas.draw()
    step, above = _LINE * figure.dpi / 72, {"left": -math.inf, "right": -math.inf}
    for (variant, size), one in sorted(first.items(), key=lambda item: item[1].figure):
        side = "right" if one.marker == _TICK else "left"
        _, y = axes.transData.transform((one.costs[0], one.figure))
        above[side] = max(y, above[side] + step)
        axes.annotate(
            f"{variant}, {size}" if lines.count(variant) > 1 else variant,
            (one.costs[0], one.figure),
            xytext=(7 if side == "right" else -7, (above[side] - y) * 72 / figure.dpi),
            textcoords="offset points",
            ha="left" if side == "right" else "right",
            va="center",
            fontsize=7,
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "grey", "shrinkA": 0, "shrinkB": 2},
        )


def _explain(figure: Figure, points: Sequence[Point]) -> None:
    """What marks and lines mean, in black."""
    from matplotlib.lines import Line2D

    found = {one.marker for one in points}
    orders = {one.order for one in points}
    marks = [(mark, f"threshold {value:g}") for value, mark in _MARKS.items()]
    marks += [(_VERIFIED, "verified"), (_TICK, "a pass for each symbol"), (_OTHER, "other decoders")]
    handles = [
        Line2D([], [], color="black", linestyle="", marker=mark, label=name) for mark, name in marks if mark in found
    ]
    if "left" in orders:
        handles.append(Line2D([], [], color="black", linestyle="-", marker="o", label="order left"))
    if "any" in orders:
        handles.append(
            Line2D([], [], color="black", linestyle=":", marker="o", markerfacecolor="white", label="order any")
        )
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize="small")
