"""The page of a run: whole, safe to open, and made of whatever the run directory holds."""

import json
import re
import shutil

import pytest
from report_tools import read

from seq2seq_suite.report.outputs import Outputs, by_length, examples, read_outputs
from seq2seq_suite.report.run import duration, write_report
from seq2seq_suite.report.sentences import _kind, lede

FLAT = "(TOP (S (NP (NN fish))))"


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def run(tmp_path):
    directory = tmp_path / "my run"
    (directory / "predictions").mkdir(parents=True)
    (directory / "summary.json").write_text(
        json.dumps(
            {
                "task": "parsing",
                "primary_metric": "f1",
                "higher_is_better": True,
                "signature": "evalb|x<y",
                "updates": 20,
                "parameters": 1234567,
                "core_parameters": 1000000,
                "seconds": 61.0,
                "best_update": 20,
                "formula": "f1",
                "intervals": {"test": {"f1": [85.0, 90.5]}},
                "tokens_per_second": 10.5,
                "peak_memory_mb": 612.0,
                "phase_seconds": {"data": 2.0, "train": 50.0, "validation": 10.0, "test": 1.5},
                "failures": {"test": {"invalid": 1.5, "empty": 0.0, "repeated": 0.0, "truncated": 0.0}},
                "decoding": {"test": {"passes_per_symbol": 0.5, "milliseconds_per_sentence": "no figure"}},
                "likelihood": {"test": {"nats_per_symbol": 0.842, "interval": [0.835, 0.849]}},
                "splits": {"test": {"f1": 87.654, "invalid_rate": None}, "validation": {"f1": 88.5}},
            }
        )
    )
    rows = [
        {
            "update": update,
            "split": "train",
            "loss_cross_entropy": 3.0 / update if update != 4 else None,
            "learning_rate": 1e-3 * update,
            "tokens": 100 * update,
            "seconds": update,
        }
        for update in range(2, 21, 2)
    ]
    rows += [
        {"update": 11, "split": "validation", "seconds": 30.0, "f1": 50.0, "loss_cross_entropy": 1.0},
        {"update": 20, "split": "validation", "seconds": 60.0, "f1": 88.5, "loss_cross_entropy": 0.5},
    ]
    (directory / "metrics.jsonl").write_text(lines(*rows) + '{"update": 22, "spl')
    outputs = [
        {
            "source": "the cat sees <b>fish</b> & water",
            "reference": FLAT,
            "prediction": "",
            "origin": "t:1",
            "figures": {"f1": 60.0},
            "equal": False,
            "kinds": ["span"],
            "length": 6.0,
            "counts": [1, 2, 2],
        },
        {
            "source": "same",
            "reference": FLAT,
            "prediction": FLAT,
            "origin": "t:2",
            "figures": {"f1": 100.0},
            "equal": True,
            "kinds": [],
            "length": 1.0,
            "counts": [2, 2, 2],
        },
        {
            "source": "none",
            "reference": FLAT,
            "prediction": "(())",
            "origin": "t:3",
            "figures": {"f1": 0.0},
            "equal": False,
            "kinds": ["span", "unary"],
            "length": 9.0,
            "counts": [0, 2, 2],
        },
    ]
    (directory / "predictions" / "test.jsonl").write_text(lines(*outputs))
    (directory / "predictions" / "test.details.json").write_text(
        json.dumps({"labels": {"NP": [30, 31, 28], "QP<": [1, 0, 0]}, "sentences": [[1, 2, 3]]})
    )
    (directory / "config.yaml").write_text("task: parsing  # <script>alert(1)</script>\n")
    (directory / "provenance.json").write_text(
        json.dumps(
            {
                "command": ["python", "-m", "seq2seq_suite", "run", "a b.yaml"],
                "seed": 7,
                "commit": "",
                "versions": {"torch": "2.x"},
                "changed_since_commit": False,
                "earlier": [{"seed": 7, "time": "2026-01-01T00:00:00"}],
            }
        )
    )
    return directory


def data(run, name):
    """What a section of the page draws."""
    text = write_report(run).read_text()
    return json.loads(re.search(rf'id="data-{name}">(.*?)</script>', text)[1])


