"""A comparison says the same of each run on a terminal, on its page, as CSV and as JSON, each figure in its column."""

import csv
import json
import re

import pytest
from report_tools import comparison_pair, comparison_row, read

from seq2seq_suite.report.comparison import print_comparison, write_comparison

NAN = float("nan")
ROWS = [comparison_row(), comparison_row(run="two", low=NAN, high=NAN, latency_ms=NAN, sentences_per_second=NAN)]
PAIRS = [comparison_pair(), comparison_pair(metric="exact", difference=-0.25, bootstrap_p=0.0004)]
QUALITY = [["run", "task", "split", "metric", "figure", "95 % interval", "invalid", "empty", "repeated", "truncated"],
           ["one", "parsing", "test", "f1", "90.13", "88.00 to 92.50", "1.2", "2.2", "3.2", "4.2"],
           ["two", "parsing", "test", "f1", "90.13", "–", "1.2", "2.2", "3.2", "4.2"]]
COST = [["run", "core parameters", "own parameters", "updates", "tokens", "minutes", "tokens/s", "ms, batch 1",
         "/s, batch 64"],
        ["one", "12,345", "678", "3,000", "4,000,000", "5.5", "6,789", "7.2", "1,234.5"],
        ["two", "12,345", "678", "3,000", "4,000,000", "5.5", "6,789", "–", "–"]]
DIFFERENCES = [["second against first", "metric", "difference", "p (bootstrap)", "p (randomisation)", "p (Holm)"],
               ["two against one", "f1", "+1.50", "0.031", "0.004", "0.008"],
               ["two against one", "exact", "-0.25", "< 0.001", "0.004", "0.008"]]


def test_the_page_has_every_figure_in_its_column(tmp_path):
    write_comparison(ROWS, PAIRS, html=tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    tables = [[re.findall(r"<t[hd](?: class=.words.)?>(.*?)</t[hd]>", row) for row in table.split("</tr>")[:-1]]
              for table in text.split("</table>")[:-1]]
    assert tables == [QUALITY, COST, [[cell.replace("<", "&lt;") for cell in row] for row in DIFFERENCES]]
    headings = ["Figures", "Learning curves", "Quality and time", "Parameters", "Configuration", "Paired tests", "Runs"]
    assert re.findall("<h2>(.*?)</h2>", text) == headings and "nothing about other seeds" in text


def test_a_page_without_pairs_says_nothing_of_chance(tmp_path):
    write_comparison(ROWS, [], html=tmp_path / "page.html")
    text = read(tmp_path / "page.html").text
    assert "2 runs of parsing" in text and "percentile bootstrap" in text
    assert "Differences" not in text and "Paired tests" not in text and "other seeds" not in text


@pytest.mark.parametrize("pairs", [PAIRS, []])
def test_a_terminal_has_every_figure_in_its_column(capsys, pairs):
    print_comparison(ROWS, pairs)
    blocks = [[re.split(r"  +", line.strip()) for line in block.splitlines()]
              for block in capsys.readouterr().out.split("\n\n")]
    assert blocks == ([QUALITY, COST, DIFFERENCES] if pairs else [QUALITY, COST])


def test_csv_and_json_hold_all_that_is_known(tmp_path):
    write_comparison(ROWS, PAIRS, table=tmp_path / "table.csv", json=tmp_path / "all.json")
    with open(tmp_path / "table.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert found == [{name: str(value) for name, value in row.items()} for row in ROWS]
    written = json.loads((tmp_path / "all.json").read_text())
    assert written["pairs"] == PAIRS and written["rows"][0] == ROWS[0] and written["rows"][1]["low"] is None
