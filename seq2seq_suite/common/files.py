"""Reads files that may be damaged, and writes files atomically, so that a crash leaves the old or the new one."""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import math
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_suite.common.errors import DataError

if TYPE_CHECKING:
    import numpy as np

LARGEST_TEXT = 2**30  # bytes that are read as one text
_PIECE, BLOCK = 2**20, 2**22  # bytes that are read at a time, and that have a hash of their own


def cache_root() -> Path:
    """The suite's folder in the user's folder for caches, closed to others.

    Where the user has no such folder, or it is another user's, a temporary one, which is said.
    """
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seq2seq_suite"
    except RuntimeError:
        return _temporary("this user has no home folder")
    with suppress(OSError):  # whoever writes to it says so
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if root.stat().st_uid != os.geteuid():
            return _temporary(f"{root} is another user's")
        root.chmod(0o700)
    return root


@cache
def _temporary(why: str) -> Path:
    folder, process = tempfile.mkdtemp(prefix="seq2seq_suite-"), os.getpid()
    atexit.register(lambda: os.getpid() == process and shutil.rmtree(folder, ignore_errors=True))
    print(
        f"{why}: until this command ends, what is cached is in {folder} (XDG_CACHE_HOME names another folder)",
        file=sys.stderr,
    )
    return Path(folder)


def is_private(path: Path) -> bool:
    """Whether a file or folder is this user's, and nobody else may write to it."""
    found = path.lstat()
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def read_text(
    path: Path,
    *,
    expected: str = "a text file in UTF-8",
    remedy: str = "",
    largest: int = LARGEST_TEXT,
    errors: str = "strict",
) -> str:
    """A whole file as text, without the byte order mark that some editors put before it.

    Args:
        path: the file.
        expected: what the file should be, for the message.
        remedy: what the user should do if it is not.
        largest: bytes; larger files are refused unread.
        errors: of decoding, as `bytes.decode` takes it; "surrogatepass" reads what `atomic_write_text` writes.

    Raises:
        DataError: there is no such file, it is a folder, not UTF-8, too large, or cannot be read.
    """
    return decoded(read_bytes(path, expected=expected, remedy=remedy, largest=largest), str(path), remedy, errors)


def decoded(
    content: bytes, file: str, remedy: str = "", errors: str = "strict", *, line: int = 1, offset: int = 0
) -> str:
    """The text of bytes that came from a file or from standard input; raises DataError where they are not UTF-8.

    `line` and `offset` are the place of the first byte.
    """
    try:
        return content.decode("utf-8" if offset else "utf-8-sig", errors=errors)
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {offset + error.start:,} is not UTF-8",
            file=file,
            expected="a text file in UTF-8",
            line=content.count(b"\n", 0, error.start) + line,
            remedy=remedy or "save the file as UTF-8",
        ) from None


