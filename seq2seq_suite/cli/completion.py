"""Completion of verbs, options, presets, runs and keys in a shell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

COMPLETE = "_SEQ2SEQ_SUITE_COMPLETE"  # set by the shell that asks
COMMAND = "seq2seq_suite"  # installed beside `python -m seq2seq_suite`
_MOST = 200


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", show_default=False, help="bash, zsh or fish.")
    ],
) -> None:
    """Print the script for completion in a shell.

    It completes verbs, options, presets, runs and keys of the command `seq2seq_suite`.

    \b
    Examples:
      eval "$(python -m seq2seq_suite completion bash)"
      python -m seq2seq_suite completion fish > ~/.config/fish/completions/seq2seq_suite.fish
    """
    from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage]  # its only home

    script = get_completion_script(prog_name=COMMAND, complete_var=COMPLETE, shell=shell)
    # bash writes a blank behind what it completes, where a value or a name in a folder is to follow
    open_ended = "[[ $COMPREPLY == *[.=/] ]] && compopt -o nospace 2>/dev/null"
    print(script.replace("    return 0", f"    {open_ended}\n    return 0"))


def experiments(incomplete: str) -> list[str]:
    """Presets and YAML files that begin so."""
    from seq2seq_suite.config.config_file import PRESETS

    presets = [path.stem for path in PRESETS.glob("*.yaml")] if "/" not in incomplete else []
    return sorted(
        {
            *(name for name in presets if name.startswith(incomplete)),
            *(name for name in _paths(incomplete) if name.endswith((".yaml", "/"))),
        }
    )


def runs(incomplete: str) -> list[str]:
    """Run directories, and folders on the way to them, that begin so."""
    return [name for name in _paths(incomplete) if name.endswith("/") or (Path(name) / "config.yaml").is_file()]


def keys(incomplete: str) -> list[str]:
    """Keys of a configuration that begin so, section by section; behind an = the values of a choice."""
    import json

    from seq2seq_suite.config.config_file import SCHEMA

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))

    def inside(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """What a value may be, references followed."""
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            return inside(schema["$defs"][name]) if name in schema["$defs"] else []
        choices = [one for word in ("anyOf", "oneOf", "allOf") for one in part.get(word, ())]
        return [found for one in choices for found in inside(one)] or [part]

    name, equals, _ = incomplete.partition("=")
    *sections, last = name.split(".")
    parts = [schema]
    for section in sections:
        parts = [
            found
            for one in parts
            if section in one.get("properties", ())
            for found in inside(one["properties"][section])
        ]
    known: dict[str, list[Mapping[str, Any]]] = {}
    for key, value in (one for part in parts for one in part.get("properties", {}).items()):
        known.setdefault(key, []).extend(inside(value))
    before = "".join(f"{section}." for section in sections)
    if equals:
        values = [
            value
            for one in known.get(last, ())
            for value in (
                ("true", "false")
                if one.get("type") == "boolean"
                else one.get("enum") or filter(None, [one.get("const")])
            )
        ]
        return [f"{name}={value}" for value in dict.fromkeys(values) if f"{name}={value}".startswith(incomplete)]
    return [
        f"{before}{key}{'.' if any('properties' in one for one in value) else '='}"
        for key, value in known.items()
        if key.startswith(last)
    ]


def experiments_and_keys(incomplete: str) -> list[str]:
    """Experiments, and keys to change."""
    return [*experiments(incomplete), *keys(incomplete)]


def runs_and_keys(incomplete: str) -> list[str]:
    """Runs, and keys to change."""
    return [*runs(incomplete), *keys(incomplete)]


def splits(context: typer.Context, incomplete: str) -> list[str]:
    """Splits that begin so: those of the runs on the command line that were scored, and what all data have."""
    found = {path.stem for one in context.args for path in Path(one).glob("predictions/*.jsonl")}
    return sorted(name for name in found | {"train", "validation", "test"} if name.startswith(incomplete))


def tasks(incomplete: str) -> list[str]:
    """Names of tasks that begin so."""
    from seq2seq_suite.tasks import TASKS

    return [name for name in TASKS if name.startswith(incomplete)]


def _paths(incomplete: str) -> list[str]:
    """Files and folders that begin so; a folder that is no run ends in a slash."""
    folder, _, begin = incomplete.rpartition("/")
    root = Path(folder or ("/" if incomplete.startswith("/") else "."))
    try:
        found = sorted(one for one in root.iterdir() if one.name.startswith(begin) and not one.name.startswith("."))
    except OSError:
        return []
    prefix = f"{folder}/" if "/" in incomplete else ""
    return [
        f"{prefix}{one.name}" + ("/" if one.is_dir() and not (one / "config.yaml").is_file() else "")
        for one in found[:_MOST]
    ]
