"""Interleaved measurement: systems take turns, A B C A B C, each in a new process and alone on the machine.

A process that waits for its next turn distorts the others' measurements if its OpenMP threads spin, and so does a
second library with a thread pool in the same process: after PyTorch's first product in it CTranslate2 translates at
a fifth of its speed. So a process holds one system, ends with its turn, and says which libraries it has loaded.

A round of a system is a few blocks of the same work. A round was disturbed if its blocks differ by more than 15 %, or
if other processes took more than 3 % of the machine meanwhile: it is flagged, and left out of medians as long as others
remain.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SPREAD = 0.15
OTHERS = 0.03
POOLS = ("torch", "ctranslate2")  # libraries with a pool of threads, of which a process may hold one


@dataclass
class Rounds:
    """What was measured of one system.

    Args:
        blocks: the rates of each round's blocks.
        others: the share of the machine that other processes took in each round.
    """

    blocks: list[list[float]] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    def add(self, rates: list[float], others: float) -> str:
        """Note a round; returns it in words."""
        self.blocks.append(rates)
        self.others.append(others)
        return f"{[round(rate, 1) for rate in rates]} (other processes {100 * others:.0f} %)"

    def disturbed(self) -> list[bool]:
        """Whether each round's blocks differ too much, or something else was computing."""
        return [
            max(rates) > (1 + SPREAD) * min(rates) or others > OTHERS
            for rates, others in zip(self.blocks, self.others, strict=True)
        ]

    def rates(self) -> list[float]:
        """The median rate of each round."""
        return [statistics.median(rates) for rates in self.blocks]

    def rate(self) -> float:
        """The median over quiet rounds, over all if none was quiet."""
        return statistics.median(_quiet(self.rates(), self.disturbed()))

    def ratio(self, other: Rounds) -> float:
        """The median over rounds of this system's rate by the other's."""
        ratios = [mine / theirs for mine, theirs in zip(self.rates(), other.rates(), strict=True)]
        flags = [a or b for a, b in zip(self.disturbed(), other.disturbed(), strict=True)]
        return statistics.median(_quiet(ratios, flags))

    def remark(self) -> str:
        """Rounds, and how many of them were disturbed."""
        return f"{len(self.blocks)} rounds, {sum(self.disturbed())} disturbed"


def _quiet(values: list[float], disturbed: list[bool]) -> list[float]:
    return [value for value, flag in zip(values, disturbed, strict=True) if not flag] or values


class Worker:
    """A process that measures one system: a context manager, at whose end the process has ended.

    Args:
        module: whose `--worker` mode it runs.
        task: given to it as JSON.
        threads: for OpenMP and PyTorch.

    Raises:
        RuntimeError: another measuring process is alive, or this one fails.
    """

    _alive = False

    def __init__(self, module: str, task: dict[str, Any], threads: int):
        if Worker._alive:
            raise RuntimeError("another measuring process is alive, which would disturb this one")
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16384",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, "--worker", json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.about, self.others = self._answer(), 0.0
        Worker._alive = True

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        """Let the process end."""
        self._process.stdin.close()
        self._process.wait()
        Worker._alive = False

    def ask(self, request: dict[str, Any]) -> Any:
        """The answer to a request; `others` says then which share of the machine other processes took meanwhile."""
        start, before = time.perf_counter(), self._foreign_seconds()
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._answer()
        available = (time.perf_counter() - start) * (os.cpu_count() or 1)
        self.others = min(1.0, max(0.0, self._foreign_seconds() - before) / available)  # clock ticks are coarse
        return answer

    def _foreign_seconds(self) -> float:
        """Processor seconds since the machine's start that were not this worker's; 0 where /proc does not tell."""
        try:
            user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
            own = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:
            return 0.0
        return (user + nice + system + irq + softirq + steal - sum(map(int, own))) / os.sysconf("SC_CLK_TCK")

    def _answer(self) -> Any:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a measuring process ended with code {self._process.wait()}; its message is above")
        return json.loads(line)


def serve(about: dict[str, Any], answer: Callable[[dict[str, Any]], Any]) -> None:
    """The worker's side: say what it is, then answer requests until there are no more."""
    out, sys.stdout = sys.stdout, sys.stderr  # libraries may print
    print(json.dumps({**about, "libraries": [name for name in POOLS if name in sys.modules]}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=out, flush=True)
