"""`step.cpp`, compiled by the machine's compiler, once for each processor and compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.files import atomic_write_text, block_hashes, cache_root, is_private, to_disk

_HASH = ".sha256"
COMPILED = "compiled"  # the folder of results in the user's folder for caches
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_SOURCE = Path(__file__).with_name("step.cpp")
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
)


class Decoder(ctypes.Structure):
    """`Decoder` of `step.cpp`."""

    _fields_ = [
        *(
            (name, _POINTER)
            for name in ("layers", "gain", "norm_bias", "weight", "bias", "embedding", "visible", "never")
        ),
        *(
            (name, _NUMBER)
            for name in (
                "nevers",
                "symbols",
                "depth",
                "width",
                "heads",
                "inner",
                "source",
                "pre",
                "activation",
                "threads",
            )
        ),
        ("epsilon", ctypes.c_float),
        ("scale", ctypes.c_float),
    ]


@cache
def library() -> ctypes.CDLL:
    """The functions of `step.cpp`. The first use on a machine compiles it, for two to three seconds.

    Raises:
        ConfigError: there is no compiler, it fails, or its output cannot be kept.
    """
    remedy = "install one (Debian: apt install g++), name another in the variable CXX, or set search.compile=false"
    name, *options = shlex.split(os.environ.get("CXX") or "c++") or [""]
    if (program := shutil.which(name)) is None:
        raise ConfigError(
            f"search.compile true: there is no C++ compiler {name}", expected="GCC or Clang", remedy=remedy
        )
    compiler = [program, *options]
    # names of the processor's features and the compiler
    about = _run(*compiler, *_FLAGS, "-E", "-dM", "-x", "c++", os.devnull)
    key = hashlib.sha256("\0".join((about.stdout, *options)).encode() + _SOURCE.read_bytes()).hexdigest()[:16]
    file = cache_root() / COMPILED / f"step-{key}.so"
    try:
        if about.returncode == 0 and not _is_whole(file):
            about = _compile(compiler, file)
    except OSError as error:
        raise ConfigError(
            f"search.compile true: {file.parent} cannot be made: {error.strerror}",
            expected="a writable folder for caches",
            remedy="set XDG_CACHE_HOME to one, or search.compile=false",
        ) from None
    if about.returncode or not file.exists():
        said = about.stderr.strip()[:300] or "it prints nothing"
        raise ConfigError(
            f"search.compile true: {shlex.join(compiler)} fails: {said}",
            expected="GCC or Clang with OpenMP",
            remedy=remedy,
        )
    found = ctypes.CDLL(str(file))
    found.step.argtypes = [_POINTER, _NUMBER, *[_POINTER] * 6, _NUMBER, *[_POINTER] * 5, _NUMBER]
    return found


def _is_whole(file: Path) -> bool:
    """Whether a library is what was compiled, by this user and nobody else: its hash is beside it."""
    beside = file.with_suffix(_HASH)
    with suppress(OSError):
        private = all(map(is_private, (file.parent, file, beside)))
        return private and beside.read_text(encoding="ascii", errors="replace") == " ".join(block_hashes(file))
    return False


def _compile(compiler: Sequence[str], file: Path) -> subprocess.CompletedProcess[str]:
    """Compile; other processes see the file when it is whole and on the disk."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.parent.chmod(0o700)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / file.name
        ended = _run(*compiler, *_FLAGS, str(_SOURCE), "-o", str(made))
        if ended.returncode == 0 and made.exists():
            made.chmod(0o700)
            to_disk(made)
            atomic_write_text(file.with_suffix(_HASH), " ".join(block_hashes(made)))
            made.replace(file)
    return ended


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
