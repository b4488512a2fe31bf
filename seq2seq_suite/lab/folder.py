"""A student's folder: `lab.yaml`, one file for each part, and what is known of earlier checks."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml

from seq2seq_suite import __version__
from seq2seq_suite.files import atomic_write_text, read_text
from seq2seq_suite.types import ConfigError, DataError

LANGUAGES = ("en", "zh")
LARGEST = 2**20  # bytes of a student's file
GIVEN = "lab_given"
# What a student's file may not name: ways around what a part forbids, and the solutions.
REFUSED = ("torch.ops", "torch._C", "importlib", "seq2seq_suite", "__import__")


@dataclass(frozen=True)
class Refused:
    """Why a file is not run."""

    file: str
    line: int
    message: str
    message_zh: str


@dataclass(frozen=True)
class Folder:
    """Of one student and one assignment.

    Args:
        files: name -> text, of the Python files in it.
    """

    path: Path
    assignment: str
    student: str
    language: str
    files: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Folder:
        """Raises DataError and ConfigError where it is no folder that `lab start` made."""
        remedy = "make it by: python -m seq2seq_suite lab start NAME DIR"
        file = path / "lab.yaml"
        if not path.is_dir():
            raise DataError("no folder", file=str(path), expected="a folder that `lab start` made", remedy=remedy)
        try:
            found = yaml.safe_load(read_text(file, expected="the file that `lab start` wrote", remedy=remedy,
                                             largest=LARGEST))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            raise ConfigError("no YAML", file=str(file), line=mark.line + 1 if mark else 0, remedy=remedy) from None
        if not isinstance(found, dict) or not isinstance(found.get("assignment"), str):
            raise ConfigError("no assignment is named", file=str(file), expected="assignment: NAME", remedy=remedy)
        language = str(found.get("language", LANGUAGES[0]))
        if language not in LANGUAGES:
            raise ConfigError(f"language: {language[:20]}", file=str(file), expected=" or ".join(LANGUAGES))
        return cls(path, found["assignment"], str(found.get("student", "")), language, texts(path))

    @property
    def seed(self) -> int:
        """Of the student: whose inputs of laws, data and runs are his own."""
        return seed_of(self.student)

    @property
    def _state(self) -> Path:
        return self.path / ".lab" / "state.json"

    def known(self, part: str) -> dict[str, Any]:
        """What was found of a part's present text, empty if it has changed since."""
        try:
            found = json.loads(self._state.read_text(encoding="utf-8"))[part]
            return found if found["text"] == digest(self.files, part) else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def keep(self, part: str, facts: Mapping[str, Any]) -> None:
        """Note what was found of a part."""
        try:
            kept = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            kept = {}
        kept[part] = {**facts, "text": digest(self.files, part)}
        self._state.parent.mkdir(exist_ok=True)
        atomic_write_text(self._state, json.dumps(kept, indent=1))


def seed_of(student: str) -> int:
    """From 1 to 9973.

    >>> seed_of("b10902001")
    2286
    """
    return 1 + crc32(student.encode()) % 9973


def texts(path: Path) -> dict[str, str]:
    """The Python files of a folder, by name; what is unreadable or too large is left out."""
    found = {}
    for file in sorted(path.glob("*.py")):
        try:
            if file.is_file() and file.stat().st_size <= LARGEST and file.stem != GIVEN:
                found[file.name] = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            continue
    return found


def imported(text: str) -> Iterator[tuple[str, list[str], int]]:
    """Module, names and line of each import of a text that is Python."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, [], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", [alias.name for alias in node.names], node.lineno


def needed(files: Mapping[str, str], part: str) -> list[str]:
    """The part's file, and those of the folder that it imports."""
    found, open_ = [], [f"{part}.py"]
    while open_:
        name = open_.pop()
        if name in files and name not in found:
            found.append(name)
            try:
                open_ += [f"{module.partition('.')[0]}.py" for module, _, _ in imported(files[name])]
            except (SyntaxError, ValueError):
                continue
    return found


def digest(files: Mapping[str, str], part: str) -> str:
    """Of all that a part's check depends on."""
    whole = "\0".join([__version__, *(f"{name}\0{files[name]}" for name in sorted(needed(files, part)))])
    return hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:16]


def refusals(files: Mapping[str, str], part: str) -> list[Refused]:
    """Why a part is not run: it is not there, no Python, or names what it may not."""
    name = f"{part}.py"
    if name not in files:
        return [Refused(name, 0, "there is no such file", "没有这个文件")]
    found = []
    for name in needed(files, part):
        try:
            tree = ast.parse(files[name])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line, said = getattr(error, "lineno", 0) or 0, getattr(error, "msg", "") or str(error)
            found.append(Refused(name, line, f"no Python: {said}", f"不是合法的 Python：{said}"))
            continue
        names = [(node.lineno, said) for node in ast.walk(tree) for said in _names(node)]
        found += [Refused(name, line, f"`{said}` is not allowed here", f"这里不允许使用 `{said}`")
                  for line, said in names if any(f"{said}.".startswith(f"{word}.") for word in REFUSED)]
    return found


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module or ''}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Attribute):
        return [ast.unparse(node)] if isinstance(node.value, ast.Name) else []
    return [node.id] if isinstance(node, ast.Name) and node.id == "__import__" else []