def test_the_page_is_whole_and_shows_figures_and_origin(run):
    page = read(write_report(run))
    for shown in (
        "87.65",
        "88.50",
        "evalb|x<y",
        "1.23 M",
        "1.00 M",
        "my run – parsing",
        "1 of 3",
        "1 min 1 s",
        "95 %: 85.00 to 90.50",
        "n 3 · 1 equal",
        "'a b.yaml'",
        "earlier start, 2026-01-01",
        "task: parsing",
        "0.61 GB",
    ):
        assert shown in page.text, shown
    assert not list(run.glob(".*"))


@pytest.mark.parametrize(
    ("drawing", "decoder", "rows"),
    [
        ("text", "autoregressive", ["empty", "repeated", "cut off"]),
        ("sound", "ctc", ["empty", "repeated", "cut off"]),
        ("tree", "autoregressive", ["invalid", "empty", "cut off"]),
        ("labels", "ctc", ["invalid", "empty", "cut off"]),
        ("boxes", "slots", None),
        ("boxes", "autoregressive", ["invalid", "empty", "cut off"]),
    ],
)
def test_only_failures_that_a_task_and_its_decoder_can_have_are_listed(run, drawing, decoder, rows):
    (run / "predictions" / "test.details.json").write_text(json.dumps({"drawing": drawing}))
    (run / "config.yaml").write_text(f"strategy: {{kind: {decoder}}}\n")
    failures = data(run, "errors")["failures"]
    assert (
        failures
        and [
            next(word for word in ("invalid", "empty", "repeated", "cut off") if name.startswith(word))
            for name in failures["rows"]
        ]
    ) == rows
    assert (
        rows is None
        or "repeated" not in rows
        or any("more often than in the reference" in name for name in failures["rows"])
    )


def test_what_needs_no_learning_is_a_tick_on_the_axis_of_the_figure(run):
    summary = json.loads((run / "summary.json").read_text())
    summary["baselines"] = {"test": {"nearest": 20.0, "odd": "x"}, "test@beam_size=4": 3}
    summary["splits"]["test@beam_size=4"] = {"f1": 88.0}
    (run / "summary.json").write_text(json.dumps(summary))
    tiles = write_report(run).read_text().partition('<div class="headline">')[2].partition('<div class="facts">')[0]
    axes = re.findall('<div class="axis".*?<span>(.*?)</span><span>(.*?)</span>(.*?)</div>', tiles)
    assert len(axes) == 3 and len({axis[:2] for axis in axes}) == 1  # a common one
    low, high = map(float, axes[0][:2])
    ticks = [re.findall(r'<u style="left:(.*?)%">', rest) for *_, rest in axes]
    assert [len(some) for some in ticks] == [1, 1, 0]  # the split itself, and the same of another search
    assert float(ticks[0][0]) == pytest.approx(100 * (20.0 - low) / (high - low), abs=0.01)
    assert tiles.count("without learning: nearest 20.00</div>") == 2


def test_figures_have_their_intervals_and_crossings_the_convention(run):
    def table():
        return write_report(run).read_text().partition("<h2>Figures</h2>")[2].partition("<h2>Origin</h2>")[0]

    assert "<b>87.65</b> <small>(85.00 to 90.50)</small>" in table() and "EVALB" not in table()
    assert "<td>nats per symbol</td><td><b>at most 0.842</b> <small>(0.835 to 0.849)</small></td>" in table()
    assert "<td>passes per symbol</td><td><b>0.500</b></td>" in table() and "ms a sentence" not in table()
    summary = json.loads((run / "summary.json").read_text())
    summary["splits"]["test"]["average_crossing"] = 0.0
    (run / "summary.json").write_text(json.dumps(summary))
    assert "as EVALB does, among the brackets that an output has" in table()


