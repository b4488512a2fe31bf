"""Runs side by side, on two small runs of one task and one of another seed and data."""

import csv
import json
import shutil
from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import ttest_rel
from small_run import small_config, start, write_trees

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.common.types import Hypothesis
from seq2seq_suite.prediction.evaluate import failures, longest_repetition
from seq2seq_suite.studies.compare import MOST_TESTED, Row, _pairs, _Predictions, compare_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    folder = write_trees(place / "data")
    other = write_trees(place / "other", sizes={"train": 40, "validation": 8, "test": 7})
    start(small_config(folder), place / "first")
    start(small_config(folder, max_updates=4), place / "second")
    start(small_config(other, max_updates=4), place / "third")
    return [place / name for name in ("first", "second", "third")]


def test_rows_are_the_summaries_and_only_runs_on_the_same_examples_are_paired(runs):
    found = compare_runs(runs, measure=False)
    assert [row.run for row in found.rows] == ["first", "second", "third"]
    for row, run in zip(found.rows, runs, strict=True):
        summary = json.loads((run / "summary.json").read_text())
        assert row.figure == pytest.approx(summary["splits"]["test"]["f1"]) and row.low <= row.figure <= row.high
        assert row.core_parameters + row.own_parameters == summary["parameters"]
        assert row.latency_ms != row.latency_ms, "not measured"
    (pair,) = found.pairs
    assert (pair.first, pair.second) == ("first", "second")
    assert pair.difference == pytest.approx(found.rows[1].figure - found.rows[0].figure)
    assert 0.0 < pair.p_value == pair.holm_p <= 1.0 and pair.test == "randomisation test"


def test_the_figure_is_that_of_the_newest_predictions(runs, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs[0], run)
    file = run / "predictions" / "test.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:  # as `evaluate` would with a perfect search
        row["counts"] = [max(row["counts"])] * 3
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (better, before), (pair,) = (found := compare_runs([run, runs[0]], measure=False)).rows, found.pairs
    assert better.figure == better.low == better.high == 100.0 and pair.difference == before.figure - 100.0


def test_speed_is_measured_where_data_are_there(runs, capsys, tmp_path):
    row = compare_runs(runs[:1]).rows[0]
    assert row.latency_ms > 0.0 and row.sentences_per_second > 0.0
    config = runs[0] / "config.yaml"
    kept = config.read_text()
    try:
        config.write_text(kept.replace(str(runs[0].parent / "data"), str(tmp_path / "gone")))
        row = compare_runs(runs[:1]).rows[0]
        assert row.latency_ms != row.latency_ms and "speed is not measured" in capsys.readouterr().out
    finally:
        config.write_text(kept)


def test_the_verb_prints_and_writes_what_was_found(runs, tmp_path, capsys):
    page, table, plain = tmp_path / "c.html", tmp_path / "c.csv", tmp_path / "c.json"
    files = ["--html", str(page), "--csv", str(table), "--json", str(plain)]
    assert cli.main(["compare", *map(str, runs), "--no-speed", *files]) == 0
    printed = capsys.readouterr().out
    assert "second against first" in printed and "95 % interval" in printed
    assert printed.startswith("Not an equal comparison: 4 updates (")
    assert page.read_text().count("<h2>") >= 7
    with table.open() as file:
        assert [row["run"] for row in csv.DictReader(file)] == ["first", "second", "third"]
    found = json.loads(plain.read_text())
    assert len(found["rows"]) == 3 and len(found["pairs"]) == 1 and found["rows"][0]["latency_ms"] is None


def test_what_is_no_finished_run_is_named(runs, tmp_path, capsys):
    with pytest.raises(DataError, match="not a run directory"):
        compare_runs([tmp_path])
    assert cli.main(["compare", str(runs[0]), "--split", "dev"]) == 2
    said = capsys.readouterr().err
    assert "was not evaluated on 'dev'" in said and f"evaluate {runs[0]} --split dev" in said


