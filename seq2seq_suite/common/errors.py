"""The errors that a user may see."""

from __future__ import annotations

from functools import partial
from typing import Any


def truncate(text: str, most: int = 60) -> str:
    """A text for messages, cut if it is long.

    >>> truncate("seed=1"), truncate("9" * 60)[50:], truncate("9" * 61)[50:]
    ('seed=1', '9999999999', '9999999...')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def repr_short(value: Any) -> str:
    """A value for messages, cut if it is long.

    >>> repr_short("a dog"), len(repr_short(["a dog"] * 1000))
    ("'a dog'", 80)
    """
    try:
        return truncate(repr(value), 80)
    except (RecursionError, ValueError):  # nested deep, or a number of thousands of digits
        return f"a {type(value).__name__} too large to show"


class UserError(Exception):
    """Something that the user can correct: printed without a stack trace, exit code 2.

    Args:
        got: what was found.
        file: the file it was found in, empty if there is none.
        line: line number in the file, from 1; 0 if it has none.
        expected: what would be right.
        remedy: what to do about it.
    """

    def __init__(self, got: str, *, file: str = "", line: int = 0, expected: str = "", remedy: str = ""):
        name = truncate(file, 255)
        place = f"{name}:{line}: " if file and line else f"{name}: " if file else ""
        super().__init__(
            f"{place}{got}"
            + (f"\n  expected: {expected}" if expected else "")
            + (f"\n  remedy:   {remedy}" if remedy else "")
        )
        self.got, self.file, self.line, self.expected, self.remedy = got, file, line, expected, remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle support, so that another process can raise it."""
        more = {"file": self.file, "line": self.line, "expected": self.expected, "remedy": self.remedy}
        return partial(type(self), **more), (self.got,)


COMMAND_LINE = "command line"  # the place of overrides and flags in errors


class ConfigError(UserError):
    """A configuration file or an override on the command line is wrong."""


class DataError(UserError):
    """A data file, a row in it or a checkpoint is wrong."""


class RunError(Exception):
    """Something failed while running, through no fault in the user's files: exit code 1."""


class Interrupted(Exception):
    """The run was stopped by Ctrl-C, SIGTERM or SIGHUP after saving where it was: exit code 130."""
