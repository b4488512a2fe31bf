"""Keeps what a campaign starts from writing anywhere but in the campaign's own folder.

The commands under test write to odd places, by root perhaps, and what they do wrong must cost nothing:
a device once replaced by a file stays one for everybody. Linux's Landlock takes the right to write, make, rename and
remove from a process and all that it starts; the rest of the system can still be read.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system calls, the same on all machines
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_WRITING = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))  # and to remove and to make whatever there is
_SINCE = {2: 1 << 13, 3: _TRUNCATE}  # rights that came with a later version: to move between folders, to truncate
_DEVICES = ("/dev/null", "/dev/full", "/dev/zero", "/dev/tty")  # to be written to, not to be replaced


@functools.cache
def _rights() -> int:
    """The rights to write that this kernel can take away; 0 where it has no Landlock."""
    try:
        version = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, 0, 1)
    except (OSError, AttributeError):
        return 0
    return 0 if version < 1 else _WRITING | sum(right for since, right in _SINCE.items() if version >= since)


def is_possible() -> bool:
    """Whether `confine` does anything here."""
    return bool(_rights())


@functools.cache
def _rules(folder: Path) -> int:
    """A set of rules that allows to write in a folder and to a few devices, as a file descriptor."""
    rights, libc = _rights(), ctypes.CDLL(None, use_errno=True)
    handled = struct.pack("Q", rights)
    rules = libc.syscall(_CREATE, handled, len(handled), 0)
    allowed = {str(folder): rights, **dict.fromkeys(_DEVICES, rights & (_WRITE_FILE | _TRUNCATE))}
    for path, right in allowed.items():
        if rules < 0 or not os.path.exists(path):
            continue
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if libc.syscall(_ADD, rules, 1, struct.pack("=QI", right, place), 0):
            raise OSError(ctypes.get_errno(), "no rule could be added", path)
        os.close(place)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "no rules could be made")
    return rules


def prepare(folder: Path) -> None:
    """Make the rules in the process that is going to fork, so that not every child has to."""
    if is_possible():
        _rules(folder.resolve())


def confine(folder: Path) -> None:
    """Let this process, and all that it will start, write in a folder alone; does nothing where that is impossible."""
    if not is_possible():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(_RESTRICT, _rules(folder.resolve()), 0):
        raise OSError(ctypes.get_errno(), "the process could not be confined")
