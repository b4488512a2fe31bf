"""One run at a time in a directory."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.files import read_json, to_json

LOCK = "lock"
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def held(directory: Path) -> Iterator[Callable[[], bool]]:
    """Lock a directory against other runs, by a file in it that names the owner.

    The kernel frees the lock when the process ends, however it ends, so that a stale file locks nothing. Other machines
    respect it if their file system has locks.

    Yields:
        A function that says whether the file still exists, which it does not if the directory was deleted.

    Raises:
        ConfigError: another process holds it.
    """
    path = directory / LOCK
    descriptor = _locked(path)
    try:
        facts = {"process": os.getpid(), "machine": socket.gethostname(),
                 "since": datetime.now(UTC).isoformat(timespec="seconds")}
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, to_json(facts).encode(), 0)
        yield lambda: _names(path, descriptor)
    finally:
        if _names(path, descriptor):
            path.unlink()  # before the lock is free: it is still ours
        os.close(descriptor)


def _locked(path: Path) -> int:
    """The file, open and locked."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                os.close(descriptor)
            if error.errno == errno.EWOULDBLOCK:
                raise ConfigError(f"another run is using this directory: {_holder(path)}", file=str(path.parent),
                                  expected="one run at a time", remedy="wait until it ends, stop it, or choose another "
                                                                       "directory with --output") from None
            if error.errno not in _UNSUPPORTED:
                raise
            print(f"{path}: this file system has no locks: other runs may use the directory at the same time")
        if _names(path, descriptor):
            return descriptor
        os.close(descriptor)  # its owner has ended and deleted it


def _names(path: Path, descriptor: int) -> bool:
    """Whether a path belongs to an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _holder(path: Path) -> str:
    try:
        facts = read_json(path)
        return f"process {facts['process']} on {facts['machine']}, since {facts['since']}"
    except (DataError, KeyError, TypeError):
        return "its owner is not known yet"
