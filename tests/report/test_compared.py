"""What the page of a comparison says: the best, what is sure, what differs, and where the outputs do."""

import json

import pytest
from report_tools import comparison_pair, comparison_row

from seq2seq_suite.report import compared

NAN = float("nan")


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def make_run(directory, config="task: parsing\nseed: 1\n", metrics=(), outputs=()):
    (directory / "predictions").mkdir(parents=True)
    (directory / "config.yaml").write_text(config)
    (directory / "metrics.jsonl").write_text(lines(*metrics))
    (directory / "predictions" / "test.jsonl").write_text(lines(*outputs))
    return str(directory)


def said(words):
    return "".join(text for text, _ in words)


def pair(first, second, p):
    return comparison_pair(first=first, second=second, holm_p=p)


def test_the_best_of_a_task_is_first_in_the_metrics_own_direction():
    rows = [comparison_row(run="a", task="asr", metric="wer", figure=9.0, higher_is_better=False),
            comparison_row(run="b", task="asr", metric="wer", figure=7.0, higher_is_better=False),
            comparison_row(run="c", figure=50.0), comparison_row(run="d", figure=60.0)]
    assert {task: [row["run"] for row in some] for task, some in compared.by_task(rows).items()} == {
        "asr": ["b", "a"], "parsing": ["d", "c"]}


def test_a_figure_becomes_what_is_left_to_perfect():
    f1, wer = compared.figures([comparison_row(figure=99.5, low=99.0, high=100.0), comparison_row(
        run="x", task="asr", metric="wer", figure=7.0, low=NAN, high=NAN, higher_is_better=False)], [])
    assert f1["rows"][0]["miss"] == 0.5 and f1["rows"][0]["ends"] == [1.0, 0.01]  # a logarithm has no 0
    assert wer["rows"][0]["miss"] == 7.0 and wer["rows"][0]["ends"] == [None, None]


def test_bold_are_the_best_and_what_a_test_does_not_show_to_be_worse():
    rows = [comparison_row(run=name, figure=figure) for name, figure in (("a", 90), ("b", 89), ("c", 80), ("d", 70))]
    found = compared.figures(rows, [pair("a", "b", 0.3), pair("c", "a", 0.01)])[0]["rows"]
    assert [row["is_best"] for row in found] == [True, True, False, False]  # d was not tested: nothing is said for it


@pytest.mark.parametrize(("chances", "words"), [
    ((0.01, 0.02), "surely ahead of all 2 others"), ((0.01, 0.2), "surely ahead of 1 of 2 others"),
    ((0.01, None), "a is best: F1 90.00. ")])
def test_the_page_begins_with_the_best_run_and_how_sure_that_is(chances, words):
    rows = [comparison_row(run=name, figure=90.0 - place, latency_ms=NAN) for place, name in enumerate("abc")]
    pairs = [pair("a", name, p) for name, p in zip("bc", chances, strict=True) if p is not None]
    assert words in said(compared.lede(rows, pairs, {row["run"]: [row] for row in rows}))


def test_with_several_seeds_each_the_best_is_the_best_mean():
    grouped = {name: [comparison_row(run=f"{name}{seed}", seed=seed, figure=figure) for seed, figure in enumerate(some)]
               for name, some in (("wide", (80.0, 99.0)), ("deep", (91.0, 93.0)))}
    rows = [row for some in grouped.values() for row in some]
    assert "deep is best on the mean of its 2 seeds: F1 92.00 (79.29 to 104.71)" in said(
        compared.lede(rows, [], grouped))


def test_the_fastest_is_named_where_times_are_far_apart():
    rows = [comparison_row(run="slow", latency_ms=9.0), comparison_row(run="fast", latency_ms=3.0, figure=80.0)]
    grouped = {row["run"]: [row] for row in rows}
    assert "fast decodes one input in 3.0 ms, slow in 9.0 ms" in said(compared.lede(rows, [], grouped))
    rows[1]["latency_ms"] = 8.0
    assert "decodes" not in said(compared.lede(rows, [], grouped))


def test_curves_of_a_joint_run_come_from_the_whole_runs_metrics(tmp_path):
    alone = make_run(tmp_path / "alone", metrics=[
        {"update": 5, "split": "validation", "f1": 50.0, "seconds": 60.0},
        {"update": 9, "split": "validation", "f1": 70.0, "seconds": 90.0}])
    make_run(tmp_path / "joint", metrics=[{"update": 7, "split": "validation", "parsing/f1": 65.0, "seconds": 120.0}])
    (tmp_path / "joint" / "tasks" / "parsing").mkdir(parents=True)
    (found,) = compared.curves([comparison_row(directory=alone), comparison_row(
        run="both", directory=str(tmp_path / "joint" / "tasks" / "parsing"))])
    points = {one["name"]: [[point[0], point[1], point[3]] for point in one["points"]] for one in found["series"]}
    assert points == {"one": [[5, 1.0, 50.0], [9, 1.5, 70.0]], "both": [[7, 2.0, 65.0]]}


