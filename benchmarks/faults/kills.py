"""Runs that are killed, stopped, or started twice; resumed, they must end as an unbroken run does."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.faults import examples
from benchmarks.faults.campaign import Case, Kind
from benchmarks.faults.commands import Running, as_program
from benchmarks.faults.fingerprints import differences, fingerprint
from benchmarks.faults.injections import at_operation, counting

_COURSE: dict[str, Any] = {"training": {"max_updates": 8, "validate_every": 3, "save_every": 2, "log_every": 2}}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "single": ("parsing", {"training": {"ema_decay": 0.9}}),
    "muon": ("translation", {"training": {"optimizer": "muon", "ema_decay": 0.9, "accumulate": 2}}),
    "bfloat16": ("qa", {"training": {"precision": "bfloat16", "schedule": "cosine"}}),
    "joint": ("joint", {}),
    "speech": ("asr", {"audio": {"speeds": [0.9, 1.0, 1.1]}}),
    "pictures": ("detection", {"training": {"optimizer": "muon"}}),
    "labels": ("multilabel", {}),
}
PAIR = "pair"
_GRACE = 15.0  # seconds that a process has to notice that another one is gone
_WAYS = ("at random", "at random", "at an operation", "at an operation", "at an operation")


def yaml_of(case: Case, name: str) -> Path:
    return case.shared / "kills" / f"{name}.yaml"


def prepare(case: Case, names: Sequence[str] = (*SETTINGS, PAIR)) -> None:
    """For each setting an unbroken run, how long it takes, and how many operations on files it makes."""
    (case.shared / "kills").mkdir(exist_ok=True)
    for name in names:
        task, changes = SETTINGS[name if name != PAIR else "single"]
        data, run = case.shared / "data" / task, case.shared / "kills" / name
        if run.exists():
            continue
        if not data.exists():
            examples.write(data, task)
        examples.write_yaml(
            yaml_of(case, name),
            examples.settings(task, data, case.shared / "features", examples.merged(_COURSE, changes)),
        )
        began = time.monotonic()
        if name == PAIR:
            together(case, run, codes=(0,))
        else:
            case.call(
                "run",
                yaml_of(case, name),
                "--output",
                run,
                codes=(0,),
                limit=90.0,
                first=counting(run, case.shared / "kills" / f"{name}.operations"),
            )
        (case.shared / "kills" / f"{name}.seconds").write_text(str(time.monotonic() - began))


def figure(case: Case, name: str) -> float:
    return float((case.shared / "kills" / name).read_text())


def begin(case: Case, name: str, *, resume: bool, **options: Any) -> Running:
    """Start a run, or go on with one that was broken off; one that was killed before it had begun is begun anew."""
    run = case.folder / "run"
    more = ["--resume"] if resume and (run / "config.yaml").exists() else ["--overwrite"] if run.exists() else []
    return case.start("run", yaml_of(case, name), "--output", run, *more, limit=90.0, **options)


def compare(case: Case, name: str, run: Path | None = None) -> None:
    """Complain if the run did not come to what the unbroken one came to."""
    if case.called[-1].code != 0:  # which is a complaint already
        return
    other = differences(fingerprint(run or case.folder / "run"), fingerprint(case.shared / "kills" / name))
    case.expect(not other, f"{name}: not as in the unbroken run: {', '.join(other)}")


def try_kill(case: Case) -> None:
    """Kill a run once to three times, then let it end."""
    name, random = tuple(SETTINGS)[case.number % len(SETTINGS)], case.random
    case.counts[name] += 1
    seconds, operations = figure(case, f"{name}.seconds"), round(figure(case, f"{name}.operations"))
    for _ in range(random.choice((1, 1, 2, 3))):
        way = random.choice(_WAYS)
        if way == "at an operation":
            hook = at_operation(
                random.randint(1, operations), case.folder / "run", lambda: os.kill(os.getpid(), signal.SIGKILL)
            )
            running = begin(case, name, resume=True, first=hook)
        else:
            real = random.random() < 0.2
            running = begin(case, name, resume=True, **({"main": as_program} if real else {}))
            _sleep(running, random.uniform(0.0, seconds + 5.0 * real))
            running.kill()
        end = case.ended(running, codes=(0, 137))
        case.counts["kills"] += end.code == 137
        if end.code == 0:
            break
    case.ended(begin(case, name, resume=True), codes=(0,))
    compare(case, name)


def _sleep(running: Running, seconds: float) -> None:
    """Wait, but not longer than the command runs."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and running.poll() is None:
        time.sleep(0.005)


# -- signals, and a second run --------------------------------------------------------------------------------------


def try_signal(case: Case) -> None:
    """Stop a run by a signal, or start another one in its directory."""
    name, random = random_name(case.random), case.random
    way = ("SIGTERM", "SIGINT", "SIGHUP", "a second run")[case.number % 4]
    case.counts[way] += 1
    operations = round(figure(case, f"{name}.operations"))
    if way == "a second run":
        _second(case, name, operations)
        return
    act: Callable[[], None] = lambda: os.kill(os.getpid(), getattr(signal, way))  # noqa: E731
    end = case.ended(
        begin(case, name, resume=False, first=at_operation(random.randint(1, operations), case.folder / "run", act)),
        codes=(0, 130),
    )
    run = case.folder / "run"
    trained = (run / "metrics.jsonl").exists()
    case.expect(
        end.code == 0 or not trained or (run / "checkpoints" / "last").exists(),
        f"{way}: stopped while training, but nothing was saved",
    )
    case.ended(begin(case, name, resume=True), codes=(0,))
    compare(case, name)


