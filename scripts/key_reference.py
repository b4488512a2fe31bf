"""Writes the reference of keys in tasks/README.md, tasks/schema.json for editors and tests/defaults.yaml, from the
configuration's classes and the comments beside their keys.

    python scripts/key_reference.py
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml

from seq2seq_suite.config.config_file import dump
from seq2seq_suite.config.schema import Config, of_any_task
from seq2seq_suite.options.backbone import SIZES
from seq2seq_suite.options.section import Section
from seq2seq_suite.strategies import KINDS, options_of, targets_of
from seq2seq_suite.tasks import TASKS

PAGE = Path(__file__).parents[1] / "tasks" / "README.md"
SCHEMA = PAGE.with_name("schema.json")
KEYS = "Every key that a configuration may have, and its default: whoever leaves a key out relies on it."
DEFAULTS = PAGE.parents[1] / "tests" / "defaults.yaml"
BEGIN, END = "<!-- keys: written by scripts/key_reference.py -->\n", "<!-- end of keys -->\n"


def reference() -> str:
    """A heading and a table for the top level and for each section."""
    return "\n".join(_tables(of_any_task(), ""))


def _tables(section: type[Section], name: str, title: str = "") -> list[str]:
    inner, rows, meanings = [], [], _meanings(section)
    for key, field in section.model_fields.items():
        if inspect.isclass(field.annotation) and issubclass(field.annotation, Section):
            inner += _tables(field.annotation, f"{name}{key}.")
            continue
        if key == "strategy":
            for kind in KINDS:
                inner += _tables(options_of(kind), "strategy.", f"strategy.kind: {kind}")
            continue
        default = field.get_default(call_default_factory=True) if not field.is_required() else "required"
        default = default.model_dump() if isinstance(default, Section) else default
        default = list(default) if isinstance(default, tuple) else default
        shown = yaml.safe_dump(default, default_flow_style=True, width=999).strip().removesuffix("...").strip()
        choices = " \\| ".join(map(str, get_args(field.annotation))) if get_origin(field.annotation) is Literal else ""
        meaning = " ".join(filter(None, (f"`{choices}`" if choices else "", meanings.get(key, ""))))
        rows.append(f"| `{name}{key}` | `{shown}` | {meaning} |")
    title = title or name.removesuffix(".") or "The top level"
    return [f"### {title}\n", "| key | default | meaning |\n|---|---|---|", *rows, "", *inner] if rows else inner


def _meanings(section: type[Section]) -> dict[str, str]:
    """What each key means, those of base classes included."""
    found: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if issubclass(base, Section) and base is not Section and base.__module__.startswith("seq2seq_suite"):
            found.update(_comments(base))
    return found


def _comments(section: type[Section]) -> dict[str, str]:
    """The comment beside each key of a class, and on the lines of comment under it."""
    found: dict[str, str] = {}
    try:
        lines = inspect.getsource(section).splitlines()
    except (OSError, TypeError):  # made at run time
        return found
    key = ""
    for line in lines:
        if match := re.match(r"    (\w+): .*?(?:  # (.*))?$", line):
            key, found[match[1]] = match[1], match[2] or ""
        elif key and (more := re.match(r"    # (.*)", line)):
            found[key] = f"{found[key]} {more[1]}".strip()
        else:
            key = ""
    return {key: text.replace("|", "\\|") for key, text in found.items()}


def page(text: str) -> str:
    """The page with the reference of today in it."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{reference()}{END}{rest.partition(END)[2]}"


def schema() -> dict[str, Any]:
    """The JSON schema of an experiment's file, with the meaning of each key."""
    found = of_any_task().model_json_schema()
    kinds = {options_of(kind).__name__: kind for kind in KINDS}
    classes = {one.__name__: one for one in _sections(of_any_task())} | {
        options_of(kind).__name__: options_of(kind) for kind in KINDS
    }
    for name, section in [*found["$defs"].items(), ("", found)]:
        meanings = _meanings(classes.get(name, of_any_task()))
        for key, value in section["properties"].items():
            value.pop("title", None)
            if meanings.get(key):
                value["description"] = meanings[key].replace("\\|", "|")
        for what in ("title", "required"):  # a named size gives widths and depths
            section.pop(what, None)
        if kinds.get(name, "autoregressive") != "autoregressive":  # which is meant where no kind is named
            section["required"] = ["kind"]
    whole = found["$defs"].pop("Config")  # a task of a joint run, with the same keys
    for one in (whole, found):
        one["properties"]["task"] = {
            "description": "what is learned; the task of a file of one's own as FILE.py:CLASS",
            "anyOf": [{"enum": [*one["properties"]["task"]["enum"], "multitask"]}, {"pattern": r"\.py:\w+$"}],
        }
    found["properties"]["tasks"]["additionalProperties"] = {"$ref": "#"}
    found["properties"]["yaml"] = {
        "description": "of a task of a joint run: the file that its other keys come from",
        "type": "string",
    }
    del found["additionalProperties"]
    own = {"properties": {"task": {"pattern": r"\.py:\w+$"}}, "required": ["task"]}  # it has a section of its own
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An experiment of seq2seq_suite",
        **found,
        "if": own,
        "else": {"propertyNames": {"enum": list(found["properties"])}},
    }


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for field in section.model_fields.values():
        if inspect.isclass(field.annotation) and issubclass(field.annotation, Section):
            yield from _sections(field.annotation)


def defaults() -> dict[str, Any]:
    """Key -> default: of all tasks, of each kind of strategy, and of each size of the backbone."""
    by_task = {task: _resolved(task=task) for task in TASKS}
    by_size = {size: _resolved(task="translation", backbone={"size": size})["backbone"] for size in SIZES}
    writer = {
        kind: next(task for task in ("translation", *TASKS) if Config(task=task).target in targets_of(kind))
        for kind in KINDS
    }
    found = {key: value for keys in by_task.values() for key, value in keys.items()}
    return found | {
        "task": "translation",
        "backbone": by_size["small"],
        "strategy": {kind: _resolved(task=task, strategy={"kind": kind})["strategy"] for kind, task in writer.items()},
        "sizes": {size: {key: backbone[key] for key in SIZES[size]} for size, backbone in by_size.items()},
    }


def _resolved(**given: Any) -> dict[str, Any]:
    found = yaml.safe_load(dump(Config.model_validate(given)))
    del found["format"]
    return found


if __name__ == "__main__":
    listed = yaml.safe_dump(defaults(), default_flow_style=None, sort_keys=False, width=120)
    DEFAULTS.write_text(f"# {KEYS}\n{listed}", encoding="utf-8")
    SCHEMA.write_text(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
