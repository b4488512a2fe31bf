"""A student's folder: `lab.yaml`, one file for each part, and what is known of earlier checks."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import decode_source
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml

from seq2seq_suite import __version__
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.files import atomic_write_text, read_bytes, read_text

LANGUAGES = ("en", "zh")
LARGEST, LARGEST_YAML = 2**20, 2**16  # bytes of a student's file
ID = re.compile(r"[\w.@+-]{0,60}")  # of a student: it stands in tables, pages and names of files
GIVEN = "lab_given"
_USUAL = (
    "lab.yaml",
    "answers.yaml",
    "experiment.yaml",
    "README.md",
    "README.html",
    f"{GIVEN}.py",
    "failing",
    "runs",
    "__pycache__",
)
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
        found = read_yaml(file, expected="the file that `lab start` wrote", remedy=remedy)
        if not found.get("assignment") or not isinstance(found["assignment"], str):
            raise ConfigError("no assignment is named", file=str(file), expected="assignment: NAME", remedy=remedy)
        language, student = found.get("language", LANGUAGES[0]), found.get("student", "")
        if language not in LANGUAGES:
            raise ConfigError(f"language: {printable(language, 20)}", file=str(file), expected=" or ".join(LANGUAGES))
        if not isinstance(student, str) or not ID.fullmatch(student):
            raise ConfigError(
                f"student: {printable(student, 20)}",
                file=str(file),
                expected="at most 60 letters, digits and . @ + - _",
            )
        return cls(path, found["assignment"], student, language, texts(path))

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
            state = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            state = {}
        state[part] = {**facts, "text": digest(self.files, part)}
        self._state.parent.mkdir(exist_ok=True)
        atomic_write_text(self._state, json.dumps(state, indent=1))


def seed_of(student: str) -> int:
    """From 1 to 9973.

    >>> seed_of("b10902001")
    2286
    """
    return 1 + crc32(student.encode()) % 9973


def read_yaml(file: Path, *, expected: str, remedy: str = "correct it") -> dict[str, Any]:
    """A student's YAML: every value is a text as it stands there, or a list or dictionary of such, never to be
    written out: by aliases a few lines stand for gigabytes.

    Raises:
        DataError: the file cannot be read.
        ConfigError: it is no YAML, or no dictionary.
    """
    text = read_text(file, expected=expected, remedy=remedy, largest=LARGEST_YAML)
    try:
        found = yaml.load(text, yaml.BaseLoader) or {}
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark, said = getattr(error, "problem_mark", None), getattr(error, "problem", "") or type(error).__name__
        raise ConfigError(
            f"no YAML: {said}", file=str(file), line=mark.line + 1 if mark else 0, expected=expected, remedy=remedy
        ) from None
    if not isinstance(found, dict):
        raise ConfigError("no `key: value` on each line", file=str(file), expected=expected, remedy=remedy)
    return {str(key): value for key, value in found.items()}


def printable(value: object, most: int = 200) -> str:
    """What a student wrote, on one line that moves no cursor and turns no direction.

    >>> printable("b1\\n\\x1b[2J"), printable("王", 5), printable(["x" * 99], 5)
    ('b1\\\\n\\\\x1b[2J', '王', '(list)')
    """
    text = value[:most] if isinstance(value, str) else f"({type(value).__name__})"
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def source_of(file: Path) -> str:
    """The text of a Python file, in UTF-8 or in the encoding that its first lines name.

    Raises:
        DataError: it is a link or a folder, too large, or in another encoding.
    """
    if not stat.S_ISREG(file.lstat().st_mode):
        raise DataError("no file, but a link, a folder or a device", file=str(file))
    try:
        return decode_source(read_bytes(file, largest=LARGEST))
    except (SyntaxError, ValueError, LookupError):
        raise DataError(
            "neither UTF-8 nor the encoding that it names",
            file=str(file),
            expected="Python in UTF-8",
            remedy="save it as UTF-8",
        ) from None


def texts(path: Path) -> dict[str, str]:
    """The Python files of a folder, by name; for those that cannot be read see `overlooked`."""
    found = {}
    for file in sorted(path.glob("*.py")):
        try:
            if file.stem != GIVEN:
                found[file.name] = source_of(file)
        except (OSError, DataError):
            continue
    return found


def overlooked(path: Path, files: Mapping[str, str], parts: Iterable[str]) -> str:
    """Which parts are not among the files that were read, though something else is there: empty for none."""
    parts, said = list(parts), []
    for name in [f"{part}.py" for part in parts if f"{part}.py" not in files]:
        try:
            source_of(path / name)
        except DataError as error:
            said.append(f"{name}: {error.got}")
        except OSError:
            said.append(f"there is no {name}")
    usual = {*_USUAL, *(f"{part}.py" for part in parts), *(name for part in parts for name in needed(files, part))}
    other = sorted(name for name in os.listdir(path) if name not in usual and name[:1] != ".")
    if not said or not (other or len(said) == len(parts) or any(": " in one for one in said)):
        return ""
    return printable("; ".join(said + ([f"but {', '.join(other[:9])}"] if other else [])), 400)


def parsed(text: str) -> ast.Module:
    """The syntax tree; raises SyntaxError for all that is no Python, however deeply it is nested."""
    try:
        return ast.parse(text)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or "nested too deeply") from None


def imported(text: str) -> Iterator[tuple[str, list[str], int]]:
    """Module, names and line of each import of a text; raises SyntaxError where that is no Python."""
    for node in ast.walk(parsed(text)):
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
            except SyntaxError:
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
            tree = parsed(files[name])
        except SyntaxError as error:
            found.append(Refused(name, error.lineno or 0, f"no Python: {error.msg}", f"不是合法的 Python：{error.msg}"))
            continue
        names = [(getattr(node, "lineno", 0), said) for node in ast.walk(tree) for said in _names(node)]
        found += [
            Refused(name, line, f"`{said}` is not allowed here", f"这里不允许使用 `{said}`")
            for line, said in names
            if any(f"{said}.".startswith(f"{word}.") for word in REFUSED)
        ]
    return found


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module or ''}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Attribute):
        return [ast.unparse(node)] if isinstance(node.value, ast.Name) else []
    return [node.id] if isinstance(node, ast.Name) and node.id == "__import__" else []
