"""The verb score."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from seq2seq_suite.cli.arguments import check_targets, only_overrides
from seq2seq_suite.cli.completion import tasks
from seq2seq_suite.cli.parameters import Json, Overrides, Tables, TrustCode
from seq2seq_suite.terminal.tables import check_table, figure, print_json, print_table, span, write_tables


def score(
    task: Annotated[
        str,
        typer.Argument(metavar="TASK", show_default=False, autocompletion=tasks, help=("The task, such as parsing.")),
    ],
    references: Annotated[Path, typer.Argument(metavar="REFERENCES", show_default=False, help="The references.")],
    predictions: Annotated[Path, typer.Argument(metavar="PREDICTIONS", show_default=False, help="In the same order.")],
    overrides: Overrides = None,
    more: Annotated[
        list[Path] | None,
        typer.Option(
            "--reference",
            metavar="FILE",
            show_default=False,
            help=("Further references of the same outputs, of free text; may be repeated."),
        ),
    ] = None,
    json: Json = False,
    trust_code: TrustCode = False,
    printed: Tables = None,
) -> None:
    """Score a file of predictions against references.

    The first metric has a bootstrap interval.

    \b
    Examples:
      python -m seq2seq_suite score translation gold.txt predicted.txt translation.metric_tokenizer=zh
      python -m seq2seq_suite score asr references.txt outputs.txt --reference alternatives.txt --json
    """
    from seq2seq_suite.config.config_file import for_task
    from seq2seq_suite.metrics.significance import interval_of
    from seq2seq_suite.prediction.open_task import open_task
    from seq2seq_suite.tasks.scoring import score_files

    check_targets({"--table": printed})
    check_table(printed)
    changes = only_overrides(overrides or [])
    adapter = open_task(task, for_task(task, changes) if changes else None)
    found = score_files(adapter, [references, *(more or [])], predictions)
    bounds = interval_of(found)
    for note in found.notes:
        print(note, file=sys.stderr)
    header = ("metric", "figure", "95 % interval")[: 3 if bounds else 2]
    rows = [
        (name, figure(value), *([span(*bounds) if name == adapter.primary_metric else ""] if bounds else []))
        for name, value in found.figures.items()
    ]
    if printed:
        write_tables(printed, [(f"{predictions}: {found.signature}", header, rows)])
    if json:
        print_json(
            {
                "task": task,
                "figures": found.figures,
                "signature": found.signature,
                "intervals": {adapter.primary_metric: bounds} if bounds else {},
            }
        )
    else:
        print_table(header, rows)
        print(found.signature)
