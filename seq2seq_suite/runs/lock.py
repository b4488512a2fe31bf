"""One run at a time in a directory."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.files import read_json, to_json

LOCK = "lock"
_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP)
_SECONDS = 0.2  # in which to try again where another run deletes its file just now


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
    lock = FileLock(path, timeout=_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigError(
            f"another run is using this directory: {_holder(path)}",
            file=str(directory),
            expected="one run at a time",
            remedy="wait until it ends, stop it, or choose another directory with --output",
        ) from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        print(f"{path}: this file system has no locks: other runs may use the directory at the same time")
    path.write_text(
        to_json(
            {
                "process": os.getpid(),
                "machine": socket.gethostname(),
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
    )
    own = path.stat()

    def is_there() -> bool:
        with suppress(OSError):
            return os.path.samestat(path.stat(), own)
        return False

    try:
        yield is_there
    finally:
        if is_there():
            path.unlink()  # before the lock is free: it is still ours
        lock.release()


def _holder(path: Path) -> str:
    with suppress(DataError, KeyError, TypeError):
        facts = read_json(path)
        return f"process {facts['process']} on {facts['machine']}, since {facts['since']}"
    return "its owner is not known yet"
