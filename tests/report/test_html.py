"""The page of a run: whole, safe to open, and made of whatever the run directory holds."""

import json
import re
import shutil

import pytest
from report_tools import read

from seq2seq_suite.report.examples import choose, example
from seq2seq_suite.report.html import write_report
from seq2seq_suite.tasks.parsing.drawing import marked

GOLD = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (NN fish)) (PP (IN in) (NP (NN water))))))"
FLAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (NP (NN fish)) (PP (IN in) (NP (NN water)))))))"


@pytest.fixture
def run(tmp_path):
    directory = tmp_path / "my run"
    (directory / "predictions").mkdir(parents=True)
    (directory / "summary.json").write_text(json.dumps({
        "task": "parsing", "primary_metric": "f1", "higher_is_better": True, "signature": "evalb|x<y", "updates": 20,
        "parameters": 12345, "seconds": 61.0, "best_update": 20,
        "intervals": {"test": {"f1": [85.0, 90.5]}}, "tokens_per_second": 10.5,
        "splits": {"test": {"f1": 87.654, "invalid_rate": None}, "validation": {"f1": 88.5}}}))
    rows = [{"update": update, "split": "train", "loss_cross_entropy": 3.0 / update if update != 4 else None,
             "learning_rate": 1e-3 * update} for update in range(2, 21, 2)]
    rows += [{"update": 10, "split": "validation", "seconds": 3.0, "f1": 50.0},
             {"update": 20, "split": "validation", "seconds": 6.0, "f1": 88.5}]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"update": 22, "spl')
    outputs = [{"source": "the cat sees <b>fish</b> & water", "reference": GOLD, "prediction": FLAT, "origin": "t:1",
                "figures": {"f1": 60.0}, "equal": False},
               {"source": "same", "reference": GOLD, "prediction": GOLD, "origin": "t:2", "figures": {"f1": 100.0},
                "equal": True},
               {"source": "none", "reference": GOLD, "prediction": "(())", "origin": "t:3", "figures": {"f1": 0.0},
                "equal": False}]
    (directory / "predictions" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in outputs))
    (directory / "predictions" / "test.details.json").write_text(json.dumps(
        {"labels": {"NP": [30, 31, 28], "QP<": [1, 0, 0]}, "sentences": [[1, 2, 3]]}))
    (directory / "config.yaml").write_text("task: parsing  # <script>alert(1)</script>\n")
    (directory / "provenance.json").write_text(json.dumps({
        "command": ["python", "-m", "seq2seq_suite", "run", "a b.yaml"], "seed": 7, "commit": "", "versions": {
            "torch": "2.x"}, "changed_since_commit": False, "earlier": [{"seed": 7, "time": "2026-01-01T00:00:00"}]}))
    return directory


