"""Disks that fill up, directories that vanish and files that can no longer be read, while a run is at work."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from benchmarks.faults import kills
from benchmarks.faults.campaign import Case, Kind
from benchmarks.faults.commands import Ended
from benchmarks.faults.injections import at_operation, without_privilege

_NEW_MOUNTS, _PRIVATE, _DETACH = 0x20000, 1 << 18 | 1 << 14, 2
_SIZE = 24 * 2**20
_FILLER = "filler"
_LAST = 8  # operations of a run when all is written, its lock taken away: what vanishes then is not missed


def why_not() -> str:
    """Why no small disk can be made here; empty if one can."""
    if not sys.platform.startswith("linux"):
        return "only Linux has tmpfs"
    return "" if os.geteuid() == 0 else "only root may mount a tmpfs"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A tmpfs in a folder, which only this process and its children see."""
    libc = ctypes.CDLL(None, use_errno=True)
    for done in (
        libc.unshare(_NEW_MOUNTS),
        libc.mount(b"none", b"/", None, _PRIVATE, None),
        libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=%d" % _SIZE),
    ):
        if done:
            raise OSError(ctypes.get_errno(), "no tmpfs could be mounted", str(folder))
    try:
        yield
    finally:
        libc.umount2(os.fsencode(folder), _DETACH)


def fill(disk: Path, free: int) -> None:
    """Leave so many bytes of a disk, about."""
    with suppress(OSError), (disk / _FILLER).open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    with (disk / _FILLER).open("rb+") as file:
        file.truncate(max(0, (disk / _FILLER).stat().st_size - free))


def take_away(run: Path, random: Random) -> Callable[[], None]:
    """Something of a run that can no longer be read or written, chosen when it happens."""

    def act() -> None:
        there = [run, *sorted(path for path in run.rglob("*") if not path.is_symlink())]
        path = random.choice(there)
        path.chmod(random.choice((0, 0, 0o500)) if path.is_dir() else 0)

    return act


def give_back(run: Path) -> None:
    """Let all of a run be read and written again."""
    for path in (run, *run.rglob("*")):
        if not path.is_symlink():
            path.chmod(stat.S_IRWXU)


def _plain(case: Case, end: Ended, what: str) -> None:
    lines = [line for line in end.err.splitlines() if line.strip()]
    case.expect(end.code != 1 or len(lines) == 1, f"{what}: {len(lines)} lines where one was expected: {lines[:4]}")


def try_disk(case: Case) -> None:
    """Take away the disk, the directory or the right to read it at one operation; a plain line, and nothing is lost."""
    random, name = case.random, kills.random_name(case.random)
    what = ("full", "vanished", "unreadable", "full")[case.number % 4]
    case.counts[what] += 1
    operations = round(kills.figure(case, f"{name}.operations"))
    if what == "vanished":
        operations = max(1, operations - _LAST)
    disk, moment = case.folder / "disk", random.randint(1, operations)
    run = disk / "run"
    disk.mkdir()
    words = ("run", kills.yaml_of(case, name), "--output", run)
    acts: dict[str, Callable[[], None]] = {
        "full": lambda: fill(disk, random.choice((0, 0, 4096, 50_000, 300_000))),
        "vanished": lambda: shutil.rmtree(run, ignore_errors=True),
        "unreadable": take_away(run, random),
    }

    def first() -> None:
        if what == "unreadable":
            without_privilege()
        at_operation(moment, run, acts[what])()

    with small_disk(disk):
        end = case.call(*words, first=first, limit=90.0, codes=(1,) if what == "vanished" else (0, 1))
        _plain(case, end, f"{what}, {name}")
        (disk / _FILLER).unlink(missing_ok=True)
        if what == "vanished":
            case.expect(not (run / "config.yaml").exists() or end.code, "vanished, but said to be there")
            return
        if what == "unreadable" and run.exists():
            give_back(run)
        whole = list(run.glob("checkpoints/step-*/state.json"))
        more = ["--resume"] if (run / "config.yaml").exists() else ["--overwrite"] if run.exists() else []
        again = case.call(*words, *more, codes=(0,), limit=90.0)
        done = "resuming at update" in again.out or "finished" in again.out
        case.expect(done or not whole or not more, f"{what}, {name}: begun anew although there was a whole checkpoint")
        if again.code == 0:
            kills.compare(case, name, run)


KINDS = (
    Kind(
        "disks",
        "a full disk, a vanished directory, files that became unreadable",
        try_disk,
        60,
        share=4.0,
        prepare=lambda case: kills.prepare(case, tuple(kills.SETTINGS)),
        why_not=why_not,
    ),
)