def test_runs_that_were_not_tested_are_compared_on_a_split_that_all_have(runs, tmp_path):
    for name, splits in (("both", ("train", "validation")), ("one", ("validation",))):
        config = small_config(runs[0].parent / "data", max_updates=4)
        data = config.data.model_copy(update={"test_splits": splits})
        start(config.model_copy(update={"data": data}), tmp_path / name)
    found = compare_runs([tmp_path / "both", tmp_path / "one"], split=None, measure=False)
    for row in found.rows:
        summary = json.loads((tmp_path / row.run / "summary.json").read_text())
        assert row.split == "validation" and row.figure == summary["splits"]["validation"]["f1"]
    assert compare_runs(runs[:1], split=None, measure=False).rows[0].split == "test"


def test_failures_are_counted_whatever_the_metric():
    def output(*symbols: int, complete: bool = True) -> list[Hypothesis]:
        return [Hypothesis(symbols, 0.0, complete)]

    targets = [[5, 6, 2], [5, 6, 2], [7, 7, 7, 7, 2], [5, 2], [5, 2]]
    encoded = [Encoded(source=None, target=_array(target)) for target in targets]
    hypotheses = [output(5, 6), output(), output(7, 7, 7, 7), output(8, 9, 8, 9, 8, 9, complete=False), []]
    found = failures(hypotheses, ["a", "", "b", None, None], encoded)
    assert found == {"invalid": 40.0, "empty": 40.0, "repeated": 20.0, "truncated": 20.0}


def test_the_longest_repetition_is_that_of_a_plain_search():
    for symbols in ([1], [1, 1], [1, 2, 1, 2, 1], [3, 1, 2, 1, 2, 1, 2], [1, 2, 3, 4] * 3, [1, 2, 2, 2, 3]):
        plain = max(
            count
            for size in range(1, 5)
            for first in range(len(symbols) - size + 1)
            for count in range(1, 13)
            if symbols[first : first + size] * count == symbols[first : first + size * count]
        )
        assert longest_repetition(symbols) == plain, symbols


def _array(values: list[int]):
    import numpy as np

    return np.array(values)