def test_curves_have_updates_minutes_and_symbols_of_training_and_validation(run):
    found = data(run, "training")
    training, validation = found["losses"]
    assert (training["name"], training["dashed"], validation["dashed"]) == ("training", False, True)
    assert training["points"][0] == [2, 2 / 60, 200, 1.5]
    assert 4 not in [point[0] for point in training["points"]]  # null there
    assert validation["points"][0] == [11, 0.5, 1100.0, 1.0]  # symbols: between the rows of training
    assert [point[3] for point in found["figures"][0]["points"]] == [50.0, 88.5]
    assert found["best"] == 20 and found["memory"] == 612.0
    assert found["phases"][1] == ["training", 50.0, "50.0 s"]


def test_a_long_curve_is_thinned_and_keeps_its_end(run):
    (run / "metrics.jsonl").write_text(
        lines(*({"update": update, "split": "train", "loss_x": 1.0} for update in range(1, 3002)))
    )
    points = data(run, "training")["losses"][0]["points"]
    assert len(points) <= 400 and points[-1][0] == 3001


def test_labels_and_categories_are_tables_where_the_task_has_no_chart(run):
    (labels,) = data(run, "errors")["splits"][0]["panels"]
    assert labels["rows"] == ["NP", "QP<"] and labels["cells"][1] == [1, 0, 0, None, 0.0, 0.0]
    assert [round(value, 2) for value in labels["cells"][0]] == [30, 31, 28, 90.32, 93.33, 91.8]
    (run / "predictions" / "test.details.json").write_text(
        json.dumps(
            {
                "categories": {"9": {"questions": 3, "f1": 50.0}, "10": {"f1": 25.0, "failed": True}},
                "labels": {"NP": [1, 1, 1]},
                "panels": [{"kind": "dots", "title": "Own"}],
            }
        )
    )
    own, categories = data(run, "errors")["splits"][0]["panels"]
    assert own["title"] == "Own" and categories["cells"] == [[3, 50.0, None], [None, 25.0, "yes"]]


def test_a_chart_by_length_has_the_metric_of_the_sources_in_each_range_with_its_interval(run):
    lengths = data(run, "errors")["lengths"]
    assert lengths["y"] == "F1 ↑" and lengths["order"] == ["1–2", "3–4", "5–6", "7–8", "over 8"]
    assert lengths["series"][0]["points"] == [
        ["1–2", 100.0, None, None, 1],
        ["5–6", 50.0, None, None, 1],
        ["over 8", 0.0, None, None, 1],
    ]


def test_without_counts_the_chart_by_length_shows_how_many_are_right(run):
    rows = [
        {"reference": "a", "prediction": "a" if row % 2 else "b", "equal": row % 2 == 1, "length": row / 10}
        for row in range(40)
    ]
    (run / "predictions" / "test.jsonl").write_text(lines(*rows))
    lengths = by_length(read_outputs(run, ["test"], "f1", higher_is_better=True), "f1")
    assert lengths["y"] == "outputs right, % ↑"
    assert all(low <= figure <= high for _, figure, low, high, _ in lengths["series"][0]["points"])


def test_kinds_of_errors_are_counted_over_all_outputs(run):
    kinds = data(run, "errors")["kinds"]
    assert kinds["series"][0]["points"] == [["span", 2], ["unary", 1]]


def test_the_worst_outputs_come_first_and_right_ones_last(run):
    assert [row["source"] for row in data(run, "examples")["test"]["rows"]][::2] == ["none", "same"]
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({**summary, "higher_is_better": False}))
    assert [row["row"] for row in data(run, "examples")["test"]["rows"]] == [0, 2, 1]


def test_only_as_many_examples_are_carried_as_there_is_room_for(run):
    rows = [
        {"source": "long " * 200, "reference": "a", "prediction": "b", "figures": {"f1": float(row)}}
        for row in range(1000)
    ]
    (run / "predictions" / "test.jsonl").write_text(lines(*rows))
    outputs = read_outputs(run, ["test"], "f1", higher_is_better=True)
    assert len(examples(outputs, 10_000_000)["test"]["rows"]) == 200
    some = examples(outputs, 20_000)["test"]["rows"]
    assert 10 < len(some) < 20 and some[0]["row"] == 0


def test_rows_that_the_page_draws_are_those_whose_drawing_is_stored(run):
    (run / "predictions" / "test.shown.json").write_text(json.dumps({"2": {"prediction": {"tree": {}}}, "7": 3}))
    (row,) = data(run, "examples")["test"]["rows"]
    assert row["row"] == 2 and row["shown"] == {"prediction": {"tree": {}}}


