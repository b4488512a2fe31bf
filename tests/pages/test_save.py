"""What a page saves: tables that other programs read, charts that stand alone."""

import csv
import io
import xml.etree.ElementTree as ElementTree

import pytest
from PIL import Image

from seq2seq_suite.report.page import render

CELLS = [
    ["metric", "test", "a | b"],
    ["F1, % ↑", "43.91 (42.73 to 45.07)", "–"],
    ['say "it" & 5_$ #{~^}\\', "−1.50", "p < 0.1"],
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = tmp_path_factory.mktemp("saved") / "page.html"
    found.write_text(render("plain.html", title="", parts=[], scripts=["charts.js"]))
    return found


@pytest.fixture
def page(opened, path):
    found = opened(path, theme="dark")
    found.evaluate(
        """(rows) => { charts.panel(document.querySelector("main"), {kind: "table", title: "Some table",
        columns: rows[0], cells: rows.slice(1)}); charts.panel(document.querySelector("main"), {kind: "dots",
        title: "Some chart", x: "x", y: "y <&>", series: [{name: "<b>", points: [["a", 1, 0, 2], ["b", 3, 2, 4]]}]}); }
    """,
        CELLS,
    )
    return found


def text(page, kind):
    return page.evaluate("(kind) => save.formats[kind](save.cells(document.querySelector('table')), [1, 0, 0])", kind)


def test_a_table_as_csv_is_read_back_as_it_was(page):
    plain = [["" if cell == "–" else cell.replace("−", "-") for cell in row] for row in CELLS]
    assert list(csv.reader(io.StringIO(text(page, "csv"), newline=""))) == plain


def test_a_table_as_markdown_has_a_line_for_each_row_and_its_bars_are_no_columns(page):
    head, rule, *rows = text(page, "markdown").splitlines()
    assert head == "| metric | test | a \\| b |" and rule == "| --- | ---: | ---: |" and len(rows) == 2


def test_a_table_as_latex_has_nothing_that_latex_would_read(page):
    lines = text(page, "latex").splitlines()
    assert lines[0] == "\\begin{tabular}{lrr}" and lines[-1] == "\\end{tabular}"
    assert lines[5].strip() == (
        'say "it" \\& 5\\_\\$ \\#\\{\\textasciitilde{}\\textasciicircum{}\\}'
        "\\textbackslash{} & $-$1.50 & p $<$ 0.1 \\\\"
    )


def test_a_chart_is_saved_as_a_picture_that_needs_no_style_of_the_page(page):
    menu = page.locator(".panel .chart .save")
    with page.expect_download() as svg:
        menu.select_option(label="file SVG")
    with page.expect_download() as png:
        menu.select_option(label="file PNG")
    assert (svg.value.suggested_filename, png.value.suggested_filename) == ("some-chart.svg", "some-chart.png")
    drawn = svg.value.path().read_text()
    root = ElementTree.fromstring(drawn)
    assert "var(" not in drawn and "class=" not in drawn and "y <&>" in [one.text for one in root.iter()]
    with Image.open(png.value.path()) as image:
        assert image.size == tuple(2 * int(float(root.get(side))) for side in ("width", "height"))
        assert image.getpixel((2, 2))[:3] == (20, 22, 26)


def test_a_table_is_copied_or_where_that_is_not_allowed_saved(page):
    menu = page.locator(".panel").first.locator(".save")
    page.evaluate("() => { navigator.clipboard.writeText = async () => { throw new Error('no'); }; }")
    with page.expect_download() as saved:
        menu.select_option(label="copy Markdown")
    assert saved.value.suggested_filename == "some-table.md"
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    menu.select_option(label="copy LaTeX")
    assert page.evaluate("window.copied").startswith("\\begin{tabular}")