def test_several_files_run_one_after_the_other_and_end_in_the_table(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text((runs[0] / "config.yaml").read_text())
    assert cli.main(["run", "one.yaml", "two.yaml", "training.max_updates=4", "--output", "both"]) == 0
    printed = capsys.readouterr().out
    assert "the run is in both/one" in printed and "two against one" in printed
    rows = [json.loads((tmp_path / "both" / name / "summary.json").read_text()) for name in ("one", "two")]
    assert rows[0]["splits"] == rows[1]["splits"]


REPORTED = (("not resolved", 8), ("no difference (within 0.5)", 3000))


@pytest.mark.parametrize(("verdict", "items"), REPORTED)
def test_one_changed_output_of_a_copied_run_is_no_difference(runs, tmp_path, capsys, verdict, items):
    for name in ("one", "two"):
        shutil.copytree(runs[0], tmp_path / name)
        file = tmp_path / name / "predictions" / "test.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        rows = [{**rows[place % len(rows)], "counts": [7, 7, 7]} for place in range(items)]
        if name == "two":
            rows[1]["counts"] = [5, 7, 7]
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    page = tmp_path / "c.html"
    assert cli.main(["compare", str(tmp_path / "one"), str(tmp_path / "two"), "--no-speed", "--html", str(page)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"two against one −{200 / 7 / items:.2f}" in printed and f"1.000 {verdict}" in printed
    assert f": {verdict} (p 1.000, randomisation test)" in printed and "Not an equal" not in printed
    text = page.read_text()
    assert f": {verdict} (p 1.000, randomisation test)" in text and "1.000</td>" in text
    assert '"leads":true' not in text.replace(" ", "") and "surely" not in text


def test_two_variants_of_three_seeds_are_paired_by_seed(runs, tmp_path):
    for width, figures in (("wide", (90, 91, 89)), ("deep", (92, 94, 90))):
        for seed, figure in enumerate(figures):
            run = tmp_path / f"{width}-{seed}"
            shutil.copytree(runs[0], run)
            config = (run / "config.yaml").read_text()
            (run / "config.yaml").write_text(config.replace("dropout: 0.1", f"dropout: 0.{len(width) + (width < 'e')}"))
            origin = json.loads((run / "provenance.json").read_text())
            (run / "provenance.json").write_text(json.dumps({**origin, "seed": seed}))
            file = run / "predictions" / "test.jsonl"
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            file.write_text("".join(json.dumps({**row, "counts": [figure, 100, 100]}) + "\n" for row in rows))
    (pair,) = compare_runs(sorted(tmp_path.iterdir()), measure=False).pairs
    theirs = ttest_rel([90, 91, 89], [92, 94, 90])
    assert (pair.first, pair.second, pair.seeds, pair.test) == ("deep", "wide", (0, 1, 2), "paired t test")
    assert pair.p_value == pytest.approx(theirs.pvalue) and pair.difference == pytest.approx(-2.0)
    assert (pair.low, pair.high) == pytest.approx(tuple(theirs.confidence_interval()))
    assert pair.verdict == "not resolved"


@pytest.mark.parametrize(("higher", "best"), [(True, 2), (False, 9)])
def test_of_many_runs_each_is_tested_against_the_first_and_holm_counts_all_pairs(higher, best):
    count = MOST_TESTED + 1
    figures = [{2: 55.0, 9: 45.0}.get(place, 50.0) for place in range(count)]
    unused = {field.name: 0 for field in fields(Row)} | {"split": "test", "directory": "nowhere"}
    rows = [
        Row(**{**unused, "run": str(place), "task": "qa", "figure": figure, "higher_is_better": higher})
        for place, figure in enumerate(figures)
    ]
    right = [[[float(item < figure), 1.0] for item in range(100)] for figure in figures]
    found = _pairs(rows, [_Predictions((), np.array(one)) for one in right], ["mean"] * count)
    assert [(pair.first, pair.second) for pair in found] == [
        (str(min(best, place)), str(max(best, place)))
        for place in sorted(set(range(count)) - {best}, key=lambda place: figures[place] * (-1 if higher else 1))
    ]
    least = min(found, key=lambda pair: pair.p_value)
    assert least.holm_p == pytest.approx(least.p_value * count * (count - 1) / 2)


def test_another_systems_outputs_are_compared_with_a_runs(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [json.loads(line) for line in (runs[0] / "predictions" / "test.jsonl").read_text().splitlines()]
    for name, key in (("same.txt", "prediction"), ("perfect.txt", "reference")):
        (tmp_path / name).write_text("".join(f"{row[key]}\n" for row in rows))
    found = compare_runs([tmp_path / "same.txt", runs[0], runs[2], tmp_path / "perfect.txt"], measure=False)
    first, other, same, perfect = found.rows
    assert (same.figure, same.low, same.high) == (first.figure, first.low, first.high) and same.updates == 0
    assert perfect.figure == perfect.low == perfect.high == 100.0 and other.run == "third"
    assert {frozenset((pair.first, pair.second)): pair.verdict for pair in found.pairs} == {
        frozenset(("first", same.run)): "tie",
        frozenset(("first", perfect.run)): "better",
        frozenset((same.run, perfect.run)): "better",
    }  # the third run has other examples
    assert cli.main(["compare", str(runs[0]), "perfect.txt", "--no-speed", "--html", "c.html", "--json", "c.json"]) == 0
    out = capsys.readouterr().out
    assert "perfect.txt" in out and "0 updates" not in out and "seed 0" not in out
    assert json.loads((tmp_path / "c.json").read_text())["rows"][1]["run"] == "perfect.txt"


def test_outputs_that_do_not_fit_a_run_are_refused(runs, tmp_path, capsys):
    (tmp_path / "few.txt").write_text("(S (NN a))\n")
    assert cli.main(["compare", str(runs[0]), str(tmp_path / "few.txt")]) == 2
    assert "few.txt: 1 predictions for " in capsys.readouterr().err
    assert cli.main(["compare", str(tmp_path / "few.txt")]) == 2
    assert "few.txt: outputs of other systems alone" in capsys.readouterr().err
