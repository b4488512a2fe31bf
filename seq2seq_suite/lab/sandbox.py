"""What the kernel lets a student's code do: compute, and read Python and torch. The worker imports this module too.

Each measure holds where the system has it; `enter` and `cut_network` name those that do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import site
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

MEMORY = 4 * 2**30  # bytes of address space; importing torch takes half of it
NOBODY = 65534
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock's system calls, the same on every architecture
_READ = 1 << 2 | 1 << 3  # files and directories
_NO_NEW_PRIVILEGES = 38
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_READABLE = ("/usr", "/lib", "/lib64", "/proc/self", "/proc/cpuinfo", "/dev/null", "/dev/urandom", "/dev/zero",
             "/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system/cpu")


def cut_network() -> list[str]:
    """Leave the network, for this process and its children, where the kernel allows it."""
    libc = _libc()
    if libc is None:
        return []
    root = os.geteuid() == 0
    done = (root and libc.unshare(_NEW_NETWORK) == 0) or (
        not root and libc.unshare(_NEW_USER | _NEW_NETWORK) == 0)
    return ["no network"] if done else []


def enter(seconds: float) -> list[str]:
    """Give up, for this process, whatever a law's functions do not need; it cannot be taken back.

    Args:
        seconds: of computing time after which the kernel ends the process.

    Returns:
        What is guaranteed from now on, in words.
    """
    found = _limits(seconds)
    libc = _libc()
    if libc is not None:
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        found += _landlock(libc, readable())
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            found.append(f"uid {NOBODY}")
    if libc is not None:  # what a user namespace gives to its maker
        libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24))
    return found


def enter_folder(folder: str, *, reads: list[str], writes: list[str]) -> list[str]:
    """Give up writing outside of some folders, and reading what is neither Python's nor named; for this process and
    its children, where the kernel has Landlock.

    Args:
        folder: for temporary files and the answer.
        reads: what may be read beside Python and torch.
        writes: what may be written, too.
    """
    libc = _libc()
    if libc is None:
        return []
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return _landlock(libc, [*readable(), *reads], [folder, *writes])


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _limits(seconds: float) -> list[str]:
    try:
        import resource
    except ImportError:  # Windows
        return []
    wanted = [(resource.RLIMIT_CPU, int(seconds) + 2), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0),
              (resource.RLIMIT_NPROC, 0)]
    for limit, most in wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))
    if sys.platform != "linux":
        return []
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return [f"{MEMORY >> 30} GiB"]


def has_landlock() -> bool:
    """Whether this kernel keeps files from a process that asks for it."""
    libc = _libc()
    return libc is not None and _version(libc) > 0


def _version(libc: ctypes.CDLL) -> int:
    return libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1)


def _landlock(libc: ctypes.CDLL, reads: list[str], writes: Sequence[str] = ()) -> list[str]:
    version = _version(libc)
    if version < 1:
        return []
    files = (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1
    rules = struct.pack("QQQ", files, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = libc.syscall(_CREATE, rules, ctypes.c_size_t(len(rules)), 0)
    if ruleset < 0:
        return []
    for path, inside in [*((path, _READ) for path in reads), *((path, files) for path in writes)]:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            access = inside if os.path.isdir(path) else 1 << 2
            libc.syscall(_ADD, ruleset, 1, struct.pack("=Qi", access, descriptor), 0)
            os.close(descriptor)
    done = libc.syscall(_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return [f"landlock {version}"] if done else []


def readable() -> list[str]:
    """Python's own files and those of what is installed, but not this suite, which holds the solutions."""
    found = list(_READABLE)
    folders = {Path(folder) for folder in (*site.getsitepackages(), site.getusersitepackages())}
    for folder in folders:
        with contextlib.suppress(OSError):
            found += [str(entry) for entry in folder.iterdir() if not entry.name.startswith("seq2seq_suite")]
    standard = Path(os.__file__).parent
    with contextlib.suppress(OSError):
        found += [str(entry) for entry in standard.iterdir() if entry.name != "site-packages"]
    return found
