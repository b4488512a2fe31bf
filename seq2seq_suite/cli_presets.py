"""The verbs `tasks` and `init`: the presets that come with the suite."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from seq2seq_suite.report.tables import print_table
from seq2seq_suite.types import COMMAND_LINE, ConfigError


def tasks() -> None:
    """List the presets, which `run` and `sweep` take by name.

    \b
    Example:
      python -m seq2seq_suite tasks
    """
    from seq2seq_suite.config_file import PRESETS

    print_table((), [_described(path) for path in sorted(PRESETS.glob("*.yaml"))])
    print()
    print_table((), [(path.stem, "study", "", re.search(r"(?m)^question: (.*)$", path.read_text("utf-8")).group(1))
                     for path in sorted(PRESETS.glob("studies/*.yaml"))])


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="A preset, as `tasks` lists it.")],
    file: Annotated[Path | None, typer.Argument(metavar="FILE", show_default=False, help=(
        "Where to write; by default NAME.yaml."))] = None,
) -> None:
    """Copy a preset to edit it. A file that is there is kept.

    \b
    Examples:
      python -m seq2seq_suite init parsing
      python -m seq2seq_suite init parsing my_parser.yaml
    """
    from seq2seq_suite.config_file import SCHEMA, preset

    source = preset(name)
    if source is None:
        raise ConfigError(f"there is no preset {name!r}", file=COMMAND_LINE, expected="the name of a preset",
                          remedy="`python -m seq2seq_suite tasks` lists them")
    target = file or Path(source.name)
    try:
        with target.open("x", encoding="utf-8") as copy:
            text = source.read_text(encoding="utf-8")
            copy.write(text.replace("$schema=schema.json", f"$schema={SCHEMA.as_uri()}", 1))
    except FileExistsError:
        raise ConfigError("there is such a file already", file=str(target), expected="a new name",
                          remedy=f"python -m seq2seq_suite init {name} OTHER.yaml") from None
    print(f"{target} is a copy of the preset {source.stem}: edit it, then `python -m seq2seq_suite run {target}`")


def schema() -> None:
    """Print the JSON schema of an experiment's file, with which editors complete keys and explain them.

    A preset and its copy by `init` name it in their first line; editors with the YAML language server read that.

    \b
    Example:
      python -m seq2seq_suite schema > schema.json
    """
    from seq2seq_suite.config_file import SCHEMA

    print(SCHEMA.read_text(encoding="utf-8"), end="")


def _described(path: Path) -> tuple[str, str, str, str]:
    """Name, kind of data, limit on training time and the first line of a preset."""
    text = path.read_text(encoding="utf-8")
    minutes = re.search(r"(?m)^  max_minutes: (\d+)", text)
    data = "real" if re.search(r"(?m)^  path: (?!miniworld)", text) else "embedded"
    return (path.stem, data, f"up to {minutes.group(1)} min" if minutes else "",
            text.split("\n")[1].removeprefix("# "))
