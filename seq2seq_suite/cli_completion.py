"""Completion of verbs, options, presets and runs in a shell."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

COMPLETE = "_SEQ2SEQ_SUITE_COMPLETE"  # set by the shell that asks
COMMAND = "seq2seq_suite"  # installed beside `python -m seq2seq_suite`
_MOST = 200


class Shell(StrEnum):
    """Those for which typer has a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", show_default=False, help=(
        "bash, zsh or fish."))]) -> None:
    """Print the script that completes verbs, options, presets and runs of the command `seq2seq_suite`.

    \b
    Examples:
      eval "$(python -m seq2seq_suite completion bash)"
      python -m seq2seq_suite completion fish > ~/.config/fish/completions/seq2seq_suite.fish
    """
    from typer.completion import get_completion_script

    print(get_completion_script(prog_name=COMMAND, complete_var=COMPLETE, shell=shell.value))


def is_asked() -> bool:
    """Whether a shell asks for completions."""
    return COMPLETE in os.environ


def answer(app: typer.Typer) -> None:
    """Print the completions that the shell asks for; ends the program."""
    from typer.completion import completion_init

    completion_init()
    typer.main.get_command(app).main([], prog_name=COMMAND, complete_var=COMPLETE)
    sys.exit(0)


def experiments(incomplete: str) -> list[str]:
    """Presets and YAML files that begin so."""
    from seq2seq_suite.config_file import PRESETS

    presets = [path.stem for path in PRESETS.glob("*.yaml")] if "/" not in incomplete else []
    return sorted({*(name for name in presets if name.startswith(incomplete)),
                   *(name for name in _paths(incomplete) if name.endswith((".yaml", "/")))})


def runs(incomplete: str) -> list[str]:
    """Run directories, and folders on the way to them, that begin so."""
    return [name for name in _paths(incomplete) if name.endswith("/") or (Path(name) / "config.yaml").is_file()]


def _paths(incomplete: str) -> list[str]:
    """Files and folders that begin so; a folder that is no run ends in a slash."""
    folder, _, begin = incomplete.rpartition("/")
    root = Path(folder or ("/" if incomplete.startswith("/") else "."))
    try:
        found = sorted(one for one in root.iterdir() if one.name.startswith(begin) and not one.name.startswith("."))
    except OSError:
        return []
    prefix = f"{folder}/" if "/" in incomplete else ""
    return [f"{prefix}{one.name}" + ("/" if one.is_dir() and not (one / "config.yaml").is_file() else "")
            for one in found[:_MOST]]
