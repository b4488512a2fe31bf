"""A comparison of runs on a terminal, as CSV and JSON, and as a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq_suite.files import atomic_write_text, to_json
from seq2seq_suite.report import compared
from seq2seq_suite.report.page import drawings, render
from seq2seq_suite.report.tables import NONE, print_table

Rows = Sequence[Mapping[str, Any]]

QUALITY = ("run", "task", "split", "metric", "figure", "95 % interval", "invalid", "empty", "repeated", "truncated")
COST = ("run", "core parameters", "own parameters", "updates", "tokens", "minutes", "tokens/s", "ms, batch 1",
        "/s, batch 64")
PAIRS = ("second against first", "metric", "difference", "p (bootstrap)", "p (randomisation)", "p (Holm)")
NOTES = (
    "Interval: percentile bootstrap over the examples. Failures in percent of outputs. Core: encoder and decoder "
    "stack; own: front-end, embeddings, output and heads. Decoding is measured one run after the other on this "
    "machine, from text to prediction.",
    "p: chance of so large a difference between equally good systems, two-sided, on the same examples. It says nothing "
    "about other seeds. Holm: the randomisation's, corrected for the number of tests of the task.",
)


def print_comparison(rows: Rows, pairs: Rows) -> None:
    """Print what was reached, what it cost, and which differences are sure."""
    print_table(QUALITY, _quality(rows))
    print()
    print_table(COST, _cost(rows))
    if pairs:
        print()
        print_table(PAIRS, _pairs(pairs))


def write_comparison(rows: Rows, pairs: Rows, *, html: Path | None = None, table: Path | None = None,
                     json: Path | None = None) -> None:
    """Write the comparison as a page, as CSV with a line for each run, as JSON with the pairs, too."""
    if html is not None:
        atomic_write_text(html, _page(rows, pairs))
    if table is not None:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        atomic_write_text(table, text.getvalue())
    if json is not None:
        atomic_write_text(json, to_json({"rows": rows, "pairs": pairs}, indent=1) + "\n")


def _quality(rows: Rows) -> list[tuple[str, ...]]:
    return [(row["run"], row["task"], row["split"], row["metric"], f"{row['figure']:.2f}",
             f"{row['low']:.2f} to {row['high']:.2f}" if row["low"] == row["low"] else NONE,
             *(f"{row[name]:.1f}" for name in ("invalid", "empty", "repeated", "truncated"))) for row in rows]


def _cost(rows: Rows) -> list[tuple[str, ...]]:
    return [(row["run"], f"{row['core_parameters']:,}", f"{row['own_parameters']:,}", f"{row['updates']:,}",
             f"{row['tokens']:,}", f"{row['minutes']:.1f}", f"{row['tokens_per_second']:,.0f}",
             _measured(row["latency_ms"]), _measured(row["sentences_per_second"])) for row in rows]


def _pairs(pairs: Rows) -> list[tuple[str, ...]]:
    return [(f"{pair['second']} against {pair['first']}", pair["metric"], f"{pair['difference']:+.2f}",
             chance(pair["bootstrap_p"]), chance(pair["randomisation_p"]), chance(pair["holm_p"])) for pair in pairs]


def _measured(value: float) -> str:
    return NONE if value != value else f"{value:,.1f}"


def chance(value: float) -> str:
    """A p-value.

    >>> chance(0.0314), chance(0.00001)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _page(rows: Rows, pairs: Rows) -> str:
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    given = compared.settings(rows)
    grouped = compared.groups(rows, given)
    disagree, names = compared.disagreements(rows)
    data = {"figures": compared.figures(rows, pairs), "sharing": compared.sharing(rows),
            "curves": compared.curves(rows), "times": compared.times(rows), "parameters": compared.parameters(grouped),
            "tests": compared.tests(rows, pairs), "disagree": disagree}
    heading = f"{len(rows)} runs of {tasks[0].replace('_', ' ')}" if len(tasks) == 1 else (
        f"{len(rows)} runs, {len(tasks)} tasks")
    return render(
        "compare.html", title=heading, heading=heading, scripts=["charts.js", *drawings(names), "compare.js"],
        data={name: value for name, value in data.items() if value}, lede=compared.lede(rows, pairs, grouped),
        seeds=compared.seeds(grouped), sharing=data["sharing"], tested=bool(data["tests"]), disagree=bool(disagree),
        unlike=compared.differences({name: given[some[0]["run"]] for name, some in grouped.items()}),
        quality_header=QUALITY, quality=_quality(rows), cost_header=COST, cost=_cost(rows), pairs_header=PAIRS,
        pairs=_pairs(pairs), notes=NOTES[: 2 if pairs else 1])
