"""`step.cpp`, compiled by the machine's compiler, once for each processor and compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from seq2seq_suite.files import cache_root
from seq2seq_suite.types import ConfigError

COMPILED = "compiled"  # the folder of results in the user's folder for caches
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_SOURCE = Path(__file__).with_name("step.cpp")
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno", "-fno-trapping-math",
          "-fno-signed-zeros", "-fassociative-math")


class Decoder(ctypes.Structure):
    """`Decoder` of `step.cpp`."""

    _fields_ = [*((name, _POINTER) for name in (
        "layers", "gain", "norm_bias", "weight", "bias", "embedding", "visible", "never")), *(
        (name, _NUMBER) for name in (
            "nevers", "symbols", "depth", "width", "heads", "inner", "source", "pre", "activation", "threads")),
        ("epsilon", ctypes.c_float), ("scale", ctypes.c_float)]


@cache
def library() -> ctypes.CDLL:
    """The functions of `step.cpp`. The first use on a machine compiles it, for two to three seconds.

    Raises:
        ConfigError: there is no compiler, it fails, or its output cannot be kept.
    """
    name = os.environ.get("CXX") or "c++"
    remedy = "install one (Debian: apt install g++), name another in the variable CXX, or set search.compile=false"
    compiler = shutil.which(name)
    if compiler is None:
        raise ConfigError(f"search.compile true: there is no C++ compiler {name}", expected="GCC or Clang",
                          remedy=remedy)
    about = _run(compiler, "-E", "-dM", "-x", "c++", os.devnull)  # names of the processor's features and the compiler
    key = hashlib.sha256(about.stdout.encode() + _SOURCE.read_bytes()).hexdigest()[:16]
    file = cache_root() / COMPILED / f"step-{key}.so"
    if about.returncode == 0 and not file.exists():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"search.compile true: {file.parent} cannot be made: {error.strerror}",
                              expected="a folder for caches that can be written",
                              remedy="set XDG_CACHE_HOME to one, or search.compile=false") from None
        own = file.with_suffix(f".{os.getpid()}")  # other processes see it when it is whole
        about = _run(compiler, str(_SOURCE), "-o", str(own))
        if about.returncode == 0:
            own.replace(file)
    if about.returncode:
        raise ConfigError(f"search.compile true: {compiler} fails: {about.stderr.strip()[:300]}",
                          expected="GCC or Clang with OpenMP", remedy=remedy)
    found = ctypes.CDLL(str(file))
    found.step.argtypes = [_POINTER, _NUMBER, *[_POINTER] * 6, _NUMBER, *[_POINTER] * 5, _NUMBER]
    return found


def _run(compiler: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([compiler, *_FLAGS, *arguments], capture_output=True, text=True, check=False)
