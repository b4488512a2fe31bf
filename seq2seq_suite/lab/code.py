"""Students' files and the references: which function stands where, and how `lab_given` is found by them."""

from __future__ import annotations

import ast
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.user_code import line_of
from seq2seq_suite.lab.folder import GIVEN, parsed, source_of
from seq2seq_suite.lab.given import sources
from seq2seq_suite.lab.plug import counted


def student_files(folder: Path) -> dict[str, Path]:
    """The functions and classes of a folder's files, but those whose body is still the starter's line.

    Raises:
        ConfigError: a file is no Python.
    """
    found = {}
    for file in sorted(folder.glob("*.py")):
        if file.stem == GIVEN:
            continue
        try:
            tree = parsed(source_of(file))
        except SyntaxError as error:
            raise ConfigError(
                f"no Python: {error}", file=str(file), line=error.lineno or 0, remedy="correct it"
            ) from None
        found |= {
            node.name: file
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not _is_starter(node)
        }
    return found


def _is_starter(node: ast.stmt) -> bool:
    if isinstance(node, ast.ClassDef):
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
        return bool(methods) and all(map(_is_starter, methods))
    last = node.body[-1] if isinstance(node, ast.FunctionDef) else None
    return isinstance(last, ast.Raise) and last.exc is not None and "NotImplementedError" in ast.unparse(last.exc)


class Code:
    """A student's functions, each loaded once.

    What a file imports from `lab_given` is the student's own where he has written it, otherwise the reference.

    Args:
        folder: of the files.
        calls: counts those of the student's functions.
    """

    def __init__(self, folder: Path, calls: Counter[str] | None = None):
        self.files, self.calls = student_files(folder), Counter() if calls is None else calls
        self._modules: dict[Path, types.ModuleType] = {}
        self._functions: dict[str, Callable[..., Any]] = {}

    def function(self, name: str) -> Callable[..., Any]:
        """A function by its name, counted where it is the student's.

        Raises:
            ConfigError: there is none, or its file fails.
        """
        if name not in self._functions:
            own = name in self.files
            file = self.files.get(name) or sources().get(name)
            if file is None:
                raise ConfigError(f"there is no function {name}", expected=f"one of {', '.join(sources())}")
            found = getattr(self._module(file), name)
            self._functions[name] = counted(name, found, self.calls) if own and not isinstance(found, type) else found
        return self._functions[name]

    def functions(self, names: Iterable[str]) -> dict[str, Callable[..., Any]]:
        """Those that the student has written."""
        return {name: self.function(name) for name in names if name in self.files}

    def _given(self, name: str) -> Callable[..., Any]:
        if name not in self.files and name not in sources():
            raise AttributeError(name)
        return self.function(name)

    def _module(self, file: Path) -> types.ModuleType:
        if file not in self._modules:
            module = self._modules[file] = types.ModuleType(f"lab_code_{file.stem}")
            module.__file__ = str(file)
            given = types.ModuleType(GIVEN)
            given.__getattr__ = self._given
            try:
                with patch.dict(sys.modules, {GIVEN: given}):
                    exec(compile(source_of(file), str(file), "exec"), vars(module))
            except ConfigError:
                raise
            except Exception as error:  # whatever a student's code may raise
                raise ConfigError(
                    f"the code fails: {type(error).__name__}: {error}",
                    file=str(file),
                    line=line_of(error, file),
                    remedy=f"try it with: python {file}",
                ) from error
        return self._modules[file]