def test_a_run_without_summary_shows_the_curve_of_its_first_validation_figure(run):
    (run / "summary.json").unlink()
    assert data(run, "training")["figures"][0]["name"] == "F1"


def test_starts_are_listed_from_the_last_to_the_first_with_plain_facts(run):
    times = ["2026-01-01", "2026-01-02", "2026-01-03"]
    (run / "provenance.json").write_text(
        json.dumps(
            {
                "time": times[2],
                "commit": "",
                "changed_since_commit": True,
                "resumed": False,
                "gpu": None,
                "command": ["python", "a b"],
                "versions": {"torch": "2", "numpy": "1"},
                "earlier": [{"time": time} for time in times[:2]],
            }
        )
    )
    cells = re.findall(r"<td>(.*?)</td>", write_report(run).read_text().partition("<h2>Origin</h2>")[2])
    assert dict(zip(cells[:-4:2], cells[1:-4:2], strict=True)) == {
        "time": times[2],
        "commit": "–",
        "changed since commit": "yes",
        "resumed": "no",
        "gpu": "–",
        "command": "python &#39;a b&#39;",
        "versions": "torch 2, numpy 1",
    }
    assert cells[-4:] == ["time", times[1], "time", times[0]]


def test_nothing_is_fetched_from_elsewhere(run):
    page = read(write_report(run))
    assert not {"link", "img", "iframe"} & set(page.tags)
    assert all(value.startswith("#") for name, value in page.attributes if name in ("src", "href"))
    text = (run / "report.html").read_text().replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert not re.search(r"url\(|@import|https?://|fetch\(", text)


@pytest.mark.parametrize(
    "missing",
    ["summary.json", "metrics.jsonl", "predictions", "config.yaml", "provenance.json", "predictions/test.details.json"],
)
def test_missing_and_broken_parts_are_left_out(run, missing):
    path = run / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert read(write_report(run)).text
    if path.suffix:
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"cut": [')
        assert read(write_report(run)).text


@pytest.mark.parametrize(
    "name",
    [
        "summary.json",
        "predictions/test.details.json",
        "predictions/test.shown.json",
        "provenance.json",
        "predictions/test.jsonl",
        "metrics.jsonl",
    ],
)
@pytest.mark.parametrize("value", ["x", ["x"], {"x": "x"}, None, True, 1e400, -1])
def test_a_field_of_another_type_leaves_the_page_whole(run, name, value):
    first = (run / name).read_text().splitlines() if (run / name).exists() else ['{"1": {}}']
    rows = [json.loads(first[0])] if name.endswith("l") else [json.loads("".join(first))]
    (run / name).write_text(
        lines(*({**row, key: value} for row in rows for key in row))
        if name.endswith("l")
        else json.dumps(dict.fromkeys(rows[0], value))
    )
    assert read(write_report(run)).text


def test_an_empty_directory_gives_a_page_that_says_so(tmp_path):
    assert "has not finished" in read(write_report(tmp_path)).text


def test_a_joint_run_links_the_pages_of_its_tasks(run):
    part = run / "tasks" / "qa"
    part.mkdir(parents=True)
    (part / "config.yaml").write_text("task: qa\n")
    assert 'href="tasks/qa/report.html"' in write_report(run).read_text()
    assert 'href="../../report.html"' in (part / "report.html").read_text()


def test_sentences_are_said_only_where_figures_support_them(run):
    def said(points, y="F1 ↑"):
        return "".join(
            text
            for text, _ in lede(
                read_outputs(run, ["test"], "f1", higher_is_better=True),
                {"x": "words", "y": y, "series": [{"points": points}]},
                "",
            )
        )

    apart = [["1–5", 99.0, 98.0, 99.5, 50], ["over 20", 90.0, 88.0, 92.0, 50]]
    assert said(apart).startswith("1 of 3 test outputs equal their reference. ")
    assert "F1 drops from 99.0 at 1–5 words to 90.0 at over 20" in said(apart)
    assert "WER rises from 90.0 at" in said(
        [["1–5", 90.0, 88.0, 92.0, 50], ["over 20", 99.0, 98.0, 99.5, 50]], "WER, % ↓"
    )
    assert "length" not in said(apart, "WER, % ↓") and "length" not in said([apart[0], [*apart[1][:4], 3]])
    assert "length" not in said([apart[0], ["over 20", 98.5, 97.0, 99.0, 50]])
    assert "length" not in said([apart[0], ["6–20", 80.0, 78.0, 82.0, 50], apart[1]])  # the longest are not the worst
    assert "most frequent" not in said(apart)  # two are wrong


TRAINING = "training: {max_updates: 100, max_minutes: 2, patience: %d}\n"


@pytest.mark.parametrize(
    ("changes", "patience", "said"),
    [
        ({"updates": 100, "seconds": 61.0}, 3, "Finished: all 100 updates"),
        ({"updates": 20, "seconds": 120.0}, 3, "Stopped after 20 of 100 updates by training.max_minutes=2"),
        ({"updates": 20, "seconds": 61.0}, 3, "Stopped after 20 of 100 updates by training.patience=3"),
        (
            {"updates": 20, "seconds": 61.0},
            0,
            "Ended after 20 of 100 updates: no limit of its configuration is reached",
        ),
        (None, 0, "Not finished: recorded up to update 20 of 100. The same command with --resume continues."),
    ],
)
def test_the_page_begins_with_whether_the_run_is_done_and_what_stopped_it(run, changes, patience, said):
    (run / "config.yaml").write_text(TRAINING % patience)
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").unlink() if changes is None else (run / "summary.json").write_text(
        json.dumps(summary | changes)
    )
    assert said in re.search('<p class="status">(.*?)</p>', write_report(run).read_text())[1]


