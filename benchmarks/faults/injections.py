"""What happens to a process at a moment of its own: it is killed or stopped, or its disk disappears.

The moment is the n-th operation on files in the run's directory, so that a case is the same each time it is repeated,
and every phase of a run is met in the measure in which it writes.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

_OPERATIONS = (
    "open",
    "os.rename",
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.truncate",
    "os.listdir",
    "os.scandir",
    "shutil.rmtree",
)
_OVERRIDES = 1 << 1 | 1 << 2  # root's capabilities to read and write what the modes of files forbid


def at_operation(number: int, run: Path, act: Callable[[], None]) -> Callable[[], None]:
    """A `first` for `commands.start`: calls `act` once, before the n-th operation on files in the run's directory."""

    def install() -> None:
        left, place = number, str(run)

        def watch(event: str, arguments: tuple) -> None:
            nonlocal left
            if left <= 0 or event not in _OPERATIONS or not arguments or not _below(arguments[0], place):
                return
            left -= 1
            if left == 0:
                act()

        sys.addaudithook(watch)

    return install


def counting(run: Path, file: Path) -> Callable[[], None]:
    """A `first` that keeps the number of such operations in a file."""

    def install() -> None:
        count, place = 0, str(run)
        stream = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

        def watch(event: str, arguments: tuple) -> None:
            nonlocal count
            if event in _OPERATIONS and arguments and _below(arguments[0], place):
                count += 1
                os.pwrite(stream, str(count).encode(), 0)

        sys.addaudithook(watch)

    return install


def _below(path: object, place: str) -> bool:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return isinstance(path, (str, os.PathLike)) and os.path.abspath(path).startswith(place)


def without_privilege() -> None:
    """Take from root, in this process, the right to open what the modes of files forbid; nothing for other users."""
    if os.geteuid():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable
    if libc.capget(head, sets) == 0:
        sets[0] &= ~_OVERRIDES
        if libc.capset(head, sets) == 0:
            return
    raise OSError(ctypes.get_errno(), "the capabilities could not be dropped")
