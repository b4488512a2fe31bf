"""The verb `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from seq2seq_suite.cli.arguments import check_targets
from seq2seq_suite.cli.completion import runs, splits
from seq2seq_suite.cli.parameters import Tables, TrustCode
from seq2seq_suite.terminal.tables import check_table


def compare(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            show_default=False,
            autocompletion=runs,
            help=("Runs to compare, and files with the outputs of other systems for the same split."),
        ),
    ],
    split: Annotated[str, typer.Option(metavar="NAME", autocompletion=splits, help="The split to compare.")] = "test",
    html: Annotated[Path | None, typer.Option(metavar="FILE", show_default=False, help="Write a page.")] = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", show_default=False, help="Write rows.")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", show_default=False, help="Write rows and tests.")] = None,
    printed: Tables = None,
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Measure decoding speed.")] = True,
    trust_code: TrustCode = False,
) -> None:
    """Compare runs: figures, intervals, failures, cost, p-values.

    Runs of one task on the same examples are tested in pairs: by McNemar's exact test for metrics of 0 or 1, else by
    approximate randomisation. Variants that share two seeds or more are tested over their seeds instead.

    \b
    Examples:
      python -m seq2seq_suite compare runs/first runs/second --split validation --html comparison.html
      python -m seq2seq_suite compare runs/first dictionary.txt
    """
    check_targets({"--html": html, "--csv": table, "--json": json, "--table": printed})
    check_table(printed)
    compare_and_print(directories, split=split, measure=speed, html=html, table=table, json=json, printed=printed)


def compare_and_print(
    directories: Sequence[Path],
    *,
    split: str | None,
    measure: bool,
    html: Path | None = None,
    table: Path | None = None,
    json: Path | None = None,
    printed: Path | None = None,
) -> None:
    """Compare runs, print the tables, and write them to the given files."""
    from seq2seq_suite.report.comparison import print_comparison, write_comparison
    from seq2seq_suite.studies.compare import compare_runs

    found = compare_runs(directories, split=split, measure=measure).plain()
    print_comparison(found["rows"], found["pairs"])
    write_comparison(found["rows"], found["pairs"], html=html, table=table, json=json, printed=printed)
