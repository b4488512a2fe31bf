"""Code of the user's own that a configuration names as `FILE.py:NAME`."""

from __future__ import annotations

import importlib.util
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seq2seq_suite.types import ConfigError


def is_code(reference: Any) -> bool:
    """Whether a value names code.

    >>> is_code("my_task.py:MyTask"), is_code("parsing")
    (True, False)
    """
    return isinstance(reference, str) and ".py:" in reference


def absolute(reference: str, folder: Path) -> str:
    """The same with a path that does not depend on the folder that it was relative to."""
    file, _, name = reference.rpartition(":")
    return f"{(folder / file).resolve()}:{name}"


def load_code(reference: str, *, key: str) -> Callable[..., Any]:
    """The function or class that `FILE.py:NAME` names; the file's code is run.

    Args:
        reference: a configuration's value.
        key: its key there.

    Raises:
        ConfigError: there is no such file, it fails, or it has no such function or class.
    """
    file, _, name = reference.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"{key}: there is no file {file or reference}", expected="FILE.py:NAME",
                          remedy="give the path relative to the YAML file that names it")
    spec = importlib.util.spec_from_file_location(f"user_code_{path.stem}", path)
    module = importlib.util.module_from_spec(spec) if spec is not None else None
    if module is None:
        raise ConfigError(f"{key}: {file} is no Python file", expected="FILE.py:NAME")
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a user's code may raise anything
        raise ConfigError(f"{key}: the code fails: {type(error).__name__}: {error}", file=file,
                          line=line_of(error, path), remedy=f"try it with: python {file}") from error
    found = getattr(module, name, None)
    if not callable(found):
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ConfigError(f"{key}: it has no function or class {name}", file=file,
                          expected=f"one of {', '.join(there)}" if there else "a function or class")
    return found


def line_of(error: Exception, path: str | Path) -> int:
    """The line in the file where an error was raised, 0 if unknown."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 0 for frame in reversed(frames) if frame.filename == str(path)), 0)
