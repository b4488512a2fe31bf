"""What a browser makes of the charts."""

from itertools import product

import pytest
from daily import daily

from seq2seq_suite.report.page import render

LABELS = ["NP", "VP", "a label whose name is much too long for the room that a chart has for names"]
PANELS = {
    "lines": {
        "x": "updates",
        "y": "loss ↓",
        "log": True,
        "series": [
            {"name": "training", "points": [[update, 3 / update] for update in range(1, 90)]},
            {"name": "validation", "dashed": True, "marks": True, "ring": 80, "points": [[40, 0.2], [80, 0.1]]},
        ],
    },
    "dots": {
        "x": "words",
        "y": "F1 ↑",
        "series": [
            {
                "name": "",
                "points": [["1–5", 99.9, 99.7, 100, 73], ["6+", 99.2, 20, 99.4, 5], ["none", 99.5, None, None, 1]],
            }
        ],
    },
    "rows": {
        "kind": "dots",
        "x": "label",
        "y": "% ↑",
        "series": [
            {"name": name, "points": [[label, 95.5, 93, 97, 10] for label in LABELS]}
            for name in ("precision", "recall")
        ],
    },
    "axis": {
        "kind": "dots",
        "x": "probability",
        "y": "right",
        "diagonal": True,
        "series": [{"name": "", "points": [[0.1, 0.2, 0.1, 0.3, 9], [0.9, 0.8, 0.7, 0.9, 9]]}],
    },
    "bars": {
        "x": "",
        "y": "outputs",
        "series": [
            {"name": name, "points": [["order", 14], ["missing", 2.5]]}
            for name in ("test", "<img src=x onerror=alert(1)>")
        ],
    },
    "scatter": {"x": "a", "y": "b", "series": [{"name": "", "points": [[3, 4, None, None, 9], [5, 5, None, None, 1]]}]},
    "matrix": {
        "x": "predicted",
        "y": "gold",
        "rows": LABELS,
        "columns": LABELS * 4,
        "cells": [[1, 0, None, 250] * 3] * 3,
    },
    "strip": {"x": "", "y": "s", "series": [{"name": name, "points": [["", 3]]} for name in ("data", "training")]},
    "table": {"columns": ["said", "heard"], "cells": [["<b>knew</b>", None]]},
}


DRAW = "(panel) => charts.panel(document.querySelector('main'), panel)"
CLEAR = "document.querySelector('main').replaceChildren()"


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    path = tmp_path_factory.mktemp("charts") / "charts.html"
    path.write_text(
        render(
            "plain.html",
            title="Charts",
            parts=[],
            scripts=["charts.js"],
            data={
                "panels": [
                    {"kind": name, "title": name, "question": "Why?", "note": "Because.", **panel}
                    for name, panel in PANELS.items()
                ]
            },
        )
    )
    return path


def drawn(opened, gallery, **options):
    page = opened(gallery, **options)
    page.evaluate("for (const one of page.data('panels')) charts.panel(document.querySelector('main'), one)")
    return page


