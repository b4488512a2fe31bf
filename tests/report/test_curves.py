"""Curves: drawn where their figures say, whatever the figures are."""

import re
from xml.etree import ElementTree

import pytest

from seq2seq_suite.report.curves import curve, ticks


def test_curves_leave_out_what_is_not_finite_and_survive_single_points():
    nan, inf = float("nan"), float("inf")
    assert curve("t", {"a": [(1, nan), (2, inf)]}, x_label="x", y_label="y") == ""
    assert curve("t", {}, x_label="x", y_label="y") == ""
    for points in ([(1.0, 2.0)], [(1.0, 2.0), (2.0, 2.0)], [(0.0, 1e-9), (1e6, 2e-9)], [(1, 1e12), (2, -1e12)]):
        drawn = curve("t<", {"a": [*points, (3.0, nan)], "b&": points}, x_label="x", y_label="y")
        assert "nan" not in drawn and "inf" not in drawn and "t&lt;" in drawn and "b&amp;" in drawn
        coordinates = [float(number) for pair in re.findall(r'points="(.*?)"', drawn) for number in
                       re.split(r"[ ,]", pair)]
        assert all(0 <= number <= 420 for number in coordinates)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.3, 2.1), (97.2, 98.9), (-5, 5), (1e-9, 3e-9), (0, 100_000),
                                           (0, 1e-3)])
def test_ticks_enclose_the_range_and_are_few(low, high):
    found = ticks(low, high)
    assert found[0] <= low * (1 - 1e-9) + 1e-15 and found[-1] >= high * (1 - 1e-9) and 4 <= len(found) <= 8
    assert found == sorted(found)


def drawn(series):
    """The parsed chart, and each curve's places."""
    parsed = ElementTree.fromstring(curve("t", series, x_label="x", y_label="y"))
    return parsed, [[tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
                    for line in parsed.iter("polyline")]


def test_what_grows_is_drawn_to_the_right_and_upwards():
    _, (places,) = drawn({"a": [(0, 0.0), (10, 1.0), (30, 4.0)]})
    (x1, y1), (x2, y2), (x3, y3) = places
    assert x1 < x2 < x3 and y1 > y2 > y3  # y counts downwards
    assert (x3 - x1) / (x2 - x1) == pytest.approx(3, abs=0.01) and (y1 - y3) / (y1 - y2) == pytest.approx(4, abs=0.01)


def test_points_stand_at_the_labels_of_their_values():
    parsed, (places,) = drawn({"a": [(100, 7.0), (120, 8.0), (200, 9.0)]})
    labels = {anchor: {text.text: text for text in parsed.iter("text") if text.get("text-anchor") == anchor}
              for anchor in ("middle", "end")}
    for (x, y), across, up in zip(places, ("100", "120", "200"), ("7", "8", "9"), strict=True):
        assert float(labels["middle"][across].get("x")) == pytest.approx(x, abs=0.1)
        assert float(labels["end"][up].get("y")) - 4 == pytest.approx(y, abs=0.1)
    lines = list(parsed.iter("line"))
    assert {line.get("y1") for line in lines} >= {f"{y:.1f}" for _, y in places}
    assert {(line.get("x1"), line.get("x2")) for line in lines} == {(f"{places[0][0]:g}", f"{places[-1][0]:g}")}


def test_large_and_small_values_are_labelled_shortly():
    parsed, _ = drawn({"a": [(0, 0.0), (12_500, 0.002)]})
    assert {text.text for text in parsed.iter("text")} >= {"2500", "10k", "12.5k", "5e-4", "1.5e-3"}


def test_each_name_of_the_legend_has_the_colour_of_its_curve_and_its_points():
    parsed, places = drawn({"low": [(1, 1.0), (2, 1.5)], "high": [(1, 8.0), (2, 9.0)]})
    colours = [line.get("style").removeprefix("stroke:") for line in parsed.iter("polyline")]
    assert [(name.text, name.get("style")) for name in parsed.iter("tspan")] == [
        ("low", f"fill:{colours[0]}"), ("high", f"fill:{colours[1]}")]
    assert colours[0] != colours[1] and places[0][0][1] > places[1][0][1]
    assert [(dot.get("style").removeprefix("fill:"), dot[0].text) for dot in parsed.iter("circle")] == [
        (colours[0], "low 1 at 1"), (colours[0], "low 1.5 at 2"), (colours[1], "high 8 at 1"),
        (colours[1], "high 9 at 2")]


def test_long_curves_have_no_dots_and_a_single_one_no_legend():
    parsed, _ = drawn({"a": [(x, x) for x in range(41)]})
    assert not list(parsed.iter("circle")) and not list(parsed.iter("tspan"))