def test_the_page_is_whole_and_shows_figures_curves_examples_and_origin(run):
    page = read(write_report(run, marked))
    for shown in ("87.65", "88.50", "evalb|x<y", "12,345", "my run – parsing", "training loss", "validation f1",
                  "learning rate", "1 of 3 outputs equal", "95 %: 85.00 to 90.50",
                  "'a b.yaml'", "earlier start, 2026-01-01", "task: parsing"):
        assert shown in page.text, shown
    assert page.tags.count("svg") == 3
    assert not list(run.glob(".*"))


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The cells of the table behind a heading."""
    table = text.partition(f"<h3>{heading}</h3>")[2].partition("</table>")[0]
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in table.split("</tr>")[:-1]]


def test_precision_and_recall_of_a_label_are_those_of_its_counts(run):
    write_report(run, marked)
    assert rows_of((run / "report.html").read_text(), "By label") == [
        ["label", "gold", "predicted", "matched", "precision", "recall", "F1"],
        ["NP", "30", "31", "28", "90.32", "93.33", "91.80"], ["QP&lt;", "1", "0", "0", "-", "0.00", "0.00"]]


def test_categories_are_shown_in_their_order_with_every_figure(run):
    (run / "predictions" / "test.details.json").write_text(json.dumps(
        {"categories": {"9": {"questions": 3, "f1": 50.0}, "10": {"f1": 25.0, "failed": True}}}))
    write_report(run, marked)
    assert rows_of((run / "report.html").read_text(), "By category") == [
        ["category", "questions", "f1", "failed"], ["9", "3", "50.00", "-"], ["10", "-", "25.00", "True"]]


def test_each_figure_stands_under_its_split(run):
    write_report(run, marked)
    text = (run / "report.html").read_text().replace("<h2>Figures</h2>", "<h3>Figures</h3>")
    assert rows_of(text, "Figures") == [["metric", "test", "validation"], ["F1 ↑", "87.65", "88.50"],
                                        ["invalid, % ↓", "-", "-"]]


def test_curves_are_those_of_the_figures_over_updates(run):
    text = read(write_report(run, marked)).text
    for shown in ("f1 50 at 10", "f1 88.5 at 20", "cross entropy 1.5 at 2", "learning rate 0.02 at 20"):
        assert shown in text, shown
    assert "cross entropy 0.75 at 4" not in text  # null there


def test_a_run_without_summary_shows_the_curve_of_its_first_validation_figure(run):
    (run / "summary.json").unlink()
    text = read(write_report(run, marked)).text
    assert "validation f1" in text and "f1 88.5 at 20" in text


def test_the_outputs_shown_as_worst_have_the_worst_figures(run):
    def sources() -> list[str]:
        worst = (write_report(run, marked).read_text().partition("<h3>Worst</h3>")[2]).partition("<h3>")[0]
        return re.findall(r"<summary>.*?</span> (.*?)</summary>", worst)

    fish, summary = "the cat sees &lt;b&gt;fish&lt;/b&gt; &amp; water", json.loads((run / "summary.json").read_text())
    assert sources() == ["none", fish]
    (run / "summary.json").write_text(json.dumps({**summary, "higher_is_better": False}))
    assert sources() == [fish, "none"]
    del summary["higher_is_better"]
    (run / "summary.json").write_text(json.dumps(summary))
    assert sources() == ["none", fish]


def test_the_marks_are_explained_in_their_own_colours(run):
    text = write_report(run, marked).read_text()
    assert '<span class="missed">only in the reference</span> <span class="wrong">only in the prediction' in text


def test_starts_are_told_from_the_last_to_the_first_with_plain_facts(run):
    times = ["2026-01-01", "2026-01-02", "2026-01-03"]
    (run / "provenance.json").write_text(json.dumps({
        "time": times[2], "commit": "", "changed_since_commit": True, "resumed": False, "gpu": None,
        "command": ["python", "a b"], "versions": {"torch": "2", "numpy": "1"},
        "earlier": [{"time": time} for time in times[:2]]}))
    text = write_report(run, marked).read_text()
    cells = re.findall(r"<td>(.*?)</td>", text.partition("Where it comes from")[2])
    assert dict(zip(cells[:-4:2], cells[1:-4:2], strict=True)) == {
        "time": times[2], "commit": "-", "changed since commit": "yes", "resumed": "no", "gpu": "-",
        "command": "python &#x27;a b&#x27;", "versions": "torch 2, numpy 1"}
    assert cells[-4:] == ["time", times[1], "time", times[0]]


def test_nothing_is_fetched_from_elsewhere(run):
    page = read(write_report(run, marked))
    assert not {"link", "img", "iframe"} & set(page.tags)
    assert not [value for name, value in page.attributes if name in ("src", "href")]
    text = (run / "report.html").read_text().replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert not re.search(r"url\(|@import|https?://|fetch\(", text)


def test_text_of_the_data_never_becomes_markup(run):
    page = read(write_report(run, marked))
    assert "the cat sees <b>fish</b> & water" in page.text and "<script>alert(1)</script>" in page.text
    assert "b" not in page.tags[page.tags.index("svg"):] and "QP<" in page.text


def test_both_light_and_dark_and_narrow_windows_are_provided_for(run):
    text = write_report(run, marked).read_text()
    assert "light-dark(" in text and "data-theme=dark" in text and 'content="width=device-width' in text


@pytest.mark.parametrize("missing", ["summary.json", "metrics.jsonl", "predictions", "config.yaml", "provenance.json",
                                     "predictions/test.details.json"])
def test_missing_and_broken_parts_are_left_out(run, missing):
    path = run / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert read(write_report(run, marked)).text
    if path.suffix:
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"cut": [')
        assert read(write_report(run, marked)).text


def test_an_empty_directory_gives_a_page_that_says_so(tmp_path):
    assert "has not come to its end" in read(write_report(tmp_path)).text


def test_only_the_brackets_that_differ_are_marked():
    html = example({"source": "s", "reference": GOLD, "prediction": FLAT}, "f1", marked)
    assert re.findall(r'class="bracket (\w+)">(.*?)<', html) == [("wrong", "(NP"), ("wrong", ")")]
    html = example({"source": "s", "reference": FLAT, "prediction": GOLD}, "f1", marked)
    assert re.findall(r'class="bracket (\w+)">(.*?)<', html) == [("missed", "(NP"), ("missed", ")")]
    words = re.sub(r"<[^>]*>|&nbsp;", " ", html)
    assert words.split().count("cat") == 2


def test_text_that_is_no_tree_is_compared_by_words():
    row = {"source": "s", "reference": "a b c", "prediction": "a x c", "figures": {"bleu": 3.14159}}
    html = example(row, "bleu", marked)
    assert '<span class="missed">b</span>' in html and '<span class="wrong">x</span>' in html and "bleu 3.14" in html
    for broken in ("(NP (NN", "(())", "", "(A (B b)) (C c)"):
        assert "prediction" in example({"source": "s", "reference": GOLD, "prediction": broken}, "f1", marked)


def test_the_worst_come_first_and_right_ones_are_never_among_them():
    rows = [{"reference": "a", "prediction": "a" if figure == 100 else "b", "figures": {"f1": figure}}
            for figure in (100, 20, None, 60, 0)]
    worst, some = choose(rows, "f1", higher_is_better=True)
    assert [row["figures"]["f1"] for row in worst] == [0, 20, 60]
    assert [row["figures"]["f1"] for row in choose(rows, "f1", higher_is_better=False)[0]] == [60, 20, 0]
    assert len(some) == 5 and some == choose(rows, "f1", higher_is_better=True)[1]
    assert choose([{"reference": "a", "prediction": "b"}], "f1", higher_is_better=True)[0] == []
    many = [{"reference": "a", "prediction": "b", "figures": {"f1": place}} for place in range(30)]
    worst, some = choose(many, "f1", higher_is_better=True)
    assert worst == many[:10] and len(some) == 5 and sorted(map(many.index, some)) == list(map(many.index, some))


def test_a_tree_is_drawn_with_a_line_for_each_phrase_that_holds_phrases():
    html = example({"source": "s", "reference": FLAT, "prediction": FLAT}, "f1", marked)
    drawn = re.search(r'<pre class="tree">(.*?)</pre>', html, re.DOTALL)[1]
    assert re.sub(r"<[^>]*>", "", drawn).replace("&nbsp;", " ").split("\n") == [
        "(TOP", "  (S", "    (NP DT the NN cat)", "    (VP VBZ sees", "      (NP", "        (NP NN fish)",
        "        (PP IN in", "          (NP NN water))))))"]


def test_a_bracket_that_stands_twice_is_marked_once_where_the_other_tree_has_it_once():
    once, twice = "(S (NP (NN a) (NN b)) (VB c))", "(S (NP (NP (NN a) (NN b))) (VB c))"
    html = example({"source": "s", "reference": once, "prediction": twice}, "f1", marked)
    assert re.findall(r'class="bracket( \w+)?">(\(.*?)<', html) == [
        ("", "(S"), ("", "(NP"), ("", "(S"), (" wrong", "(NP"), ("", "(NP")]


def test_a_word_behind_a_phrase_stands_on_a_line_of_its_own():
    text = "(S (NP (DT the) (NN cat)) (VBZ sees) (. .))"
    html = example({"source": "s", "reference": text, "prediction": text}, "f1", marked)
    drawn = re.search(r'<pre class="tree">(.*?)</pre>', html, re.DOTALL)[1]
    assert re.sub(r"<[^>]*>", "", drawn).replace("&nbsp;", " ").split("\n") == ["(S", "  (NP DT the NN cat)",
                                                                                "  VBZ sees . .)"]


def test_words_without_tags_have_their_places_in_the_brackets():
    gold, found = "(S a (NP (NN b) (NN c)))", "(S (NP a (NN b)) (NN c))"
    html = example({"source": "s", "reference": gold, "prediction": found}, "f1", marked)
    assert re.findall(r'class="bracket (\w+)">\((\w+)<', html) == [("missed", "NP"), ("wrong", "NP")]


def test_several_trees_in_one_output_are_compared_by_words():
    html = example({"source": "s", "reference": "(A (B b))", "prediction": "(A (B b)) (C c)"}, "f1", marked)
    assert "<pre" not in html and re.findall(r'<span class="(\w+)">(.*?)</span>', html)[1:] == [("wrong", "(C c)")]


def test_words_that_are_frequent_in_a_long_text_are_compared_too():
    html = example({"source": "s", "reference": "a b " * 150, "prediction": "x " + "a b " * 150}, "f1", marked)
    assert re.findall(r'<span class="(\w+)">(.*?)</span>', html)[1:] == [("wrong", "x")]


def test_the_same_label_over_other_words_is_marked_on_both_sides():
    gold, found = "(S (NP (NN a)) (NP (NN b) (NN c)))", "(S (NP (NN a) (NN b)) (NP (NN c)))"
    html = example({"source": "s", "reference": gold, "prediction": found}, "f1", marked)
    assert re.findall(r'class="bracket (\w+)">\((\w+)<', html) == [("missed", "NP")] * 2 + [("wrong", "NP")] * 2
