"""What the page of a comparison says: what a test shows, what differs, and where the outputs do."""

import json

import pytest
from report_tools import comparison_pair, comparison_row

from seq2seq_suite.report import compared, sentences, variants

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


def pair(first, second, p, **changes):
    """The second is the worse one, where the test shows a difference."""
    return comparison_pair(
        first=first, second=second, holm_p=p, verdict="worse" if p < 0.05 else "not resolved", **changes
    )


def lede(rows, pairs=(), grouped=None, given=None):
    return said(sentences.on_comparison(rows, pairs, grouped or {row["run"]: [row] for row in rows}, given or {}))


def test_figures_stand_on_an_axis_for_each_task_as_they_are_with_their_intervals():
    rows = [
        comparison_row(figure=99.5, low=99.0, high=100.0),
        comparison_row(
            run="x", task="speech_translation", metric="wer", figure=7.0, low=NAN, high=NAN, higher_is_better=False
        ),
    ]
    f1, wer = compared.figures(rows, [], {row["run"]: [row] for row in rows})
    assert f1["series"][0]["points"] == [["one", 99.5, 99.0, 100.0]] and (f1["y"], f1["least"]) == ("F1 ↑", 1.0)
    assert wer["series"][0]["points"] == [["x", 7.0, None, None]] and wer["title"] == "speech translation"


def test_bold_are_the_first_and_what_no_test_shows_to_be_worse_where_one_shows_anything():
    rows = [comparison_row(run=name, figure=figure) for name, figure in (("a", 90), ("b", 89), ("c", 80), ("d", 70))]
    alone = {row["run"]: [row] for row in rows}

    def bold(*pairs):
        return compared.figures(rows, pairs, alone)[0]["bold"]

    assert bold(pair("a", "b", 0.3), pair("a", "c", 0.01)) == ["a", "b"]  # d was not tested
    assert bold(pair("a", "b", 0.3), pair("a", "c", 0.06)) == bold() == []


@pytest.mark.parametrize(
    ("chances", "words"),
    [
        ((0.01, 0.02), "a has F1 90.00 (seed 1), ahead of 2 of 2 others (each p < 0.05, randomisation test). "),
        ((0.01, 0.2), "ahead of 1 of 2 others"),
        ((0.2, 0.2), "not significantly ahead of any of 2 others"),
        ((0.01, None), "ahead of 1 of 2 others"),
    ],
)
def test_the_page_begins_with_the_highest_figure_and_what_the_tests_say_of_it(chances, words):
    rows = [comparison_row(run=name, figure=90.0 - place, latency_ms=NAN) for place, name in enumerate("abc")]
    pairs = [pair("a", name, p) for name, p in zip("bc", chances, strict=True) if p is not None]
    assert words in lede(rows, pairs)
    names = [
        text for text, bold in sentences.on_comparison(rows, pairs, {row["run"]: [row] for row in rows}, {}) if bold
    ]
    assert names == (["a"] if 0.01 in chances else [])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "a has F1 90.00 (seed 1), b 89.00: a is ahead (p 0.008, randomisation test). "),
        (
            {"verdict": "not resolved", "holm_p": 1.0, "test": "McNemar's test"},
            ": not resolved (p 1.000, McNemar's test).",
        ),
        ({"verdict": "tie", "holm_p": 1.0}, ": tie (p 1.000"),
        (None, ": not tested, as they have no figures of the same"),
    ],
)
def test_of_two_runs_the_verdict_and_its_test_are_named(changes, words):
    rows = [comparison_row(run=name, figure=90.0 - place, latency_ms=NAN) for place, name in enumerate("ab")]
    found = lede(rows, [] if changes is None else [comparison_pair(first="b", second="a", **changes)])
    assert words in found and "best" not in found and "surely" not in found