def read_bytes(path: Path, *, expected: str = "a file", remedy: str = "", largest: int = LARGEST_TEXT) -> bytes:
    """`read_text` for bytes; also of a pipe or a device, up to the bound.

    Raises:
        DataError: there is no such file, it is a folder, too large, or cannot be read.
    """
    with _reading(path, expected, remedy):
        if path.stat().st_size <= largest:
            with path.open("rb") as file:  # a pipe or a device has no size, and may have no end
                content = b"".join(islice(iter(partial(file.read, _PIECE), b""), largest // _PIECE + 1))
            if len(content) <= largest:
                return content
    raise DataError(
        f"the file has more than {largest:,} bytes",
        file=str(path),
        expected=f"at most {largest:,} bytes",
        remedy=remedy or "split the file",
    )


@contextmanager
def _reading(path: Path, expected: str, remedy: str) -> Iterator[None]:
    """Raises DataError in place of the errors of a file that cannot be read."""
    try:
        yield
        return
    except FileNotFoundError:
        got = "there is no such file"
    except IsADirectoryError:
        got = "this is a folder"
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        if isinstance(error, UnicodeError):
            raise
        got = f"the file cannot be read: {getattr(error, 'strerror', None) or error}"
    raise DataError(got, file=str(path), expected=expected, remedy=remedy or "correct the path")


def is_stream(path: Path) -> bool:
    """Whether it is a pipe or a device, which can be read once."""
    with suppress(OSError, ValueError):
        return stat.S_ISFIFO(path.stat().st_mode) or stat.S_ISCHR(path.stat().st_mode)
    return False


def stream_lines(path: Path | None, *, name: str, ends: bool = False) -> Iterator[str]:
    """The lines of a text file of any size, or of standard input, one after the other.

    Args:
        path: None for standard input.
        name: for messages.
        ends: whether empty lines at the end are lines.

    Raises:
        DataError: it cannot be read, is not UTF-8, or has a line of more than `LARGEST_TEXT` bytes.
    """
    with ExitStack() as stack:
        file = sys.stdin.buffer
        if path is not None:
            with _reading(path, "a text file in UTF-8", ""):
                file = stack.enter_context(path.open("rb"))
        offset, empty, found = 0, 0, False
        for number, content in enumerate(iter(partial(file.readline, LARGEST_TEXT), b""), 1):
            if len(content) == LARGEST_TEXT:
                raise DataError(
                    f"a line of more than {LARGEST_TEXT:,} bytes",
                    file=name,
                    line=number,
                    expected="an input on each line",
                    remedy="split it",
                )
            text = decoded(content, name, line=number, offset=offset).rstrip("\r\n")
            offset += len(content)
            if text.strip():
                yield from [""] * empty
                yield text
                empty, found = 0, True
            else:
                empty += 1
        yield from [""] * (empty if found and ends else not found)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, split at line feeds alone; raises DataError as `read_text` does."""
    lines = read_text(path).split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def read_json(path: Path, *, expected: str = "JSON in UTF-8", remedy: str = "") -> Any:
    """A whole file as JSON; raises DataError as `read_text` does, and for what is not JSON or nested too deep."""
    return parse_json(
        read_text(path, expected=expected, remedy=remedy, errors="surrogatepass"),
        file=str(path),
        expected=expected,
        remedy=remedy or "restore the file",
    )


def parse_json(text: str, *, file: str, line: int = 0, expected: str = "JSON", remedy: str = "correct it") -> Any:
    """A text as JSON.

    Args:
        text: to parse.
        file, line: where the text is, for messages; line 0 for a whole file.
        expected, remedy: for the message.

    Raises:
        DataError: it is no JSON, nested too deep, or holds a number of more digits than Python reads or a
            lone surrogate.
    """
    try:
        found = json.loads(text)
        if "\\u" in text:  # may be half a surrogate pair, which UTF-8 cannot have
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except json.JSONDecodeError as error:
        line, got = line or error.lineno, f"invalid JSON at column {error.colno}: {error.msg}"
    except RecursionError:
        got = "the JSON is nested too deep"
    except UnicodeEncodeError as error:
        got = f"\\u{ord(error.object[error.start]):x} is half a surrogate pair"
    except ValueError:
        got = f"invalid JSON: a number of more than {sys.get_int_max_str_digits():,} digits"
    raise DataError(got, file=file, line=line, expected=expected, remedy=remedy)


def read_arrays(path: Path, *, remedy: str = "restore the file") -> dict[str, np.ndarray]:
    """The arrays of a file that `numpy.savez` wrote; objects, whose reading may run code, are refused.

    Raises:
        DataError: there is no such file, or it cannot be read.
    """
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        got = "there is no such file"
    except Exception as error:  # those of numpy, of zip and of its compression, an empty file, one array that is no zip
        got = f"no arrays can be read: {str(error).partition(chr(10))[0] or type(error).__name__}"
    raise DataError(got, file=str(path), expected="arrays in a zip file, as numpy writes them", remedy=remedy)


def read_rows(
    path: Path, *, expected: str = "a JSON object on each line", remedy: str = "", errors: str = "surrogatepass"
) -> list[tuple[str, dict[str, Any] | None]]:
    """The lines of a file, each with its JSON object; None if it has none, such as a truncated last line.

    Raises DataError as `read_text` does; with "replace" for `errors`, bytes that are not UTF-8 affect only their line.
    """
    lines = read_text(path, expected=expected, remedy=remedy, errors=errors).removesuffix("\n").split("\n")
    return [(line, _object(line)) for line in lines]


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = parse_json(line, file="")
    except DataError:
        return None
    return found if isinstance(found, dict) else None


def atomic_write_text(path: Path, text: str) -> None:
    """Write a file atomically: a reader, also after a crash, finds the old contents or the new ones.

    Lone surrogates, which JSON text may have, are written as they are.
    """
    atomic_write_bytes(path, text.encode("utf-8", errors="surrogatepass"))


def atomic_write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes. Pipes, devices and links are written to, not replaced."""
    writer = f"{os.getpid()}-{threading.get_ident():x}"  # several may write the same file
    partial = path.with_name(f".{path.name}.{writer}.partial")
    with naming(path):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_bytes(content)
            return
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise


def refuse_links_out(path: Path, folder: Path) -> None:
    """Raise DataError if a name in a folder, which may have come from elsewhere, leads out of it.

    Also refused are a file that has other names, which may be elsewhere, and what is neither file nor folder.
    """
    found = Path(os.path.realpath(path))  # `Path.resolve` fails on cyclic links
    if not found.exists() and not path.is_symlink():
        return
    hard = found.is_file() and found.stat().st_nlink > 1
    if hard or not found.is_relative_to(folder.resolve()) or not (found.is_file() or found.is_dir()):
        got = "this file has other names, perhaps elsewhere" if hard else f"this leads to {found}, no file of the run"
        raise DataError(
            got,
            file=str(path),
            expected="files of the run alone",
            remedy="remove the link, or put a copy of what it leads to in its place",
        )


def block_hashes(path: Path) -> list[str]:
    """SHA-256 of each `BLOCK` bytes of a file."""
    with path.open("rb") as file:
        return [hashlib.sha256(block).hexdigest() for block in iter(partial(file.read, BLOCK), b"")]


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Gives an OSError raised within the name of this file: those of writing have none, or a temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error


def failure(error: OSError) -> str:
    """An operating system's error in a line.

    >>> failure(OSError(28, "No space left on device", "log.txt"))
    'log.txt: No space left on device'
    """
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON: numbers that are not finite become null, tensors and numpy values plain numbers.

    >>> to_json({"loss": float("nan"), "f1": 90.5})
    '{"loss": null, "f1": 90.5}'
    """
    return json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    """The data with null for numbers that JSON does not have, and plain numbers for tensors and numpy values."""
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
