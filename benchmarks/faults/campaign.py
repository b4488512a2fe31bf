"""What a campaign is made of: kinds of faults, single tries of them, and workers that go through them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.faults.commands import Ended, Main, Running, faults, start


@dataclass
class Case:
    """One try, and what was wrong with it.

    Args:
        kind, seed, number: what all its chance depends on.
        folder: its own, empty; commands are called in it.
        shared: the folder of what all cases use and none may change.
        main: the command line under test.
    """

    kind: str
    seed: int
    number: int
    folder: Path
    shared: Path
    main: Main
    complaints: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    called: list[Ended] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(f"{self.kind} {self.seed} {self.number}")

    def start(self, *words: object, **options: Any) -> Running:
        """Start a command in the case's folder; options as of `commands.start`."""
        main = options.pop("main", self.main)
        return start(main, [str(word) for word in words], self.folder, within=self.shared.parent, **options)

    def ended(self, running: Running, codes: Sequence[int] = (0, 2), **options: Any) -> Ended:
        """Wait for a command's end, and complain if it is a bad one."""
        end = running.wait()
        self.called.append(end)
        self.complaints += [f"{fault}: {end.command}" for fault in faults(end, codes, **options)]
        return end

    def call(self, *words: object, codes: Sequence[int] = (0, 2), **options: Any) -> Ended:
        """Carry out a command, and complain if it ends badly."""
        return self.ended(self.start(*words, **options), codes)

    def expect(self, right: object, complaint: str) -> None:
        """Complain unless something is as it should be."""
        if not right:
            self.complaints.append(complaint)


@dataclass(frozen=True)
class Kind:
    """A kind of faults.

    Args:
        name: for `--only`.
        what: in a few words, for the report.
        try_one: carries out a case; its complaints are failures.
        goal: how many of `counted` a whole campaign has.
        counted: what the goal counts: a name in `Case.counts`, or "tries", the cases.
        share: of the campaign's time, in parts.
        prepare: makes what its cases use, given a case whose folder is the shared one.
        why_not: why it cannot be tried here; empty if it can.
    """

    name: str
    what: str
    try_one: Callable[[Case], None]
    goal: int
    counted: str = "tries"
    share: float = 1.0
    prepare: Callable[[Case], None] = lambda case: None
    why_not: Callable[[], str] = lambda: ""


@dataclass(frozen=True)
class Found:
    """What came of a case."""

    number: int
    counts: Counter[str]
    complaints: list[str]


@dataclass
class Tally:
    """What came of a kind."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[int, list[str]] = field(default_factory=dict)

    def add(self, found: Found) -> None:
        self.counts += found.counts
        if found.complaints:
            self.failures[found.number] = found.complaints


def repeat_command(kind: str, seed: int, number: int) -> str:
    """What repeats one case.

    >>> repeat_command("data", 1, 17)
    'python -m benchmarks.faults --only data --seed 1 --case 17'
    """
    return f"python -m benchmarks.faults --only {kind} --seed {seed} --case {number}"


def attempt(kind: Kind, seed: int, number: int, place: Path, main: Main, *, keep: bool = False) -> tuple[Found, Case]:
    """Carry out one case in a folder that is deleted afterwards, unless it is to be kept."""
    folder = Path(tempfile.mkdtemp(prefix=f"{kind.name}-{number}-", dir=place))
    case = Case(kind.name, seed, number, folder, place / "shared", main)
    try:
        kind.try_one(case)
    except Exception:
        case.complaints.append("the campaign itself failed:\n" + traceback.format_exc())
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    case.counts["tries"] += 1
    return Found(number, case.counts, list(dict.fromkeys(case.complaints))), case


def go_through(
    kind: Kind,
    seed: int,
    place: Path,
    main: Main,
    *,
    seconds: float,
    jobs: int,
    tell: Callable[[Found], None] = lambda found: None,
) -> Tally:
    """Carry out a kind's cases until its goal is met or its time is over.

    Args:
        kind: what to try.
        seed: of all cases.
        place: the campaign's folder.
        main: the command line under test.
        seconds: after which no new case begins.
        jobs: processes; 1 is this one.
        tell: called with each case's result as it comes.
    """
    tally, deadline = Tally(), time.monotonic() + seconds

    def enough() -> bool:
        return tally.counts[kind.counted] >= kind.goal or time.monotonic() > deadline

    def take(found: Found) -> None:
        tally.add(found)
        tell(found)

    if jobs == 1:
        number = 0
        while not enough():
            take(attempt(kind, seed, number, place, main)[0])
            number += 1
        return tally
    context = multiprocessing.get_context("fork")
    workers: dict[Any, Any] = {}
    busy: dict[Any, int] = {}  # a worker's pipe -> the case it is at
    for number in range(jobs):
        ours, theirs = context.Pipe()
        workers[ours] = context.Process(target=_work, args=(kind, seed, place, main, theirs))
        workers[ours].start()
        theirs.close()  # so that its end is seen when the worker is gone
        ours.send(number)
        busy[ours] = number
    following = jobs
    while busy:
        for ours in multiprocessing.connection.wait(list(busy)):
            number = busy.pop(ours)
            try:
                take(ours.recv())
            except EOFError:
                take(Found(number, Counter(tries=1), ["the campaign's own process died"]))
                continue
            ours.send(None if enough() else following)
            if not enough():
                busy[ours] = following
                following += 1
    for worker in workers.values():
        worker.join()
    return tally


def _work(kind: Kind, seed: int, place: Path, main: Main, orders: Any) -> None:
    """Carry out the cases whose numbers come, until None comes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while (number := orders.recv()) is not None:
        orders.send(attempt(kind, seed, number, place, main)[0])
    sys.stdout.flush()