@pytest.mark.parametrize(
    ("changes", "given", "words"),
    [
        ({"updates": 6000}, {}, "3,000 updates (a) to 6,000 (b). "),
        ({"tokens": 8_000_000}, {}, "8,000,000 (b)"),
        ({"minutes": 7.0}, {}, "5.5 minutes (a) to 7.0 (b)"),
        ({"seed": 2}, {}, "seeds 1 and 2"),
        ({}, {"a": {"search.beam_size": "1"}, "b": {"search.beam_size": "5"}}, "search.beam_size 1 and 5"),
        ({"minutes": 5.7, "tokens": 4_000_100}, {"a": {"x": "1"}, "b": {"x": "2"}}, None),
    ],
)
def test_what_was_given_unequally_stands_in_the_first_sentence(changes, given, words):
    found = lede([comparison_row(run="a", figure=95.0), comparison_row(run="b", **changes)], given=given)
    assert found.startswith("Not an equal comparison: ") == (words is not None) and (words or "On parsing") in found


def test_variants_of_several_seeds_are_compared_by_their_means():
    grouped = {
        name: [comparison_row(run=f"{name}{seed}", seed=seed, figure=figure) for seed, figure in enumerate(some)]
        for name, some in (("wide", (80.0, 99.0)), ("deep", (91.0, 93.0)))
    }
    rows = [row for some in grouped.values() for row in some]
    pairs = [comparison_pair(first="wide", second="deep", verdict="not resolved", holm_p=0.8, test="paired t test")]
    assert lede(rows, pairs, grouped) == (
        "On parsing, deep has F1 92.00 (mean of seeds 0 and 1), wide 89.50: not resolved (p 0.800, paired t test). "
    )
    assert list(variants.units(rows, grouped)["parsing"]) == ["deep", "wide"]
    assert compared.tests(rows, pairs, grouped)[0]["rows"] == ["deep", "wide"]
    apart = [{**pairs[0], "verdict": "better"}]
    assert compared.figures(rows, apart, grouped)[0]["bold"] == ["deep0", "deep1"]
    rows[0]["seed"] = 7  # one shared seed is too few
    assert list(variants.units(rows, grouped)["parsing"]) == ["wide1", "deep1", "deep0", "wide0"]


def test_the_fastest_is_named_where_times_are_far_apart():
    rows = [comparison_row(run="slow", latency_ms=9.0), comparison_row(run="fast", latency_ms=3.0, figure=80.0)]
    assert "fast decodes one input in 3.0 ms, slow in 9.0 ms" in lede(rows)
    rows[1]["latency_ms"] = 8.0
    assert "decodes" not in lede(rows)


def test_quality_stands_against_passes_with_a_series_for_each_run_and_its_settings_at_the_points():
    rows = [
        comparison_row(run="left", passes_per_symbol=1.0, baseline=12.0, ceiling=None),
        comparison_row(run="dial", figure=88.0, passes_per_symbol=0.5, latency_ms=9.0),
        comparison_row(run="dial@block=8,threshold=0.6", figure=70.0, passes_per_symbol=0.3, latency_ms=8.0, low=NAN),
        comparison_row(run="old", figure=60.0, passes_per_symbol=NAN, latency_ms=NAN),
    ]
    keys = ("search.block", "search.threshold", "search.order", "seed")
    values = [
        ("0", "0.9", "left", "1"),
        ("0", "0.9", "left", "1"),
        ("8", "0.6", "left", "2"),
        ("0", "0.9", "left", "3"),
    ]
    given = {row["run"]: dict(zip(keys, one, strict=True)) for row, one in zip(rows, values, strict=True)}
    (found,) = compared.times(rows, given)
    points = {one["name"]: one["points"] for one in found["passes"]["series"]}
    assert points == {
        "left": [[1.0, 90.126, 88.0, 92.5, None, ""]],
        "dial": [[0.3, 70.0, None, 92.5, None, "8 \N{MIDDLE DOT} 0.6"], [0.5, 88.0, 88.0, 92.5, None, "as run"]],
    }
    assert found["passes"]["levels"] == [["baseline", 12.0]]
    assert found["passes"]["note"].endswith("search: block \N{MIDDLE DOT} threshold.")
    assert [one["points"][0][0] for one in found["quality"]["series"]] == [7.25, 8.0] and found["untimed"] == 1


