"""A comparison of runs on a terminal, as CSV and JSON, and as a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq_suite.common.files import atomic_write_text, to_json
from seq2seq_suite.metrics.names import reached
from seq2seq_suite.metrics.significance import LEVEL, MARGIN, PAIRED_T
from seq2seq_suite.report import compared
from seq2seq_suite.report.page import drawings, render
from seq2seq_suite.report.sentences import on_comparison
from seq2seq_suite.report.variants import groups, settings
from seq2seq_suite.terminal.tables import NONE, chance, figure, print_table, print_text, signed, span, write_tables

Rows = Sequence[Mapping[str, Any]]

QUALITY = ("run", "task", "seed", "split", "metric", "figure", "95 % interval", "baseline", "ceiling", "reached, %")
COST = ("run", "updates", "tokens", "minutes", "tokens/s", "ms, batch 1", "/s, batch 64", "passes/symbol")
MODELS = ("run", "core parameters", "own parameters", "invalid", "empty", "repeated", "truncated")
PAIRS = ("second against first", "difference", "95 % interval", "p (Holm)", "verdict")
_TESTS = {
    "McNemar's test": "McNemar's exact test, as every example counts 0 or 1",
    "randomisation test": "approximate randomisation over the examples",
    PAIRED_T: "Student's paired t test over the seeds, as the variants have several in common",
}
_NOTES = (
    "Interval of a figure: percentile bootstrap over the examples. Baseline: the best figure without learning; "
    "ceiling: that of the best possible outputs; reached: the share of the way from one to the "
    "other. Failures in percent of outputs. Core: encoder and decoder stack; own: front-end, embeddings, output and "
    "heads. Repeated: a block of symbols three times in a row or more often, and more often than in the reference. "
    "Decoding is measured one run after the other on this machine, from text to prediction. Passes: through the "
    "decoder, for each symbol, END included, as `run` or `evaluate` counted them.",
)


def print_comparison(rows: Rows, pairs: Rows) -> None:
    """Print what was reached, what it cost, and which differences a test shows."""
    given = settings(rows)
    words = "".join(text for text, _ in on_comparison(rows, pairs, groups(rows, given), given))
    print_text(words.rstrip())
    print_table(QUALITY, _quality(rows))
    print()
    print_table(COST, _cost(rows))
    print()
    print_table(MODELS, _models(rows))
    if pairs:
        print()
        print_table(PAIRS, _pairs(pairs))
        print()
        print_text(_notes(pairs)[1])


def write_comparison(
    rows: Rows,
    pairs: Rows,
    *,
    html: Path | None = None,
    table: Path | None = None,
    json: Path | None = None,
    printed: Path | None = None,
) -> None:
    """Write the comparison as a page, as CSV with a line for each run, as JSON with the pairs, too, or as printed."""
    if printed is not None:
        write_tables(
            printed,
            [
                ("Results", QUALITY, _quality(rows)),
                ("Cost", COST, _cost(rows)),
                ("Models and failures", MODELS, _models(rows)),
                ("Tests", PAIRS, _pairs(pairs)),
            ],
        )
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
    return [
        (
            row["run"],
            row["task"],
            str(row["seed"]) if row["updates"] else NONE,
            row["split"],
            row["metric"],
            f"{row['figure']:.2f}",
            span(row["low"], row["high"]),
            *map(
                figure,
                (
                    row.get("baseline"),
                    row.get("ceiling"),
                    reached(row["figure"], row.get("baseline"), row.get("ceiling")),
                ),
            ),
        )
        for row in rows
    ]


def _cost(rows: Rows) -> list[tuple[str, ...]]:
    return [
        (
            row["run"],
            f"{row['updates']:,}",
            f"{row['tokens']:,}",
            f"{row['minutes']:.1f}",
            f"{row['tokens_per_second']:,.0f}",
            _measured(row["latency_ms"]),
            _measured(row["sentences_per_second"]),
            figure(row.get("passes_per_symbol")),
        )
        for row in rows
        if row["updates"]
    ]


def _models(rows: Rows) -> list[tuple[str, ...]]:
    return [
        (
            row["run"],
            f"{row['core_parameters']:,}",
            f"{row['own_parameters']:,}",
            *(f"{row[name]:.1f}" for name in MODELS[3:]),
        )
        for row in rows
        if row["updates"]
    ]


def _pairs(pairs: Rows) -> list[tuple[str, ...]]:
    return [
        (
            f"{pair['second']} against {pair['first']}",
            signed(pair["difference"]),
            span(pair["low"], pair["high"], sign="+"),
            chance(pair["holm_p"]),
            pair["verdict"],
        )
        for pair in pairs
    ]


def _notes(pairs: Rows) -> tuple[str, ...]:
    """On the figures, and on the tests that were made."""
    if not pairs:
        return _NOTES
    tests = [_TESTS[name] for name in dict.fromkeys(pair["test"] for pair in pairs)]
    blind = " or ".join(dict.fromkeys("other examples" if pair["seeds"] else "other seeds" for pair in pairs))
    return (
        *_NOTES,
        f"p: chance of so large a difference between equally good systems, two-sided; by {'; or by '.join(tests)}. "
        f"Corrected by Holm for all tests of this comparison; it says nothing about {blind}. Better or worse: "
        f"p < {LEVEL}. Tie: the figures are equal. No difference: the interval lies within {MARGIN} points. "
        "Not resolved: there is too little evidence to say.",
    )


def _measured(value: float) -> str:
    return NONE if value != value else f"{value:,.1f}"


def _page(rows: Rows, pairs: Rows) -> str:
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    given = settings(rows)
    grouped = groups(rows, given)
    disagree, names = compared.disagreements(rows)
    data = {
        "figures": compared.figures(rows, pairs, grouped),
        "curves": compared.curves(rows),
        "sharing": compared.sharing([row for row in rows if "@" not in row["split"]]),  # with the runs' settings
        "times": compared.times(rows, given),
        "parameters": compared.parameters(grouped),
        "tests": compared.tests(rows, pairs, grouped),
        "disagree": disagree,
    }
    heading = (
        f"{len(rows)} runs of {tasks[0].replace('_', ' ')}"
        if len(tasks) == 1
        else (f"{len(rows)} runs, {len(tasks)} tasks")
    )
    return render(
        "compare.html",
        title=heading,
        heading=heading,
        scripts=["charts.js", *drawings(names), "compare.js"],
        data={name: value for name, value in data.items() if value},
        lede=on_comparison(rows, pairs, grouped, given),
        seeds=compared.seeds(grouped),
        sharing=data["sharing"],
        tested=bool(data["tests"]),
        disagree=bool(disagree),
        unlike=compared.differences(
            {
                name: {"seed": ", ".join(str(row["seed"]) for row in some), **given[some[0]["run"]]}
                for name, some in grouped.items()
                if some[0]["updates"]
            }
        ),
        quality_header=QUALITY,
        quality=_quality(rows),
        cost_header=COST,
        cost=_cost(rows),
        models_header=MODELS,
        models=_models(rows),
        pairs_header=PAIRS,
        pairs=_pairs(pairs),
        notes=_notes(pairs),
    )
