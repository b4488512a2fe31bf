"""The command line. A verb is a function in a file of its own and a row of `VERBS`.

Exit codes: 0 done, 2 the user's input is wrong, 1 something failed while running, 130 interrupted. A verb's file is
imported when the verb is asked for, and heavy modules inside its function, so that help and error messages appear
without delay.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer
from typer.core import TyperGroup

from seq2seq_suite import __version__
from seq2seq_suite.cli.arguments import PROGRAM, open_streams
from seq2seq_suite.cli.exit_codes import finish, start
from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError

VERBS = {  # verb -> module:function of this package, or a typer.Typer with verbs of its own; in the order of --help
    "run": "cli.run:run",
    "evaluate": "cli.predict:evaluate",
    "predict": "cli.predict:predict",
    "serve": "cli.serve:serve",
    "export": "cli.export:export",
    "import": "cli.imports:import_model",
    "compare": "cli.compare:compare",
    "sweep": "cli.sweep:sweep",
    "distill": "cli.distill:distill",
    "check": "cli.check:check",
    "score": "cli.score:score",
    "tasks": "cli.presets:tasks",
    "init": "cli.presets:init",
    "schema": "cli.presets:schema",
    "cache": "cli.cache:cache",
    "completion": "cli.completion:completion",
    "lab": "lab.cli:app",
}


class Verbs(TyperGroup):
    """The verbs of the table, each imported on first use."""

    def __init__(self, **given: object):
        super().__init__(**{**given, "commands": dict.fromkeys(VERBS)})

    def get_command(self, ctx: typer.Context, cmd_name: str) -> object:
        """As of the base class; None if there is no such verb."""
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name].partition(":")
        found = getattr(import_module(f"seq2seq_suite.{module}"), name)
        if not isinstance(found, typer.Typer):
            verb, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
            found.command(cmd_name)(verb)
        return typer.main.get_command(found)


app = typer.Typer(
    cls=Verbs, add_completion=False, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]}
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        arguments: without the program's name; by default those of this process.

    Returns:
        The exit code. Internal errors are not caught: Python prints their stack trace and exits with 1.
    """
    open_streams()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    return finish(lambda: start(app, arguments, PROGRAM), processes=_processes())


def _processes() -> int:
    """The number of processes that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"seq2seq_suite {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """One Transformer core, many sequence-to-sequence tasks.

    \b
    A first run, on embedded data:
      python -m seq2seq_suite run parsing
      python -m seq2seq_suite predict runs/parsing "the cat sleeps"

    `VERB --help` explains a verb and gives an example.
    """
    verb, processes = context.invoked_subcommand, _processes()
    if processes > 1 and verb != "run":
        raise ConfigError(
            f"'{verb}' in {processes} processes",
            file=COMMAND_LINE,
            expected="torchrun with `run` alone",
            remedy=f"start it as {PROGRAM} {verb}",
        )