def test_recorded_milliseconds_stand_in_for_times_that_were_not_measured():
    rows = [
        comparison_row(run=run, passes_per_symbol=passes, latency_ms=NAN, sentences_per_second=NAN)
        for run, passes in (("a", 1.0), ("b", 0.5))
    ]
    (found,) = compared.times(rows, {})
    assert [one["points"][0][0] for one in found["quality"]["series"]] == [2.75, 2.75]
    assert "as recorded" in found["quality"]["x"] and not found["rate"]["series"][0]["points"]
    rows[1]["passes_per_symbol"] = 1.0
    (found,) = compared.times(rows, {})
    assert found["passes"] is None and found["quality"] is None, "nothing differs in passes"


def test_curves_of_a_joint_run_come_from_the_whole_runs_metrics(tmp_path):
    alone = make_run(
        tmp_path / "alone",
        metrics=[
            {"update": 5, "split": "validation", "f1": 50.0, "seconds": 60.0},
            {"update": 9, "split": "validation", "f1": 70.0, "seconds": 90.0},
        ],
    )
    make_run(tmp_path / "joint", metrics=[{"update": 7, "split": "validation", "parsing/f1": 65.0, "seconds": 120.0}])
    (tmp_path / "joint" / "tasks" / "parsing").mkdir(parents=True)
    (found,) = compared.curves(
        [
            comparison_row(directory=alone),
            comparison_row(run="both", directory=str(tmp_path / "joint" / "tasks" / "parsing")),
        ]
    )
    points = {one["name"]: [[point[0], point[1], point[3]] for point in one["points"]] for one in found["series"]}
    assert points == {"one": [[5, 1.0, 50.0], [9, 1.5, 70.0]], "both": [[7, 2.0, 65.0]]}


def test_of_many_runs_the_best_are_drawn_and_the_rest_is_counted(tmp_path):
    rows = [
        comparison_row(
            run=str(place),
            figure=float(place),
            directory=make_run(tmp_path / str(place), metrics=[{"update": 1, "split": "validation", "f1": 1.0}]),
        )
        for place in range(9)
    ]
    (found,) = compared.curves(rows)
    assert [one["name"] for one in found["series"]] == ["8", "7", "6", "5", "4", "3"] and found["left_out"] == 3


def test_runs_that_differ_in_their_seed_alone_are_one_variant(tmp_path):
    rows = [
        comparison_row(
            run=name,
            seed=seed,
            figure=figure,
            directory=make_run(tmp_path / name, f"task: parsing\nseed: {seed}\nbackbone: {{width: {width}}}\n"),
        )
        for name, seed, figure, width in (("w-1", 1, 90.0, 64), ("w-2", 2, 92.0, 64), ("x", 1, 80.0, 32))
    ]
    given = variants.settings(rows)
    grouped = variants.groups(rows, given)
    assert {name: [row["run"] for row in some] for name, some in grouped.items()} == {"w": ["w-1", "w-2"], "x": ["x"]}
    assert compared.seeds(grouped) == [("w", "parsing", "F1 ↑", "1, 2", "91.00", "–")]  # Student's would reach 103.71
    assert compared.differences({name: given[some[0]["run"]] for name, some in grouped.items()})["rows"] == [
        ("backbone.width", "64", "32")
    ]


def test_the_same_seed_twice_is_no_second_seed(tmp_path):
    rows = [comparison_row(run=name, directory=make_run(tmp_path / name)) for name in ("r-1", "r-2")]
    assert list(variants.groups(rows, variants.settings(rows))) == ["r-1", "r-2"]


