"""Tables: plain text away from a terminal, never wider than it, and files by the format of their name."""

import csv
import re

import pytest

from seq2seq_suite.terminal import tables


def test_a_summary_away_from_a_terminal_is_plain_aligned_text(capsys):
    tables.print_summary(
        {
            "splits": {"test": {"f1": 91.257, "exact": 40.0}, "validation": {"f1": float("nan")}},
            "decoding": {
                "test": {"passes_per_symbol": 0.61, "milliseconds_per_sentence": 12.5, "sentences_at_a_time": 64}
            },
            "signature": "evalb",
            "parameters": 1234567,
            "seconds": 61.2,
            "tokens_per_second": 12340.0,
        }
    )
    assert capsys.readouterr().out.splitlines() == [
        "metric                          test  validation",
        "f1                             91.26           –",
        "exact                          40.00           –",
        "passes per symbol              0.610",
        "ms a sentence      12.500 (batch 64)",
        "evalb",
        "1,234,567 parameters, 61 seconds, 12,340 tokens/s",
    ]


TABLE = (
    "Dev_set & test",
    ("run", "f1", "verdict"),
    [("a|b", "\N{MINUS SIGN}0.50", "better"), ("c_d", "9.00", "\N{EN DASH}")],
)


def test_tables_are_written_as_printed_in_the_format_of_the_name(tmp_path):
    for name in ("t.md", "t.tex", "t.csv"):
        tables.write_tables(tmp_path / name, [TABLE, ("nothing", ("a", "b"), [])])
    title, _, head, line, *rows = (tmp_path / "t.md").read_text().splitlines()
    assert title == TABLE[0] and [cell.strip() for cell in head.strip("|").split("|")] == list(TABLE[1])
    assert re.fullmatch(r"\|:-+\|-+:\|:-+\|", line)
    assert rows[0].split() == ["|", r"a\|b", "|", "\N{MINUS SIGN}0.50", "|", "better", "|"]
    text = (tmp_path / "t.tex").read_text()
    assert text.startswith("% Dev_set & test\n\\begin{tabular}{lrl}\n\\toprule\n")
    assert r"c\_d" in text and "$-$0.50" in text and " -- " in text and text.count("tabular") == 2
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [list(TABLE[1]), *map(list, TABLE[2])]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_of_a_table_is_wider_than_the_terminal(width, monkeypatch, capsys):
    header = ("run", *(f"figure {number}" for number in range(9)))
    names = ("translation-nat", "b")
    rows = [(name, *(f"{number}.{place}0" for place in range(9))) for number, name in enumerate(names)]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    tables.print_table(header, rows)
    lines = re.sub("\x1b.*?m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= width
    for number, (name, *cells) in enumerate(rows):
        shown = [line for line in lines if line.split()[:1] == [name]]
        assert [word for line in shown for word in line.split()[1:]] == cells, number
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines)


def printed(header, rows, monkeypatch, capsys, width=80):
    """The blocks of a table on a terminal, each its lines without colours."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    tables.print_table(header, rows)
    blocks = re.sub("\x1b.*?m", "", capsys.readouterr().out).strip().split("\n\n")
    return [[line.strip() for line in block.splitlines()] for block in blocks]


@pytest.mark.parametrize("experiments", [("parsing",), ("parsing", "translation")])
def test_each_part_of_a_table_says_which_row_is_which(experiments, monkeypatch, capsys):
    header = ("experiment", "variant", "metric", *(f"figure {number}" for number in range(9)))
    names = [(one, two) for one in experiments for two in ("left to right, 29,000 x 16", "blocks, 29,000 x 16")]
    rows = [(*name, "f1", *(f"{number}.{place}0" for place in range(9))) for number, name in enumerate(names)]
    blocks = printed(header, rows, monkeypatch, capsys)
    common = "metric: f1" if experiments[1:] else "experiment: parsing; metric: f1"
    assert blocks[0][0] == common and len(blocks) > 1
    blocks[0] = blocks[0][1:]
    for number, block in enumerate(blocks):
        starts = [re.split(r"\s{3,}", line)[: len(experiments)] for line in block[2:]]
        assert starts == [[*name[2 - len(experiments) :]] for name in names], number


def test_rows_that_say_nothing_in_a_further_part_are_left_out_there(monkeypatch, capsys):
    rows = [("f1", "63.17 (61.85 to 64.34)", "60.20"), ("recall", "61.15", tables.NONE), ("nats", "0.421", "")]
    found = printed(("metric", "test", "validation"), rows, monkeypatch, capsys, width=36)
    assert [line.split()[0] for line in found[0][2:]] == ["f1", "recall", "nats"]
    assert [line.split() for line in found[1][2:]] == [["f1", "60.20"]]


def test_a_single_row_that_is_too_wide_is_a_sentence(monkeypatch, capsys):
    header, row = ("variant", "against", "difference"), ("blocks, 29,000 x 16", "left, 29,000 x 16", "+1.00")
    found = printed(header, [row], monkeypatch, capsys, width=40)
    assert " ".join(found[0]) == "variant: blocks, 29,000 x 16; against: left, 29,000 x 16; difference: +1.00"


def test_cells_that_span_lines_stay_in_their_column():
    assert tables.aligned((), [("sample", "(S\n  a)"), ("sizes", "3")]) == "sample  (S\n          a)\nsizes   3"
