"""Whatever names, words and outputs a run has, its page shows them as text: none of them becomes markup."""

import json

import pytest
from report_tools import comparison_pair, comparison_row, read

from seq2seq_suite.common.files import to_json
from seq2seq_suite.report.comparison import write_comparison
from seq2seq_suite.report.run import write_report


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
    (directory / "summary.json").write_text(
        json.dumps(
            {
                "task": planted("task"),
                "primary_metric": metric,
                "signature": planted("signature"),
                "splits": {planted("split"): {metric: 1.0, planted("figure"): 2.0}},
            }
        )
    )
    (directory / "metrics.jsonl").write_text(
        lines(
            {"update": 1, "split": "train", f"loss_{planted('loss')}": 1.0, "loss_other": 2.0},
            {"update": 1, "split": "validation", metric: 1.0},
        )
    )
    tree = f"({planted('phrase')} ({planted('tag')} {planted('word')}) {planted('bare')})"
    (directory / "predictions" / f"{planted('file')}.jsonl").write_text(
        lines(
            {
                "source": planted("source"),
                "origin": planted("origin"),
                "figures": {metric: 1.0},
                "kinds": [planted("kind")],
                "facts": {planted("name"): planted("value")},
                "reference": f"{planted('agreed')} {planted('gold')}",
                "prediction": f"{planted('agreed')} {planted('output')}",
            },
            {"reference": tree, "prediction": tree.replace("phrase", "wrong")},
        )
    )
    (directory / "predictions" / f"{planted('file')}.details.json").write_text(
        json.dumps(
            {"labels": {planted("label"): [1, 1, 1]}, "categories": {planted("category"): {planted("column"): 1}}}
        )
    )
    (directory / "config.yaml").write_text(planted("config"))
    (directory / "provenance.json").write_text(
        json.dumps(
            {
                planted("key"): planted("fact"),
                "versions": {planted("library"): planted("version")},
                "command": [planted("argument")],
                "earlier": [{"time": planted("time"), planted("old"): planted("before")}],
            }
        )
    )
    path = write_report(directory)
    return path.read_text(encoding="utf-8"), read(path)


@pytest.mark.parametrize(
    "field",
    [
        "directory",
        "task",
        "metric",
        "signature",
        "split",
        "figure",
        "loss",
        "file",
        "source",
        "origin",
        "agreed",
        "gold",
        "output",
        "phrase",
        "wrong",
        "tag",
        "word",
        "bare",
        "label",
        "category",
        "column",
        "kind",
        "name",
        "value",
        "config",
        "key",
        "fact",
        "library",
        "version",
        "argument",
        "time",
        "old",
        "before",
    ],
)
def test_every_field_of_a_run_is_shown_as_it_is(page, field):
    text, found = page
    assert planted(field) in found.text or to_json(planted(field))[1:-1].replace("<", "\\u003c") in found.text
    assert f"<b>{field}" not in text and f"{field}<i>" not in text


@pytest.mark.parametrize("name", ["run", "task", "split", "metric", "second", "first"])
def test_every_name_in_a_comparison_is_shown_as_it_is(tmp_path, name):
    row = comparison_row(**{name: planted(name) for name in ("run", "task", "split", "metric")})
    pair = comparison_pair(**{name: planted(name) for name in ("first", "second", "metric")})
    write_comparison([row], [pair], html=tmp_path / "page.html")
    assert planted(name) in read(tmp_path / "page.html").text
    assert f"<b>{name}" not in (tmp_path / "page.html").read_text(encoding="utf-8")
