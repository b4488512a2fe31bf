"""The page of a run: whole, safe to open, and made of whatever the run directory holds."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from seq2seq_suite.report.curves import curve, ticks
from seq2seq_suite.report.examples import choose, example
from seq2seq_suite.report.html import write_report

GOLD = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (NN fish)) (PP (IN in) (NP (NN water))))))"
FLAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (NP (NN fish)) (PP (IN in) (NP (NN water)))))))"
VOID = {"meta", "br", "circle", "line", "polyline"}


class Balance(HTMLParser):
    """Fails if tags do not close in the order they were opened; collects the visible text and all attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.attributes, self.tags = [], "", [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID, tag
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.text += data


def read(page: Path) -> Balance:
    text = page.read_text(encoding="utf-8")
    found = Balance()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


@pytest.fixture
def run(tmp_path):
    directory = tmp_path / "my run"
    (directory / "predictions").mkdir(parents=True)
    (directory / "summary.json").write_text(json.dumps({
        "task": "parsing", "primary_metric": "f1", "higher_is_better": True, "signature": "evalb|x<y", "updates": 20,
        "parameters": 12345, "seconds": 61.0, "best_update": 20, "tokens_per_second": 10.5,
        "splits": {"test": {"f1": 87.654, "invalid_rate": None}, "validation": {"f1": 88.5}}}))
    rows = [{"update": update, "split": "train", "loss_cross_entropy": 3.0 / update if update != 4 else None,
             "learning_rate": 1e-3 * update} for update in range(2, 21, 2)]
    rows += [{"update": 10, "split": "validation", "seconds": 3.0, "f1": 50.0},
             {"update": 20, "split": "validation", "seconds": 6.0, "f1": 88.5}]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"update": 22, "spl')
    outputs = [{"source": "the cat sees <b>fish</b> & water", "reference": GOLD, "prediction": FLAT, "origin": "t:1",
                "figures": {"f1": 60.0}},
               {"source": "same", "reference": GOLD, "prediction": GOLD, "origin": "t:2", "figures": {"f1": 100.0}},
               {"source": "none", "reference": GOLD, "prediction": "(())", "origin": "t:3", "figures": {"f1": 0.0}}]
    (directory / "predictions" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in outputs))
    (directory / "predictions" / "test.details.json").write_text(json.dumps(
        {"labels": {"NP": [30, 31, 28], "QP<": [1, 0, 0]}, "sentences": [[1, 2, 3]]}))
    (directory / "config.yaml").write_text("task: parsing  # <script>alert(1)</script>\n")
    (directory / "provenance.json").write_text(json.dumps({
        "command": ["python", "-m", "seq2seq_suite", "run", "a b.yaml"], "seed": 7, "commit": "", "versions": {
            "torch": "2.x"}, "changed_since_commit": False, "earlier": [{"seed": 7, "time": "2026-01-01T00:00:00"}]}))
    return directory


def test_the_page_is_whole_and_shows_figures_curves_examples_and_origin(run):
    page = read(write_report(run))
    for shown in ("87.65", "88.50", "evalb|x<y", "12,345", "my run – parsing", "training loss", "validation f1",
                  "learning rate", "1 of 3 outputs equal", "'a b.yaml'", "earlier start, 2026-01-01", "task: parsing"):
        assert shown in page.text, shown
    assert page.tags.count("svg") == 3
    assert not list(run.glob(".*"))


def test_nothing_is_fetched_from_elsewhere(run):
    page = read(write_report(run))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not [value for name, value in page.attributes if name in ("src", "href")]
    assert not re.search(r"url\(|@import|https?://", (run / "report.html").read_text())


def test_text_of_the_data_never_becomes_markup(run):
    page = read(write_report(run))
    assert "the cat sees <b>fish</b> & water" in page.text and "<script>alert(1)</script>" in page.text
    assert "b" not in page.tags[page.tags.index("svg"):] and "QP<" in page.text


def test_both_light_and_dark_and_narrow_windows_are_provided_for(run):
    text = write_report(run).read_text()
    assert "prefers-color-scheme: dark" in text and 'content="width=device-width' in text


@pytest.mark.parametrize("missing", ["summary.json", "metrics.jsonl", "predictions", "config.yaml", "provenance.json",
                                     "predictions/test.details.json"])
def test_missing_and_broken_parts_are_left_out(run, missing):
    path = run / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert read(write_report(run)).text
    if path.suffix:
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"cut": [')
        assert read(write_report(run)).text


def test_an_empty_directory_gives_a_page_that_says_so(tmp_path):
    assert "has not come to its end" in read(write_report(tmp_path)).text


def test_only_the_brackets_that_differ_are_marked():
    html = example({"source": "s", "reference": GOLD, "prediction": FLAT}, "f1")
    assert re.findall(r'class="bracket (\w+)">(.*?)<', html) == [("wrong", "(NP"), ("wrong", ")")]
    html = example({"source": "s", "reference": FLAT, "prediction": GOLD}, "f1")
    assert re.findall(r'class="bracket (\w+)">(.*?)<', html) == [("missed", "(NP"), ("missed", ")")]
    words = re.sub(r"<[^>]*>|&nbsp;", " ", html)
    assert words.split().count("cat") == 2


def test_text_that_is_no_tree_is_compared_by_words():
    html = example({"source": "s", "reference": "a b c", "prediction": "a x c", "figures": {"bleu": 3.14159}}, "bleu")
    assert '<span class="missed">b</span>' in html and '<span class="wrong">x</span>' in html and "bleu 3.14" in html
    for broken in ("(NP (NN", "(())", "", "(A (B b)) (C c)"):
        assert "prediction" in example({"source": "s", "reference": GOLD, "prediction": broken}, "f1")


def test_the_worst_come_first_and_right_ones_are_never_among_them():
    rows = [{"reference": "a", "prediction": "a" if figure == 100 else "b", "figures": {"f1": figure}}
            for figure in (100, 20, None, 60, 0)]
    worst, some = choose(rows, "f1", higher_is_better=True)
    assert [row["figures"]["f1"] for row in worst] == [0, 20, 60]
    assert [row["figures"]["f1"] for row in choose(rows, "f1", higher_is_better=False)[0]] == [60, 20, 0]
    assert len(some) == 5 and some == choose(rows, "f1", higher_is_better=True)[1]
    assert choose([{"reference": "a", "prediction": "b"}], "f1", higher_is_better=True)[0] == []


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
