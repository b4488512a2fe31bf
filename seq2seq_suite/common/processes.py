"""Other processes."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, AnyStr

if TYPE_CHECKING:
    from subprocess import Popen


def pipes(process: Popen[AnyStr]) -> tuple[IO[AnyStr], IO[AnyStr]]:
    """Standard input and output of a process that was started with a pipe for each."""
    assert process.stdin and process.stdout
    return process.stdin, process.stdout
