"""A comparison says the same of each run on a terminal, on its page, as CSV and as JSON, each figure in its column."""

import csv
import json
import re

import pytest
from report_tools import comparison_pair, comparison_row, read

from seq2seq_suite.report.comparison import print_comparison, write_comparison

NAN = float("nan")
UNMEASURED = dict.fromkeys(
    ("low", "high", "latency_ms", "sentences_per_second", "passes_per_symbol", "milliseconds"), NAN
)
ROWS = [comparison_row(), comparison_row(run="two", **UNMEASURED)]
PAIRS = [
    comparison_pair(),
    comparison_pair(
        second="three",
        difference=-0.25,
        low=-0.4,
        high=-0.1,
        holm_p=0.0004,
        verdict="no difference (within 0.5)",
        test="McNemar's test",
    ),
]
QUALITY = [
    ["run", "task", "seed", "split", "metric", "figure", "95 % interval", "baseline", "ceiling", "reached, %"],
    ["one", "parsing", "1", "test", "f1", "90.13", "88.00 to 92.50", "–", "–", "–"],
    ["two", "parsing", "1", "test", "f1", "90.13", "–", "–", "–", "–"],
]
COST = [
    ["run", "updates", "tokens", "minutes", "tokens/s", "ms, batch 1", "/s, batch 64", "passes/symbol"],
    ["one", "3,000", "4,000,000", "5.5", "6,789", "7.2", "1,234.5", "0.62"],
    ["two", "3,000", "4,000,000", "5.5", "6,789", "–", "–", "–"],
]
MODELS = [
    ["run", "core parameters", "own parameters", "invalid", "empty", "repeated", "truncated"],
    ["one", "12,345", "678", "1.2", "2.2", "3.2", "4.2"],
    ["two", "12,345", "678", "1.2", "2.2", "3.2", "4.2"],
]
DIFFERENCES = [
    ["second against first", "difference", "95 % interval", "p (Holm)", "verdict"],
    ["two against one", "+1.50", "+0.50 to +2.50", "0.008", "better"],
    ["three against one", "−0.25", "−0.40 to −0.10", "< 0.001", "no difference (within 0.5)"],
]


def test_the_page_has_every_figure_in_its_column(tmp_path):
    write_comparison(ROWS, PAIRS, html=tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    tables = [
        [re.findall(r"<t[hd](?: class=.words.)?>(.*?)</t[hd]>", row) for row in table.split("</tr>")[:-1]]
        for table in text.split("</table>")[:-1]
    ]
    assert tables == [QUALITY, COST, MODELS, [[cell.replace("<", "&lt;") for cell in row] for row in DIFFERENCES]]
    headings = ["Figures", "Learning curves", "Quality and time", "Parameters", "Configuration", "Paired tests", "Runs"]
    assert re.findall("<h2>(.*?)</h2>", text) == headings and text.count("nothing about other seeds") == 1
    assert "approximate randomisation over the examples; or by McNemar" in text


def test_a_page_without_pairs_says_nothing_of_chance(tmp_path):
    write_comparison(ROWS, [], html=tmp_path / "page.html")
    text = read(tmp_path / "page.html").text
    assert "2 runs of parsing" in text and "percentile bootstrap" in text
    assert "Differences" not in text and "Paired tests" not in text and "other seeds" not in text


@pytest.mark.parametrize("pairs", [PAIRS, []])
def test_a_terminal_has_every_figure_in_its_column(capsys, pairs):
    print_comparison(ROWS, pairs)
    blocks = [
        [re.split(r"  +", line.strip()) for line in block.splitlines()]
        for block in capsys.readouterr().out.split("\n\n")
    ]
    tables = [QUALITY, COST, MODELS, *([DIFFERENCES] if pairs else [])]
    assert blocks[1 : len(tables) + 1] == tables
    assert blocks[0][0][0].startswith("On parsing, one has F1 90.13 (seed 1), two 90.13")
    reported = " ".join(line for block in blocks[len(tables) + 1 :] for (line,) in block)
    assert ("Corrected by Holm" in reported and "McNemar" in reported) if pairs else not reported


def test_csv_and_json_hold_all_that_is_known(tmp_path):
    write_comparison(ROWS, PAIRS, table=tmp_path / "table.csv", json=tmp_path / "all.json")
    with open(tmp_path / "table.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert found == [{name: str(value) for name, value in row.items()} for row in ROWS]
    written = json.loads((tmp_path / "all.json").read_text())
    assert written["pairs"] == [{**pair, "seeds": []} for pair in PAIRS]
    assert written["rows"][0] == ROWS[0] and written["rows"][1]["low"] is None