def test_a_run_whose_configuration_names_no_limit_says_nothing_of_its_end(run):
    assert 'class="status"' not in write_report(run).read_text()


@pytest.mark.parametrize(
    ("given", "right", "said"),
    [
        (["a"] * 40, ["a"] * 30 + ["b"] * 10, "All 40 outputs on the split “test” are the same: “a”. "),
        (
            ["a"] * 30 + ["b"] * 10,
            list(map(str, range(40))),
            "30 of 40 outputs on the split “test” are the same: “a”. ",
        ),
        ([""] * 40, list(map(str, range(40))), "All 40 outputs on the split “test” are empty. "),
        (["a"] * 40, ["a"] * 40, ""),
        (["a"] * 30 + ["b"] * 10, ["a"] * 25 + ["b"] * 15, ""),
        (["a"] * 19, list(map(str, range(19))), ""),
        (list(map(str, range(40))), ["a"] * 40, ""),
    ],
)
def test_outputs_that_do_not_depend_on_the_input_are_flagged(given, right, said):
    rows = [
        {"prediction": output, "reference": gold, "equal": output == gold}
        for output, gold in zip(given, right, strict=True)
    ]
    rows[0]["equal"] = True  # some are judged
    found = lede([Outputs("test", rows, {}, {}, "f1", True)], None, "")
    assert said in "".join(text for text, _ in found) and any("outputs on the split" in text for text, _ in found) == (
        said != ""
    )


def test_errors_of_several_splits_are_summed_only_where_the_sentence_says_so():
    def one(split, wrong):
        return Outputs(
            split,
            [{"equal": place >= wrong, "kinds": ["order"] if place < wrong else []} for place in range(30)],
            {},
            {},
            "f1",
            True,
        )

    def sentence(*outputs):
        return "".join(text for text, _ in _kind(outputs))

    assert sentence(one("test", 7)) == "All 7 wrong outputs have the error “order”. "
    assert sentence(one("test", 7), one("compositional", 8)) == (
        "All 15 wrong outputs on the splits test and new combinations, together, have the error “order”. "
    )


@pytest.mark.parametrize(
    ("seconds", "said"), [(59.94, "59.9 s"), (3599, "59 min 59 s"), (3600, "1 h 0 min"), (3660, "1 h 1 min")]
)
def test_a_time_has_hours_from_sixty_minutes_on(seconds, said):
    assert duration(seconds) == said