def test_of_many_runs_the_best_are_drawn_and_the_rest_is_counted(tmp_path):
    rows = [comparison_row(run=str(place), figure=float(place), directory=make_run(
        tmp_path / str(place), metrics=[{"update": 1, "split": "validation", "f1": 1.0}])) for place in range(9)]
    (found,) = compared.curves(rows)
    assert [one["name"] for one in found["series"]] == ["8", "7", "6", "5", "4", "3"] and found["left_out"] == 3


def test_runs_that_differ_in_their_seed_alone_are_one_variant(tmp_path):
    rows = [comparison_row(run=name, seed=seed, figure=figure, directory=make_run(
        tmp_path / name, f"task: parsing\nseed: {seed}\nbackbone: {{width: {width}}}\n"))
            for name, seed, figure, width in (("w-1", 1, 90.0, 64), ("w-2", 2, 92.0, 64), ("x", 1, 80.0, 32))]
    given = compared.settings(rows)
    grouped = compared.groups(rows, given)
    assert {name: [row["run"] for row in some] for name, some in grouped.items()} == {"w": ["w-1", "w-2"], "x": ["x"]}
    assert compared.seeds(grouped) == [("w", "parsing", "F1 ↑", "2", "91.00", "78.29 to 103.71")]
    assert compared.differences({name: given[some[0]["run"]] for name, some in grouped.items()})["rows"] == [
        ("backbone.width", "64", "32")]


def test_the_same_seed_twice_is_no_second_seed(tmp_path):
    rows = [comparison_row(run=name, directory=make_run(tmp_path / name)) for name in ("r-1", "r-2")]
    assert list(compared.groups(rows, compared.settings(rows))) == ["r-1", "r-2"]


def test_training_together_is_compared_with_training_alone_by_task_and_seed():
    rows = [comparison_row(run=f"{kind}{seed}", seed=seed, figure=figure,
                           directory=f"joint{seed}/tasks/parsing" if kind == "both" else f"alone{seed}")
            for kind, seed, figure in (("both", 1, 92.0), ("both", 2, 94.0), ("alone", 1, 91.0), ("alone", 2, 91.0),
                                       ("alone", 3, 50.0))]
    found = compared.sharing(rows)["series"][0]["points"][0]
    assert found[:2] == ["parsing", 2.0] and found[4] == 2 and found[2] < 0 < found[3]
    assert compared.sharing([row for row in rows if "alone" in row["run"]]) is None


def test_the_matrix_of_tests_is_row_minus_column():
    rows = [comparison_row(run=name, figure=figure) for name, figure in (("a", 90.0), ("b", 88.5))]
    (found,) = compared.tests(rows, [comparison_pair(first="a", second="b", difference=-1.5, holm_p=0.01)])
    assert found["rows"] == found["columns"] == ["a", "b"]
    assert found["cells"] == [[None, (1.5, 0.01)], [(-1.5, 0.01), None]]


def test_outputs_that_some_have_right_and_others_wrong_come_first_and_equal_ones_stand_together(tmp_path):
    def output(place, prediction, figure):
        return {"source": f"s{place}", "reference": "x", "prediction": prediction, "equal": prediction == "x",
                "figures": {"f1": figure}, "kinds": []}

    written = {"a": [("x", 100), ("y", 10), ("x", 100)], "b": [("x", 100), ("z", 60), ("x", 100)],
               "c": [("x", 100), ("y", 10), ("w", 80)]}
    rows = [comparison_row(run=name, figure=90.0 - place, directory=make_run(
        tmp_path / name, outputs=[output(number, *one) for number, one in enumerate(some)]))
            for place, (name, some) in enumerate(written.items())]
    (found,), names = compared.disagreements(rows)
    assert names == ["text"] and found["task"] == "parsing"
    assert [[(one["source"], one["run"], one["prediction"]) for one in example] for example in found["examples"]] == [
        [("s2", "a, b", "x"), ("s2", "c", "w")], [("s1", "a, c", "y"), ("s1", "b", "z")]]


def test_weights_are_counted_by_part_and_without_a_checkpoint_by_what_the_summary_says(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    file = tmp_path / "checkpoints" / "best" / "model.safetensors"
    file.parent.mkdir(parents=True)
    save_file({"model.encoder.a": torch.zeros(2, 3), "model.decoder.b": torch.zeros(4), "length.c": torch.zeros(5)},
              file)
    found = compared.parameters({"x": [comparison_row(directory=str(tmp_path))], "y": [comparison_row()]})
    assert {one["name"]: one["points"] for one in found["series"]} == {
        "encoder": [["x", 6e-6], ["y", 0.012345]], "decoder": [["x", 4e-6]], "heads": [["x", 5e-6], ["y", 0.000678]]}
