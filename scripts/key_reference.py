"""Writes the reference of keys in tasks/README.md from the configuration's classes and the comments beside their keys.

    python scripts/key_reference.py
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import yaml

from seq2seq_suite.config import of_any_task
from seq2seq_suite.config_section import Section
from seq2seq_suite.strategies import KINDS, options_of

PAGE = Path(__file__).parents[1] / "tasks" / "README.md"
BEGIN, END = "<!-- keys: written by scripts/key_reference.py -->\n", "<!-- end of keys -->\n"


def reference() -> str:
    """A heading and a table for the top level and for each section."""
    return "\n".join(_tables(of_any_task(), ""))


def _tables(section: type[Section], name: str, title: str = "") -> list[str]:
    inner, rows, meanings = [], [], {}
    for base in reversed(section.__mro__):
        if issubclass(base, Section) and base is not Section and base.__module__.startswith("seq2seq_suite"):
            meanings.update(_comments(base))
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


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
