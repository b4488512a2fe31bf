"""The cache in the user's folder: features, vocabularies, corpora, embedded texts."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import atomic_write_text, block_hashes, naming, read_json, to_disk, to_json

CORPORA, FEATURES = "corpora", "features"
_LOCK, _USE, _PARTIAL = ".lock", ".use.lock", ".partial"
_MARK, _OURS = "kept.json", "seq2seq_suite"


@dataclass(frozen=True)
class Entry:
    """An entry: its folder, its size in bytes, and the time of its last use, in seconds since 1970."""

    path: Path
    size: int
    used: float


def entry(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name, made if it is not there; processes that want the same one wait while one makes it.

    Args:
        folder: of all entries.
        name: of the entry, a fingerprint of all that its content depends on.
        make: writes the content into a folder of our own. Only when it is whole, and on the disk, it gets its name;
            beside the content are hashes of it. Where they differ later, it is made again.

    Raises:
        DataError: the folder cannot be created.
        OSError: the content cannot be written.
    """
    path, partial = folder / name, folder / f"{name}{_PARTIAL}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / f"{name}{_LOCK}", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise DataError(
            f"the folder for encoded corpora cannot be written: {error.strerror}",
            file=str(folder),
            remedy="choose another one with data.cache",
        ) from None
    with _held(lock, path):
        if path.is_dir() and not _is_whole(path):
            print(f"{path} is damaged: it is made again", flush=True)
            shutil.rmtree(path)
        if not path.is_dir():
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
            try:
                with naming(partial):
                    partial.mkdir()
                    _mark(partial)
                    make(partial)
                    _mark(partial)
                    for file in (*partial.iterdir(), partial):
                        to_disk(file)
                    partial.rename(path)
                    to_disk(folder)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
    with suppress(OSError):  # it may be another user's
        os.utime(path)
    return path


def _mark(folder: Path) -> None:
    """Mark a folder as an entry of the cache."""
    atomic_write_text(folder / _MARK, to_json({"kept by": _OURS, "name": _name(folder), "files": _hashes(folder)}))


def _name(folder: Path) -> str:
    return folder.name.removesuffix(_PARTIAL)


def _hashes(folder: Path) -> dict[str, list[str]]:
    return {file.name: block_hashes(file) for file in folder.iterdir() if file.name != _MARK}


def _marked(folder: Path) -> dict[str, Any]:
    """The content of `_mark`'s file; empty in foreign folders, and in links or copies of entries."""
    mark = folder / _MARK
    with suppress(DataError):
        found = read_json(mark) if mark.is_file() and not mark.is_symlink() and not folder.is_symlink() else None
        if isinstance(found, dict) and (found.get("kept by"), found.get("name")) == (_OURS, _name(folder)):
            return found
    return {}


def _is_whole(folder: Path) -> bool:
    with suppress(OSError):
        return _marked(folder).get("files") == _hashes(folder)
    return False


@contextmanager
def _held(lock: int, path: Path) -> Iterator[None]:
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another process is making {path}: waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            print(f"{path}: this file system has no locks: several processes may make it at the same time", flush=True)
        yield
    finally:
        os.close(lock)


def entries(folder: Path) -> list[Entry]:
    """The entries in a folder, unfinished ones included, last used first; unmarked folders are none."""
    found = filter(_marked, folder.iterdir() if folder.is_dir() else ())
    return sorted((Entry(path, size_of(path), path.stat().st_mtime) for path in found), key=lambda one: -one.used)


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # another process may be clearing it
                size += os.stat(os.path.join(parent, name)).st_size
    return size


def used(path: Path) -> BinaryIO:
    """An open file that locks an entry: until it is closed, or its process ends, `clear` keeps the entry."""
    file = path.with_name(f"{path.name}{_USE}").open("ab")
    with suppress(OSError):  # of a file system without locks
        fcntl.flock(file, fcntl.LOCK_SH)
    return file


def clear(folder: Path, *, keep: int = 0) -> None:
    """Delete the entries in a folder, except those in use and the last used ones, up to `keep` bytes."""
    size = 0
    for one in entries(folder):
        size += one.size
        if keep and size <= keep:
            continue
        with ExitStack() as locks:
            try:
                for kind in (_LOCK, _USE):
                    file = folder / f"{one.path.name.removesuffix(_PARTIAL)}{kind}"
                    fcntl.flock(locks.enter_context(file.open("ab")), fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(one.path)
            except BlockingIOError:
                print(f"{one.path} is being made or used: left alone")
