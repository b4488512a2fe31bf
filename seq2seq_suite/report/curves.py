"""Curves as inline SVG, drawn with nothing but text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

Series = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 420, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 30, 40  # margins around the plot
_TICKS = 5
_MOST_MARKED = 40  # points of a curve that get a dot each


def curve(title: str, series: dict[str, Series], *, x_label: str, y_label: str) -> str:
    """A line chart.

    Args:
        title: above the chart.
        series: name -> (x, y) points in order of x; those that are not finite are left out.
        x_label, y_label: what the axes are.

    Returns:
        An `<svg>` element that takes its colours from the page's variables `--series-1` to `--series-4`; empty if
        there is no point to draw.
    """
    finite = {name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
              for name, points in series.items()}
    finite = {name: points for name, points in finite.items() if points}
    if not finite:
        return ""
    xs = [x for points in finite.values() for x, _ in points]
    ys = [y for points in finite.values() for _, y in points]
    x_ticks, y_ticks = ticks(min(xs), max(xs)), ticks(min(ys), max(ys))
    low_x, high_x = min(*xs, x_ticks[0]), max(*xs, x_ticks[-1])
    low_y, high_y = min(*ys, y_ticks[0]), max(*ys, y_ticks[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        right = (x - low_x) / (high_x - low_x) if high_x > low_x else 0.5
        up = (y - low_y) / (high_y - low_y) if high_y > low_y else 0.5
        return _LEFT + right * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
             f'<text class="title" x="{_LEFT}" y="16">{escape(title)}</text>']
    for tick in y_ticks:
        _, y = place(low_x, tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                     f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    for tick in x_ticks:
        x, _ = place(tick, low_y)
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{_number(tick)}</text>')
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">'
                 f'{escape(x_label)}</text>'
                 f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    for number, (name, points) in enumerate(finite.items(), 1):
        parts.append(_line(name, [place(*point) for point in points], points, number))
    if len(finite) > 1:
        parts.append(_legend(list(finite)))
    return "".join(parts) + "</svg>"


def _line(name: str, places: Sequence[tuple[float, float]], points: Series, number: int) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    style = f"stroke:var(--series-{(number - 1) % 4 + 1})"
    drawn = f'<polyline class="curve" style="{style}" points="{path}"/>'
    if len(points) <= _MOST_MARKED:
        fill = f"fill:var(--series-{(number - 1) % 4 + 1})"
        drawn += "".join(f'<circle style="{fill}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>{escape(name)} '
                         f"{at[1]:.4g} at {at[0]:g}</title></circle>"
                         for (x, y), at in zip(places, points, strict=True))
    return drawn


def _legend(names: Sequence[str]) -> str:
    """The names at the top right, each in its curve's colour."""
    spans = "".join(f'<tspan style="fill:var(--series-{place % 4 + 1})" dx="10">{escape(name)}</tspan>'
                    for place, name in enumerate(names))
    return f'<text class="legend" x="{_WIDTH - _RIGHT}" y="16" text-anchor="end">{spans}</text>'


def ticks(low: float, high: float) -> list[float]:
    """Round values that enclose a range, about five of them.

    >>> ticks(0.3, 2.1)
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    >>> ticks(7, 7)
    [7]
    """
    if high <= low:
        return [low]
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(number * step, digits) for number in range(first, last + 1)]


def _number(value: float) -> str:
    """A tick's label.

    >>> _number(20000.0), _number(0.0015), _number(97.5), _number(0.0)
    ('20k', '1.5e-3', '97.5', '0')
    """
    if value and abs(value) < 1e-2:
        digits, _, exponent = f"{value:.4e}".partition("e")
        return f"{float(digits):g}e{int(exponent)}"
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}"
