"""The picture of quality against what decoding takes can be read."""

import math
from itertools import combinations

import pytest

pytest.importorskip("matplotlib", reason="comes with the extra `bench`")

from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from benchmarks import surface


def test_names_of_lines_that_begin_together_do_not_overlap_and_ticks_have_theirs_on_the_right():
    points = [surface.Point(name, 0, "", math.nan, (0.07, 4.0), 30.0) for name in ("length head", "CTC", "DAG")]
    points += [surface.Point(name, 0, "", math.nan, (1.0, 9.0), 60.0 + place) for place, name in enumerate(("a", "b"))]
    for size in (8, 16):
        points += [surface.Point("blocks", size, "left", at, (0.07 + at, 3.0), 30.0 + at) for at in (0.0, 0.5, 0.9)]
    figure = Figure(figsize=(4, 4))
    axes = figure.subplots()
    surface._draw(axes, points, 0)
    axes.set_xscale("log")
    surface._name(figure, axes, points)
    figure.canvas.draw()
    named = {one.get_text(): one for one in axes.texts if isinstance(one, Annotation)}
    assert set(named) == {"length head", "CTC", "DAG", "a", "b", "blocks, 8", "blocks, 16"}
    lines = {name: one.get_window_extent() for name, one in named.items()}  # to their points, too
    boxes = {name: Text.get_window_extent(one) for name, one in named.items()}
    assert all(lines[name].containsx(boxes[name].x0) for name in named)
    for name, other in combinations(named, 2):
        assert not boxes[name].overlaps(boxes[other]), (name, other)
    assert {name for name, one in named.items() if one.get_ha() == "left"} == {"a", "b"}


@pytest.mark.parametrize(
    ("order", "threshold", "passes", "marker"),
    [
        ("left", 0.5, 0.4, "s"),
        ("any", 0.9, 0.4, "D"),
        ("left", 0.33, 0.4, "h"),
        ("verified", math.nan, 0.6, "*"),
        ("", math.nan, 1.0, "|"),
        ("", math.nan, 0.1, "X"),
    ],
)
def test_a_mark_says_how_an_output_was_written(order, threshold, passes, marker):
    assert surface.Point("one", 4, order, threshold, (passes, 5.0), 50.0).marker == marker
