"""Runs the stages, each in a process of its own with a bound of time, and shows their figures on one page."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.gpu.place import replace_text
from benchmarks.machine import provenance
from seq2seq_suite.common.errors import ConfigError, DataError

DEVICES = ("cuda", "cpu", "pretended")
WORK = "work"  # in the prepared folder: logs, runs, ceilings; in the output there are seven files
_GRACE = 10.0  # seconds that a stage has to end by itself


@dataclass(frozen=True)
class Stage:
    """One of them.

    Args:
        module: of `benchmarks.gpu`, with a function of the stage's name.
        minutes: the most that it may take, of 8.5 together; others may use what it leaves.
        gigabytes: that the device must have free, or the stage does not run.
    """

    module: str
    minutes: float
    gigabytes: float


STAGES = {
    "card": Stage("card", 0.5, 4),
    "correct": Stage("correct", 1.4, 4),
    "training": Stage("speed", 2.6, 24),
    "decoding": Stage("speed", 2.0, 12),
    "runs": Stage("whole", 2.0, 8),
    "passes": Stage("whole", 1.0, 8),
    "multi30k": Stage("whole", 8.5, 8),
}


def run(options: argparse.Namespace) -> None:
    """All stages that are asked for, until the time is over.

    Raises:
        ConfigError: a stage or device of another name, no such device here, or a stage that refused to run.
        DataError: no folder.
    """
    check(options)
    output: Path = options.output
    for folder in (output, options.folder / WORK):
        folder.mkdir(parents=True, exist_ok=True)
    end, refused = time.monotonic() + 60 * options.minutes, []
    scale = options.minutes / 8.5
    for name in options.stages:
        done = output / f"{name}.json"
        if options.resume and done.exists() and json.loads(done.read_text(encoding="utf-8")).get("status") == "done":
            continue
        left = end - time.monotonic()
        if left < 1:
            print(f"{name}: no time left")
            continue
        done.unlink(missing_ok=True)
        code, tail = _in_a_process(options, name, min(left, 60 * STAGES[name].minutes * scale))
        if code == 2:
            refused.append(f"{name}: {tail}")
        _close(done, "done" if code == 0 else "out of time" if code is None else f"failed: {tail}")
        write_page(output)
    if refused:
        raise ConfigError("; ".join(refused))


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot run, before anything does."""
    if unknown := [name for name in options.stages if name not in STAGES]:
        raise ConfigError(f"--stages {','.join(unknown)}", expected=f"some of {', '.join(STAGES)}")
    if options.device not in DEVICES:
        raise ConfigError(f"--device {options.device}", expected=f"one of {', '.join(DEVICES)}")
    if not options.folder.is_dir():
        raise DataError("no such folder", file=str(options.folder), remedy="python -m benchmarks.gpu prepare FOLDER")
    if options.device == "pretended" and options.stages != ["correct"]:
        raise ConfigError("--device pretended has no speed", expected="--stages correct")
    if options.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ConfigError(
                "--device cuda: PyTorch finds none here",
                expected="a GPU and its driver",
                remedy="--device cpu --smoke tries everything on a CPU",
            )


def stage(options: argparse.Namespace) -> None:
    """The process of one stage."""
    if options.device == "pretended":
        import benchmarks.pretended_device  # noqa: F401  # before the suite
    from benchmarks.gpu.card import ask_card
    from benchmarks.gpu.place import Notes, Place

    work: Callable[[Place, Notes], None] = getattr(
        import_module(f"benchmarks.gpu.{STAGES[options.stage].module}"), options.stage
    )
    place = Place(
        options.folder,
        options.folder / WORK,
        options.device,
        options.smoke,
        time.monotonic() + 60 * options.minutes - _GRACE / 2,
    )
    notes = Notes(options.output / f"{options.stage}.json")
    place.need(STAGES[options.stage].gigabytes)
    if place.on_gpu:
        notes.add("clocks before", ask_card("clocks.sm,clocks.mem,power.draw,temperature.gpu"))
    work(place, notes)
    if place.on_gpu:
        notes.add("clocks after", ask_card("clocks.sm,clocks.mem,power.draw,temperature.gpu"))


def _in_a_process(options: argparse.Namespace, name: str, seconds: float) -> tuple[int | None, str]:
    """The exit code, None where the time was over, and the last line that was printed."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu",
        "run",
        str(options.folder),
        "--output",
        str(options.output),
        "--device",
        options.device,
        "--minutes",
        str(seconds / 60),
        "--stage",
        name,
        *(["--smoke"] if options.smoke else []),
    ]
    print(f"{name}: at most {seconds:.0f} s", flush=True)
    log = options.folder / WORK / f"{name}.log"
    with log.open("w", encoding="utf-8") as file:
        child = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        )
        try:
            code: int | None = child.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # and what it has started
            child.wait()
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    print(f"{name}: {'done' if code == 0 else 'out of time' if code is None else lines[-1:]}", flush=True)
    if code:
        print("\n".join(f"  {line}" for line in lines[-20:]), flush=True)
    return code, lines[-1] if lines else ""


def _close(file: Path, status: str) -> None:
    """Note how a stage ended; its figures stay."""
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"rows": []}
    replace_text(file, json.dumps({**known, "status": status}))


def write_page(output: Path) -> None:
    """`gpu.md`: a table for each stage so far."""
    lines = ["# On a GPU", "", *provenance(1, os.cpu_count() or 1)]
    for name in STAGES:
        file = output / f"{name}.json"
        if file.exists():
            found = json.loads(file.read_text(encoding="utf-8"))
            lines += [
                "",
                f"## {name}: {found.get('status', 'not ended')}",
                "",
                "| | | |",
                "| --- | --- | --- |",
                *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in found["rows"]),
            ]
    replace_text(output / "gpu.md", "\n".join(lines) + "\n")