@pytest.mark.parametrize(
    ("width", "theme"), daily(product([400, 1400], ["light", "dark"]), (400, "dark"), (1400, "light"))
)
def test_every_chart_fits_the_width_it_has(opened, gallery, width, theme):
    page = drawn(opened, gallery, width=width, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.evaluate("""() => [...document.querySelectorAll('.panel')].map((one) => {
        const {width, height} = one.getBoundingClientRect();
        return [one.querySelector('h3').textContent, width, height]; })""")
    assert [name for name, *_ in boxes] == list(PANELS) and all(min(box[1:]) > 40 for box in boxes), boxes
    outside = page.evaluate("""() => [...document.querySelectorAll('.chart > svg text')].filter((one) => {
        const box = one.getBoundingClientRect(), around = one.closest('.chart').getBoundingClientRect();
        return box.left < around.left - 1 || box.right > around.right + 1; }).map((one) => one.textContent)""")
    assert not outside, outside


def test_charts_are_drawn_again_when_the_window_changes_and_their_type_keeps_its_size(opened, gallery):
    page = drawn(opened, gallery)
    widths = []
    for width in (1400, 500):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("document.querySelector('.chart svg').getBoundingClientRect().width <= innerWidth")
        widths.append(page.evaluate("Number(document.querySelector('.chart svg').getAttribute('width'))"))
        assert page.evaluate("getComputedStyle(document.querySelector('svg text')).fontSize") == "12px"
    assert widths[0] > 1000 and widths[1] < 500


def test_arrow_keys_tell_the_exact_values_of_each_chart(opened, gallery):
    page = drawn(opened, gallery)
    shown = []
    for chart in page.locator(".chart svg[role=img]").all():
        chart.focus()
        page.keyboard.press("ArrowRight")
        shown.append(page.locator("#tip").text_content())
    assert len(shown) == len(PANELS) - 1 and all(shown)
    assert "words 1–5\nF1 99.90\n95 %: 99.70 to 100\nn 73" in shown
    page.keyboard.press("Escape")
    assert page.evaluate("getComputedStyle(document.getElementById('tip')).visibility") == "hidden"


def test_a_pointer_near_a_mark_tells_its_value(opened, gallery):
    page = drawn(opened, gallery)
    page.locator(".panel:nth-of-type(2) .chart circle").first.hover()
    assert "F1 99.90" in page.locator("#tip").text_content()


def test_names_are_text_and_never_markup(opened, gallery):
    page = drawn(opened, gallery)
    assert page.locator("main img, td b").count() == 0
    assert page.get_by_text("<b>knew</b>").count() == 1


@pytest.mark.parametrize(
    "panel, said",
    [
        ({"kind": "odd"}, "Unknown kind of chart."),
        ({"kind": "dots", "series": []}, "There are no values to draw."),
        ({"kind": "lines", "series": [{"name": "", "points": [[1, None]]}]}, "There are no values to draw."),
    ],
)
def test_a_panel_without_anything_to_draw_says_so(opened, gallery, panel, said):
    page = opened(gallery)
    page.evaluate(DRAW, panel)
    assert said in page.locator(".panel").text_content()


@pytest.mark.parametrize("kind", ["lines", "dots", "bars", "scatter"])
def test_odd_values_never_make_a_coordinate_that_is_no_number(opened, gallery, kind):
    page = opened(gallery)
    for points in ([[1, 5]], [[1, 0], [2, 0]], [[1, -3], [2, -3]], [["a", 0]], [["a", 1e9], ["b", 1e-9]]):
        page.evaluate(CLEAR)
        page.evaluate(DRAW, {"kind": kind, "x": "x", "y": "y", "series": [{"name": "", "points": points}]})
        drawn = page.locator(".panel").inner_html()
        assert "NaN" not in drawn and "Infinity" not in drawn, points


def test_names_stand_beside_their_points_and_on_nothing_else(opened, gallery):
    page = opened(gallery)
    points = [[1, 5, 4, 6, None, "a long name"], [1.02, 5.01, None, None, None, "a second long name"], [9, 6]]
    page.evaluate(
        DRAW,
        {
            "kind": "scatter",
            "x": "x",
            "y": "y",
            "series": [{"name": "run", "points": points}],
            "levels": [["baseline", 1.5], ["ceiling", 5.5]],
        },
    )
    page.locator(".panel text", has_text="baseline 1.50 ↓").wait_for()
    assert page.locator(".panel text", has_text="ceiling 5.50").text_content() == "ceiling 5.50"
    boxes = [page.locator(".panel text", has_text=name).bounding_box() for name in ("a long name", "a second", "ceil")]
    for one in boxes:
        for other in boxes:
            apart = one["x"] + one["width"] <= other["x"] or one["y"] + one["height"] <= other["y"] + 4
            assert one is other or apart or other["x"] + other["width"] <= one["x"] or other["y"] + 8 <= one["y"]


SMALL_DIFFERENCES = (
    ([23.9, 24.0, 24.05], []),
    ([99.5, 99.7], []),
    ([0.345, 0.346], []),
    ([0.0, 0.0], []),
    ([21.7], []),
    ([1234567.0, 1234568.0], []),
    ([-0.001, -0.0011], []),
    ([5.0, 5.1], [1.0, 99.0]),
)


@pytest.mark.parametrize("kind", ["dots", "scatter", "lines", "logarithm", "rows"])
def test_ticks_differ_and_a_small_difference_never_fills_the_axis(opened, gallery, kind):
    page = opened(gallery)
    named = kind in ("dots", "rows")
    for values, ends in SMALL_DIFFERENCES:
        points = [[f"run {place}" if named else abs(value) or 1.0, value, *ends] for place, value in enumerate(values)]
        page.evaluate(CLEAR)
        page.evaluate(
            DRAW,
            {
                "kind": {"rows": "dots", "logarithm": "scatter"}.get(kind, kind),
                "x": "ms",
                "y": "F1 ↑",
                "logX": kind == "logarithm",
                "flat": kind == "rows",
                "bold": ["run 0"],
                "series": [{"name": "", "points": points}],
            },
        )
        across, up, upright, flat = page.evaluate("""() => { const found = (what) =>
            [...document.querySelectorAll(what)];
          const dots = found(".chart svg circle:not([r='8'])").map((one) => one.getBoundingClientRect());
          const size = document.querySelector(".chart svg").getBoundingClientRect();
          const far = (side) => Math.max(...dots.map((one) => one[side])) - Math.min(...dots.map((one) => one[side]));
          const ticks = found(".chart svg text:not(.ink)").filter((one) => /^[−\\d]/.test(one.textContent));
          const texts = (upright) => ticks.filter((one) => (one.getAttribute("x") === "40") === upright)
              .map((one) => one.textContent);
          return [far("x") / size.width, far("y") / size.height, texts(true), texts(false)]; }""")
        assert len(set(upright)) == len(upright) and len(set(flat)) == len(flat), (values, upright, flat)
        assert upright if kind != "rows" else flat, values
        relative = (max(values) - min(values)) / max(map(abs, values)) if any(values) else 0
        if relative < 0.01:  # a hundredth of the values is at most a quarter of their axis
            assert (across if kind in ("rows", "logarithm") else up) < 0.3, values
            assert kind not in ("scatter", "logarithm") or across < 0.3, values


def test_a_stack_has_the_interval_of_its_whole(opened, tmp_path):
    path = tmp_path / "stack.html"
    path.write_text(render("plain.html", title="", parts=[], scripts=["charts.js"]))
    page = opened(path)
    page.evaluate("""() => charts.bars(document.querySelector("main"), {x: "speaker", y: "WER", stacked: true,
      totals: [["a", 30, 20, 45, 9]], series: [{name: "wrong", points: [["a", 20]]},
      {name: "added", points: [["a", 10]]}]})""")
    left, right = (page.locator("main .chart > svg rect").nth(number).bounding_box() for number in (0, 1))
    one = left["width"] / 20  # a point
    line = page.locator("main .chart > svg line:not(.base)").bounding_box()
    assert right["width"] == pytest.approx(10 * one) and line["width"] == pytest.approx(25 * one, abs=2)
    assert line["x"] == pytest.approx(left["x"] + 20 * one, abs=2)
    page.locator("main .chart > svg").press("ArrowRight")
    page.locator("main .chart > svg").press("ArrowRight")
    page.locator("main .chart > svg").press("ArrowRight")
    assert page.locator("#tip").inner_text() == "speaker a\nWER 30\n95 %: 20 to 45\nn 9"
