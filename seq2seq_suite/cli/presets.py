"""The verbs `tasks` and `init`: the presets that come with the suite."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from seq2seq_suite.cli.arguments import PROGRAM
from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.terminal.tables import print_table, print_text


def tasks() -> None:
    """List the presets, which `run` and `sweep` take by name.

    \b
    Example:
      python -m seq2seq_suite tasks
    """
    from seq2seq_suite.config.config_file import PRESETS, parse

    print_text("Presets for `run`, with the limit on training time where one is set.")
    presets: dict[str, list[tuple[str, str, str]]] = {
        "On embedded data": [],
        "On real data, from the folder that data.path names or from the Hub": [],
    }
    for path in sorted(PRESETS.glob("*.yaml")):
        given = parse(path)
        minutes = given["training"].get("max_minutes")
        presets[list(presets)[not _embedded(given)]].append(
            (path.stem, f"{math.ceil(minutes)} min" if minutes else "", title(path))
        )
    for heading, rows in presets.items():
        print(f"{heading}:")
        print_table((), rows)
        print()
    print("Studies, for `sweep`:")
    print_table(
        (),
        [
            (path.stem, "\n".join(textwrap.wrap(parse(path)["question"], 55)))
            for path in sorted(PRESETS.glob("studies/*.yaml"))
        ],
    )


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="A preset, as `tasks` lists it.")],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", show_default=False, help=("Where to write, as .yaml; by default NAME.yaml.")),
    ] = None,
) -> None:
    """Copy a preset to edit it. An existing file is kept.

    \b
    Examples:
      python -m seq2seq_suite init parsing
      python -m seq2seq_suite init parsing my_parser.yaml
      python -m seq2seq_suite init norms my_study.yaml
    """
    from seq2seq_suite.config.config_file import SCHEMA, is_study, parse, preset

    source = preset(name)
    if source is None:
        raise ConfigError(
            f"there is no preset {name!r}",
            file=COMMAND_LINE,
            expected="the name of a preset",
            remedy="`python -m seq2seq_suite tasks` lists them",
        )
    target = file or Path(source.name)
    if target.suffix not in (".yaml", ".yml"):
        target = target.with_name(f"{target.name}.yaml")
    verb = "sweep" if is_study(parse(source)) else "run"
    try:
        with target.open("x", encoding="utf-8") as copy:
            text = source.read_text(encoding="utf-8")
            text = re.sub(rf"(suite (?:run|check|sweep)) {source.stem}(?=\s)", rf"\1 {target}", text)
            copy.write(text.replace("$schema=schema.json", f"$schema={SCHEMA.as_uri()}", 1))
    except FileExistsError:
        raise ConfigError(
            "already exists",
            file=str(target),
            expected="a new name",
            remedy=f"python -m seq2seq_suite init {name} OTHER.yaml",
        ) from None
    print(f"{target} is a copy of the preset {source.stem}: edit it, then `{PROGRAM} {verb} {target}`")


def schema() -> None:
    """Print the JSON schema of an experiment's file.

    Editors complete keys and explain them with it.
    A preset and its copy by `init` name it in their first line; editors with the YAML language server read that.

    \b
    Example:
      python -m seq2seq_suite schema > schema.json
    """
    from seq2seq_suite.config.config_file import SCHEMA

    print(SCHEMA.read_text(encoding="utf-8"), end="")


def title(path: Path) -> str:
    """What a preset learns, in at most 50 characters: the line below the one for editors."""
    return path.read_text(encoding="utf-8").split("\n", 2)[1].removeprefix("# ")


def _embedded(given: Mapping[str, Any]) -> bool:
    """Whether a preset, or every part of a joint one, reads the embedded data."""
    from seq2seq_suite.config.config_file import find, parse

    if "yaml" in given:
        given = {**parse(find(given["yaml"])), **given}
    return all(map(_embedded, given["tasks"].values())) if "tasks" in given else given["data"]["path"] == "miniworld"
