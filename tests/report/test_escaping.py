"""Whatever names, words and outputs a run has, its page shows them as text: none of them becomes markup."""

import json
from xml.etree import ElementTree

import pytest
from report_tools import comparison_pair, comparison_row, read

from seq2seq_suite.report.comparison import write_comparison
from seq2seq_suite.report.curves import curve
from seq2seq_suite.report.html import write_report


def planted(field: str) -> str:
    """A tag, a quotation mark and an entity around the field's name."""
    return f'"<b>{field}<i>&lt;'


def lines(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The text and the tags of the page of a run that has markup everywhere."""
    directory = tmp_path_factory.mktemp("run") / planted("directory")
    (directory / "predictions").mkdir(parents=True)
    metric = planted("metric")
    (directory / "summary.json").write_text(json.dumps({
        "task": planted("task"), "primary_metric": metric, "signature": planted("signature"),
        "splits": {planted("split"): {metric: planted("card"), planted("figure"): planted("value")}}}))
    (directory / "metrics.jsonl").write_text(lines(
        {"update": 1, "split": "train", f"loss_{planted('loss')}": 1.0, "loss_other": 2.0},
        {"update": 1, "split": "validation", metric: 1.0}))
    tree = f"({planted('phrase')} ({planted('tag')} {planted('word')}) {planted('bare')})"
    (directory / "predictions" / f"{planted('file')}.jsonl").write_text(lines(
        {"source": planted("source"), "origin": planted("origin"), "figures": {metric: 1.0},
         "reference": f"{planted('agreed')} {planted('gold')}",
         "prediction": f"{planted('agreed')} {planted('output')}"},
        {"reference": tree, "prediction": tree.replace("phrase", "wrong")}))
    (directory / "predictions" / f"{planted('file')}.details.json").write_text(json.dumps({
        "labels": {planted("label"): [1, 1, 1]},
        "categories": {planted("category"): {planted("column"): planted("cell")}}}))
    (directory / "config.yaml").write_text(planted("config"))
    (directory / "provenance.json").write_text(json.dumps({
        planted("key"): planted("fact"), "versions": {planted("library"): planted("version")},
        "command": [planted("argument")], "earlier": [{"time": planted("time"), planted("old"): planted("before")}]}))
    path = write_report(directory)
    return path.read_text(encoding="utf-8"), read(path)


@pytest.mark.parametrize("field", [
    "directory", "task", "metric", "signature", "split", "card", "figure", "value", "loss", "file", "source", "origin",
    "agreed", "gold", "output", "phrase", "wrong", "tag", "word", "bare", "label", "category", "column", "cell",
    "config", "key", "fact", "library", "version", "argument", "time", "old", "before"])
def test_every_field_of_a_run_is_shown_as_it_is(page, field):
    text, found = page
    assert planted(field) in found.text
    assert f"<b>{field}" not in text and f"{field}<i>" not in text


def test_the_name_of_a_curve_is_whole_in_its_attribute(page):
    assert ("aria-label", f"validation {planted('metric')}") in page[1].attributes


@pytest.mark.parametrize("part", ["title", "x", "y", "first", "second"])
def test_every_text_of_a_chart_is_shown_as_it_is(part):
    drawn = curve(planted("title"), {planted("first"): [(1, 2), (3, 4)], planted("second"): [(1, 3), (3, 1)]},
                  x_label=planted("x"), y_label=planted("y"))
    parsed = ElementTree.fromstring(drawn)
    assert planted(part) in "".join(parsed.itertext())
    assert {one.tag for one in parsed.iter()} <= {"svg", "text", "tspan", "title", "line", "polyline", "circle"}


@pytest.mark.parametrize("name", ["run", "task", "split", "metric", "second", "first"])
def test_every_name_in_a_comparison_is_shown_as_it_is(tmp_path, name):
    row = comparison_row(**{name: planted(name) for name in ("run", "task", "split", "metric")})
    pair = comparison_pair(**{name: planted(name) for name in ("first", "second", "metric")})
    write_comparison([row], [pair], html=tmp_path / "page.html")
    assert planted(name) in read(tmp_path / "page.html").text
    assert f"<b>{name}" not in (tmp_path / "page.html").read_text(encoding="utf-8")
