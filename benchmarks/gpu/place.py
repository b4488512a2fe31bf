"""Where a stage measures, how it times, and where its figures go."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from seq2seq_suite.common.errors import ConfigError

Row = tuple[str, str, str]  # what was measured, the figure, and a remark


def replace_text(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    beside = file.with_suffix(".part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, file)


def allow_tf32(on: bool) -> None:
    """Products and convolutions in TF32; PyTorch's default is convolutions alone."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on


@dataclass
class Notes:
    """A stage's figures, written after each of them.

    Args:
        file: JSON.
        rows: what was measured.
    """

    file: Path
    rows: list[Row] = field(default_factory=list)

    def add(self, what: str, figure: str, remark: str = "") -> None:
        """One more; it is on the disk when this returns."""
        self.rows.append((what, figure, remark))
        print(f"{what}: {figure}  {remark}", flush=True)
        replace_text(self.file, json.dumps({"rows": self.rows}))

    def add_all(self, rows: Sequence[Row]) -> None:
        """Several of them."""
        for row in rows:
            self.add(*row)

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """A part of a stage: if it fails, its name and the error's last line are noted, and the next part begins."""
        try:
            yield
        except Exception as error:
            lines = str(error).strip().splitlines()
            self.add(what, "failed", f"{type(error).__name__}: {lines[0][:300] if lines else ''}")


@dataclass(frozen=True)
class Place:
    """Where a stage measures.

    Args:
        folder: what `prepare` wrote.
        work: for what only the stages read.
        device: cuda, cpu or pretended.
        smoke: tiny models, a second for each figure.
        end: when the stage is to end, by `time.monotonic`.
    """

    folder: Path
    work: Path
    device: str
    smoke: bool
    end: float

    @property
    def on_gpu(self) -> bool:
        """Whether there are events, kernels and memory to look at."""
        return self.device == "cuda"

    def over(self) -> bool:
        """Whether the stage's time is over."""
        return time.monotonic() > self.end

    def wait(self) -> None:
        """Until the device has done what it was given."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def need(self, gigabytes: float) -> None:
        """Raises ConfigError where the device has less memory free."""
        if self.on_gpu and (free := torch.cuda.mem_get_info()[0] / 1e9) < gigabytes:
            raise ConfigError(
                f"device: {free:.1f} GB are free", expected=f"{gigabytes:g} GB", remedy="end what else runs on it"
            )

    def seconds(self, work: Callable[[], Any], *, most: float = 1.0, least: int = 3) -> float:
        """The median time of a call, after a warm-up: by events on a GPU, by the clock on a CPU.

        Calls of less than 5 ms are timed several at once, so that an event's own time does not count.
        """
        begun, warmed = time.perf_counter(), 0
        while warmed < 2 or (self.on_gpu and time.perf_counter() < begun + most / 4):
            work()
            self.wait()
            warmed += 1
        calls = max(1, round(5e-3 * warmed / (time.perf_counter() - begun))) if self.on_gpu else 1
        times: list[float] = []
        end = time.perf_counter() + (0.1 if self.smoke else most)
        while time.perf_counter() < end or len(times) < least:
            if self.on_gpu:
                begin, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                for _ in range(calls):
                    work()
                done.record()
                done.synchronize()
                times.append(begin.elapsed_time(done) / 1e3 / calls)
            else:
                start = time.perf_counter()
                work()
                times.append(time.perf_counter() - start)
        return statistics.median(times)

    def ceiling(self, name: str) -> float | None:
        """A ceiling that the stage `card` measured; None if it did not run."""
        file = self.work / "ceilings.json"
        return json.loads(file.read_text(encoding="utf-8")).get(name) if file.exists() else None
