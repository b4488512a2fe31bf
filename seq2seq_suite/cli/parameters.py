"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2seq_suite.cli.completion import experiments, keys, runs
from seq2seq_suite.common.user_code import trusting


def _trust(context: typer.Context, code: bool) -> bool:
    """Until the verb ends, all code is trusted."""
    context.with_resource(trusting(code))
    return code


Yaml = Annotated[
    str,
    typer.Argument(
        metavar="YAML", show_default=False, autocompletion=experiments, help="The experiment's file, or a preset."
    ),
]
RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", show_default=False, autocompletion=runs, help="The directory that `run` wrote.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        show_default=False,
        autocompletion=keys,
        help="Changes to the configuration, such as search.beam_size=4.",
    ),
]
OneTask = Annotated[str | None, typer.Option(metavar="NAME", show_default=False, help="One task of a joint run.")]
TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        callback=_trust,
        help=("Run custom code: tasks and components that come with a run or a configuration."),
    ),
]
Tables = Annotated[
    Path | None,
    typer.Option(
        "--table", metavar="FILE", show_default=False, help=("Also write what is printed, as .md, .tex or .csv.")
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
