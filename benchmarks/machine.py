"""The machine of a measurement, and its speed of matrix products."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

_GEMMS = ((2048, 2048, 2048), (4096, 512, 2048), (4096, 2048, 512))


def provenance(seed: int | str, threads: int) -> list[str]:
    """Lines with the provenance: machine, versions, command, seed and commit."""
    import torch

    # Only the last part of a path: reports name no folders of this machine.
    given = [_without_folder(word) for word in sys.argv[1:]]
    program = Path(sys.argv[0])
    name = program.parent.name if program.stem == "__main__" else program.stem
    command = shlex.join(["python", "-m", f"benchmarks.{name}", *given])
    return [
        f"- machine: {_processor()}, {os.cpu_count()} CPUs, {threads} threads used",
        f"- date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC; Python {platform.python_version()}, "
        f"torch {torch.__version__}",
        f"- command: `{command}`",
        f"- seed {seed}, commit {_commit()}",
    ]


def _without_folder(word: str) -> str:
    """A word of the command line, an absolute path in it, also behind `key=`, cut to its last part.

    >>> _without_folder("data.path=/srv/multi30k"), _without_folder("/srv/speed.md"), _without_folder("a/b")
    ('data.path=multi30k', 'speed.md', 'a/b')
    """
    key, sign, value = word.partition("=")
    if sign and Path(value).is_absolute():
        return f"{key}={Path(value).name}"
    return Path(word).name if Path(word).is_absolute() else word


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    known = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name} ({', '.join(known) or 'flags unknown'})"


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        ).stdout.strip()

    # The results themselves are no change of what was measured.
    changes = git("status", "--porcelain", "--", ".", "../seq2seq_suite", "../tasks", ":!results")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + " with changes" * bool(changes)


def matrix_peak(precision: str, seconds: float = 2.0) -> float:
    """Operations per second of the fastest of a few large matrix products, by their median."""
    import torch

    dtype, best = getattr(torch, precision), 0.0
    for rows, inner, columns in _GEMMS:
        left, right = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype)
        torch.nn.functional.linear(left, right)
        times, end = [], time.perf_counter() + seconds / len(_GEMMS)
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            torch.nn.functional.linear(left, right)
            times.append(time.perf_counter() - start)
        best = max(best, 2 * rows * inner * columns / statistics.median(times))
    return best


def markdown_table(header: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a table."""
    return ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]]