def _second(case: Case, name: str, operations: int) -> None:
    """Hold a run at an operation on files while others want its directory; then let it end."""
    run, mark = case.folder / "run", case.folder / "held"

    def hold() -> None:
        mark.touch()
        while mark.exists():
            time.sleep(0.01)

    moment = case.random.randint(min(12, operations), operations)
    running = begin(case, name, resume=False, first=at_operation(moment, run, hold))
    while not mark.exists() and running.poll() is None:
        time.sleep(0.01)
    for more in ([], ["--resume"], ["--overwrite"]):
        if running.poll() is None and (run / "config.yaml").exists():
            case.call("run", yaml_of(case, name), "--output", run, *more, codes=(2,))
    mark.unlink(missing_ok=True)
    case.ended(running, codes=(0,))
    compare(case, name)


def random_name(random: Random) -> str:
    """One of the settings."""
    return random.choice(tuple(SETTINGS))


# -- two processes --------------------------------------------------------------------------------------------------


def pair(case: Case, run: Path, **first: Callable[[], None]) -> list[Running]:
    """Start two processes with what torchrun tells them; `first` may be given as `rank0` and `rank1`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    more = ["--resume"] if (run / "config.yaml").exists() else ["--overwrite"] if run.exists() else []
    return [
        case.start(
            "run",
            yaml_of(case, PAIR),
            "--output",
            run,
            *more,
            limit=90.0,
            first=first.get(f"rank{rank}", lambda: None),
            environment={
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
        )
        for rank in (0, 1)
    ]


def together(case: Case, run: Path, codes: Sequence[int]) -> None:
    """Let two processes run to their end."""
    for running in pair(case, run):
        case.ended(running, codes=codes)


def _watched(started: Sequence[Running]) -> Sequence[Running]:
    """Wait as torchrun would: when one process has failed, the others get time to end, then SIGTERM, then SIGKILL."""
    failed = None
    while any(running.poll() is None for running in started):
        ends = [running.poll() for running in started]
        if failed is None and any(end is not None and end.code != 0 for end in ends):
            failed = time.monotonic()
        for seconds, number in ((_GRACE, signal.SIGTERM), (2 * _GRACE, signal.SIGKILL)):
            if failed is not None and seconds < time.monotonic() - failed < seconds + 0.1:
                for running in started:
                    running.kill(number)
        time.sleep(0.05)
    return started


def torchrun(words: Sequence[str]) -> int:
    """A `Main` that becomes PyTorch's launcher with two processes."""
    os.execv(
        sys.executable,
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc_per_node=2",
            "-m",
            "seq2seq_suite",
            *words,
        ],
    )


def try_pair(case: Case) -> None:
    """Kill one of two processes, or both: the other one must end, and together they go on."""
    random, run = case.random, case.folder / "run"
    seconds = figure(case, f"{PAIR}.seconds")
    way = random.choice(("rank0", "rank1", "both", "rank0 at an operation", "rank1 is stopped"))
    if case.number % 12 == 11:
        _under_torchrun(case, run, seconds)
    else:
        case.counts[way] += 1
        hook = at_operation(
            random.randint(1, round(figure(case, "single.operations"))),
            run,
            lambda: os.kill(os.getpid(), signal.SIGKILL),
        )
        started = pair(case, run, **({"rank0": hook} if "operation" in way else {}))
        if "operation" not in way:
            _sleep(started[0], random.uniform(0.0, seconds))
            for rank in (0, 1) if way == "both" else (int(way[4]),):
                started[rank].kill(signal.SIGTERM if "stopped" in way else signal.SIGKILL)
        ends = [case.ended(running, codes=(0, 1, 130, 137, 143)) for running in _watched(started)]
        case.counts["kills"] += sum(end.code == 137 for end in ends)
        case.expect(
            (ends[0].code == 0) == (ends[1].code == 0) or way == "both" or 137 in (ends[0].code, ends[1].code),
            f"{way}: exit codes {ends[0].code} and {ends[1].code}",
        )
    together(case, run, codes=(0,))
    compare(case, PAIR)


def _under_torchrun(case: Case, run: Path, seconds: float) -> None:
    """The same with PyTorch's launcher: it and the other process must end."""
    case.counts["torchrun"] += 1
    running = case.start("run", yaml_of(case, PAIR), "--output", run, main=torchrun, limit=90.0)
    deadline = time.monotonic() + 60
    while not run.exists() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    _sleep(running, case.random.uniform(0.0, seconds))
    ranks = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(pid) == running.pid]
    if ranks:
        os.kill(case.random.choice(sorted(ranks)), signal.SIGKILL)
        case.counts["kills"] += 1
    end = running.wait()  # its own trace is torchrun's, which tells of each process that failed
    case.called.append(end)
    case.expect(end.code in (0, 1), f"torchrun ends with {end.code}")
    left = [pid for pid in ranks if _parent(str(pid)) == running.pid]
    case.expect(not left, "processes of torchrun are left")


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


KINDS = (
    Kind("kills", "kill -9 at any moment, then --resume", try_kill, 100, counted="kills", share=9.0, prepare=prepare),
    Kind(
        "signals", "SIGTERM, SIGINT, SIGHUP; a second run in the directory", try_signal, 48, share=4.0, prepare=prepare
    ),
    Kind("pairs", "one of two processes killed or stopped", try_pair, 24, counted="kills", share=4.0, prepare=prepare),
)
