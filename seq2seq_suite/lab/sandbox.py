"""What the kernel lets a student's code do: compute, and read Python and torch. The worker imports this module too.

Each measure holds where the system has it; `enter` and `cut_network` name those that do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import site
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

MEMORY = 4 * 2**30  # bytes of address space; importing torch takes half of it
NOBODY = 65534
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock's system calls, the same on every architecture
_READ = 1 << 2 | 1 << 3  # files and directories
_NO_NEW_PRIVILEGES, _ADOPT, _DIE_WITH_PARENT, _KEEP_CAPABILITIES = 38, 36, 1, 8
_MAY_READ = 1 << 2  # CAP_DAC_READ_SEARCH: whatever the owner, within what Landlock lets be read
_NEW_USER, _NEW_NETWORK, _NEW_PROCESSES = 0x10000000, 0x40000000, 0x20000000
MOST_FILE_SIZE, LATE = 2**31, 124  # bytes of a process that trains; its exit code where it wrote more or was late
_PROCESSES = 256  # and threads, beside what the user has: no fork bomb
_READABLE = (
    "/usr",
    "/lib",
    "/lib64",
    "/proc/self",
    "/proc/cpuinfo",
    "/dev/null",
    "/dev/urandom",
    "/dev/zero",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/sys/devices/system/cpu",
)


def cut_network(*, processes: bool = False) -> list[str]:
    """Leave the network, for this process and its children, where the kernel allows it.

    Args:
        processes: also let the next child be the first of a namespace of processes, which all end with it.
    """
    libc = _libc()
    if libc is None:
        return []
    root = os.geteuid() == 0
    done = (root and libc.unshare(_NEW_NETWORK) == 0) or (not root and libc.unshare(_NEW_USER | _NEW_NETWORK) == 0)
    if processes:
        libc.unshare(_NEW_PROCESSES)
    return ["no network"] if done else []


def enter(seconds: float, *, folder: str = "", reads: Sequence[str] = ()) -> list[str]:
    """Give up, for this process and its children, whatever a student's functions do not need; it cannot be undone.

    Args:
        seconds: of computing time after which the kernel ends the process.
        folder: that it may write to: for a process that trains, and may start threads. Without one nothing is written.
        reads: what may be read beside Python and torch.

    Returns:
        What is guaranteed from now on, in words.
    """
    found = _limits(seconds, trains=bool(folder))
    libc = _libc()
    if libc is not None:
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        found += _landlock(libc, [*readable(), *reads], [folder] if folder else [])
    capabilities = 0
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        if libc is not None and folder:  # modules are still to be read, and Python may lie in root's home directory
            libc.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
            capabilities = _MAY_READ
        with contextlib.suppress(OSError):
            if folder:
                os.chown(folder, NOBODY, NOBODY)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            found.append(f"uid {NOBODY}")
    if libc is not None:  # what a user namespace gives to its maker
        libc.capset(struct.pack("Ii", 0x20080522, 0), struct.pack("6I", capabilities, capabilities, 0, 0, 0, 0))
        libc.prctl(_DIE_WITH_PARENT, 9, 0, 0, 0)
    return found


def overseen(work: Callable[[], None], seconds: float, folder: Path) -> bool:
    """Do something in a child, and end all that it has started once it ends, once the time is over, or once there are
    more than `MOST_FILE_SIZE` bytes in the folder that it may write to.

    Returns:
        Whether it ended by itself.
    """
    libc = _libc()
    if libc is not None:
        libc.prctl(_ADOPT, 1, 0, 0, 0)  # where there are no namespaces, orphans come to this process
    cut_network(processes=True)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            work()
        finally:
            os._exit(1)
    end = time.monotonic() + seconds
    while not (ended := os.waitpid(child, os.WNOHANG)[0]) and time.monotonic() < end and _size(folder) < MOST_FILE_SIZE:
        time.sleep(0.05)
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    orphans = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(OSError):
        while (left := orphans.read_text().split()) and time.monotonic() < end + 10:
            for number in left:
                os.kill(int(number), signal.SIGKILL)
                os.waitpid(int(number), 0)
    return bool(ended)


def _size(folder: Path) -> int:
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found += os.lstat(os.path.join(place, name)).st_blocks * 512
    return found


def _threads(user: int) -> int:
    """How many a user has, as far as the system tells."""
    found = 0
    for place in Path("/proc").glob("[0-9]*/task"):
        with contextlib.suppress(OSError):
            found += len(os.listdir(place)) if place.stat().st_uid == user else 0
    return found


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _limits(seconds: float, *, trains: bool) -> list[str]:
    try:
        import resource
    except ImportError:  # Windows
        return []
    user = (os.geteuid() or NOBODY) if hasattr(os, "geteuid") else 0
    memory, seconds, size, processes = (
        (2 * MEMORY, 4 * seconds, 2**28, _threads(user) + _PROCESSES) if trains else (MEMORY, seconds, 0, 0)
    )
    wanted = [
        (resource.RLIMIT_CPU, int(seconds) + 2),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, size),
        (resource.RLIMIT_NPROC, processes),
    ]
    for limit, most in wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))
    if sys.platform != "linux":
        return []
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    return [f"{memory >> 30} GiB"]


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
    found: list[str] = list(_READABLE)
    folders = {Path(folder) for folder in (*site.getsitepackages(), site.getusersitepackages())}
    for folder in folders:
        with contextlib.suppress(OSError):
            found += [str(entry) for entry in folder.iterdir() if not entry.name.startswith("seq2seq_suite")]
    standard = Path(os.__file__).parent
    with contextlib.suppress(OSError):
        found += [str(entry) for entry in standard.iterdir() if entry.name != "site-packages"]
    return found