def test_training_together_is_compared_with_training_alone_by_task_and_seed():
    rows = [
        comparison_row(
            run=f"{kind}{seed}",
            seed=seed,
            figure=figure,
            directory=f"joint{seed}/tasks/parsing" if kind == "both" else f"alone{seed}",
        )
        for kind, seed, figure in (
            ("both", 1, 92.0),
            ("both", 2, 94.0),
            ("alone", 1, 91.0),
            ("alone", 2, 91.0),
            ("alone", 3, 50.0),
        )
    ]
    found = compared.sharing(rows)["series"][0]["points"][0]
    assert found[:2] == ["parsing", 2.0] and found[4] == 2 and found[2] < 0 < found[3]
    assert compared.sharing([row for row in rows if "alone" in row["run"]]) is None


def test_the_matrix_of_tests_is_row_minus_column():
    rows = [comparison_row(run=name, figure=figure) for name, figure in (("a", 90.0), ("b", 88.5))]
    alone = {row["run"]: [row] for row in rows}
    (found,) = compared.tests(rows, [comparison_pair(first="a", second="b", difference=-1.5, verdict="worse")], alone)
    assert found["rows"] == found["columns"] == ["a", "b"]
    tooltip = "p 0.008, randomisation test"
    assert found["cells"] == [[None, (1.5, "better", tooltip)], [(-1.5, "worse", tooltip), None]]


def test_settings_of_the_search_are_those_of_the_last_evaluation(tmp_path):
    row = comparison_row(directory=make_run(tmp_path / "a", "search: {beam_size: 1, top_k: 0}\n"))
    assert variants.settings([row])["one"]["search.beam_size"] == "1"
    (tmp_path / "a" / "summary.json").write_text(json.dumps({"search": {"test": {"beam_size": 5}}}))
    assert variants.settings([row])["one"] == {"search.beam_size": "5", "search.top_k": "0"}
    assert variants.settings([{**row, "split": "validation"}])["one"]["search.beam_size"] == "1"


def test_outputs_that_some_have_right_and_others_wrong_come_first_and_equal_ones_stand_together(tmp_path):
    def output(place, prediction, figure):
        return {
            "source": f"s{place}",
            "reference": "x",
            "prediction": prediction,
            "equal": prediction == "x",
            "figures": {"f1": figure},
            "kinds": [],
        }

    written = {
        "a": [("x", 100), ("y", 10), ("x", 100)],
        "b": [("x", 100), ("z", 60), ("x", 100)],
        "c": [("x", 100), ("y", 10), ("w", 80)],
    }
    rows = [
        comparison_row(
            run=name,
            figure=90.0 - place,
            directory=make_run(tmp_path / name, outputs=[output(number, *one) for number, one in enumerate(some)]),
        )
        for place, (name, some) in enumerate(written.items())
    ]
    (found,), names = compared.disagreements(rows)
    assert names == ["text"] and found["task"] == "parsing"
    assert [[(one["source"], one["run"], one["prediction"]) for one in example] for example in found["examples"]] == [
        [("s2", "a, b", "x"), ("s2", "c", "w")],
        [("s1", "a, c", "y"), ("s1", "b", "z")],
    ]


def test_weights_are_counted_by_part_and_without_a_checkpoint_by_what_the_summary_says(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    file = tmp_path / "checkpoints" / "best" / "model.safetensors"
    file.parent.mkdir(parents=True)
    save_file(
        {"model.encoder.a": torch.zeros(2, 3), "model.decoder.b": torch.zeros(4), "length.c": torch.zeros(5)}, file
    )
    found = compared.parameters({"x": [comparison_row(directory=str(tmp_path))], "y": [comparison_row()]})
    assert {one["name"]: one["points"] for one in found["series"]} == {
        "encoder": [["x", 6e-6], ["y", 0.012345]],
        "decoder": [["x", 4e-6]],
        "heads": [["x", 5e-6], ["y", 0.000678]],
    }
