"""Code of the user's own that a configuration names as `FILE.py:NAME`.

It is run only within a block that trusts it: that of a verb for what the user's own YAML names, or of `--trust-code`.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from seq2seq_suite.common.errors import ConfigError, UserError

_MODULE = "user_code_"  # begins the names of modules that are loaded here
_ALL = "all"
# Those of a joint run have each their own.
_KEYS_OF_TASKS = (("task",), ("strategy", "kind"), ("data", "format"), ("metrics",), ("search", "processors"))
_trusted: ContextVar[frozenset[str]] = ContextVar("trusted", default=frozenset())


@contextmanager
def trusting(code: bool | Iterable[str]) -> Iterator[None]:
    """Lets code be loaded within the block, beside what the blocks around it trust.

    Args:
        code: True for all, False for none, or what `FILE.py:NAME` names, with absolute paths.
    """
    more = ([_ALL] if code else []) if isinstance(code, bool) else code
    token = _trusted.set(_trusted.get() | frozenset(more))
    try:
        yield
    finally:
        _trusted.reset(token)


def trusts(reference: str = _ALL) -> bool:
    """Whether a block around this call trusts some code, by default all of it."""
    return not _trusted.get().isdisjoint((_ALL, reference))


def require_trust(reference: str, *, key: str, file: str = "", line: int = 0) -> None:
    """Raise ConfigError unless a block around this call trusts the code, and its file is there.

    Args:
        reference: the code.
        key: the configuration's key that names it.
        file, line: where it does, for the message.
    """
    if not trusts(reference):
        raise ConfigError(
            f"{key}: {reference} is code, which is not trusted",
            file=file,
            line=line,
            expected="what the suite has itself, or code that you trust",
            remedy="read it, then add --trust-code (in Python: trust_code=True)",
        )
    path, _, name = reference.rpartition(":")
    if not Path(path).is_file():
        raise ConfigError(
            f"{key}: there is no file {path or name}",
            file=file,
            line=line,
            expected="FILE.py:NAME",
            remedy="give the path relative to the YAML file that names it",
        )


def is_code(reference: Any) -> TypeGuard[str]:
    """Whether a value names code.

    >>> is_code("my_task.py:MyTask"), is_code("parsing")
    (True, False)
    """
    return isinstance(reference, str) and ".py:" in reference


def named_code(given: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Where a configuration, as plain data, names code: the keys, what holds the reference, and its place in there.

    A list of code is made one that can be changed.
    """
    parts = given["tasks"] if isinstance(given.get("tasks"), dict) else {}
    for keys, part in (((), given), *((("tasks", name), part) for name, part in parts.items())):
        if not isinstance(part, dict):
            continue
        for *sections, key in _KEYS_OF_TASKS if keys else (*_KEYS_OF_TASKS, ("training", "optimizer")):
            section = part.get(*sections) if sections else part
            named = section.get(key) if isinstance(section, dict) else None
            if is_code(named):
                yield (*keys, *sections, key), section, key
            elif isinstance(named, list | tuple):
                section[key] = named = list(named)
                yield from (
                    ((*keys, *sections, key, str(place)), named, place)
                    for place, one in enumerate(named)
                    if is_code(one)
                )
    for name in ("backbone", "components"):
        section = given[name] if isinstance(given.get(name), dict) else {}
        yield from (((name, key), section, key) for key, one in list(section.items()) if is_code(one))


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
        ConfigError: it is not trusted, there is no such file, it fails, or it has no such function or class.
    """
    require_trust(reference, key=key)
    file, _, name = reference.rpartition(":")
    path = Path(file)
    found = path.stat()
    try:
        module = _module(path, (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's code may raise anything
        raise ConfigError(
            f"{key}: the code fails: {type(error).__name__}: {error}",
            file=file,
            line=line_of(error, path),
            remedy=f"try it with: python {file}",
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ConfigError(
            f"{key}: it has no function or class {name}",
            file=file,
            expected=f"one of {', '.join(there)}" if there else "a function or class",
        )
    return found


@contextmanager
def blaming(
    reference: str, *, key: str, expected: str, kinds: type[Exception] | tuple[type[Exception], ...] = Exception
) -> Iterator[None]:
    """Raises as a ConfigError, with the line, what the code raises within the block.

    Args:
        reference: the code, or a name of the suite's own.
        key: the configuration's key that names it.
        expected: what the code should be.
        kinds: of errors that it is to blame for.
    """
    file, _, name = reference.rpartition(":")
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        raise ConfigError(
            f"{key}: {name} fails: {type(error).__name__}: {error}",
            file=file,
            line=line_of(error, file),
            expected=expected,
        ) from error


@lru_cache
def _module(path: Path, _version: tuple[int, ...]) -> ModuleType:
    """A file's module; its code is run once for each version of the file, so that a class is one.

    It imports the files beside it by their names; files of other folders are not confused with them.
    """
    spec = importlib.util.spec_from_file_location(f"{_MODULE}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python file")
    module, beside = importlib.util.module_from_spec(spec), [file.relative_to(path.parent) for file in beside_of(path)]
    names = {file.parts[0].removesuffix(".py") for file in beside}
    others = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in names}
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(others)
    return module


def beside_of(path: Path) -> list[Path]:
    """The Python files in a file's folder and below that it imports, and those that these import, in order.

    Packages count with all their modules. Nothing is run; what is no Python imports nothing.
    """
    found: dict[Path, None] = {}
    todo = [path]
    for file in todo:
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else ([node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else [])
            )
            for name in names:
                top = path.parent / name.partition(".")[0]
                files = sorted(top.rglob("*.py")) if (top / "__init__.py").is_file() else [top.with_suffix(".py")]
                new = [one for one in files if one.is_file() and one not in found and one != path]
                found |= dict.fromkeys(new)
                todo += new
    return list(found)


def raised_by(error: BaseException) -> str:
    """The line of a user's code that raised an error, as `file:line`; empty if another's did."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    theirs = str(frame.f_globals.get("__name__", "")).startswith(_MODULE)
    return f"{frame.f_code.co_filename}:{line}" if theirs else ""


def line_of(error: BaseException, path: str | Path) -> int:
    """The line in the file where an error was raised, 0 if unknown."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 0 for frame in reversed(frames) if frame.filename == str(path)), 0)
