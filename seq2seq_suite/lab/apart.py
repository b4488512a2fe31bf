"""Grading in processes of their own: whatever a submission does to one, the others go on in another.

`python -m seq2seq_suite.lab.apart` reads a request on each line and writes a grade on each, both JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from zlib import crc32

from seq2seq_suite import __version__
from seq2seq_suite.common.errors import UserError
from seq2seq_suite.common.files import atomic_write_text, to_json
from seq2seq_suite.common.processes import pipes
from seq2seq_suite.lab.folder import printable
from seq2seq_suite.lab.grades import Grade, from_plain, to_plain

SECONDS = 1800.0  # of a submission; laws and runs have limits of their own


class Graders:
    """Processes that grade, so many at a time.

    Args:
        kept: a folder that holds each grade from the moment that it is known.
        results: a file that is written after each part, for a single submission.
    """

    def __init__(self, jobs: int, seed: int, kept: Path | None = None, results: Path | None = None):
        self._asked = {"seed": seed, "kept": str(kept or ""), "results": str(results or "")}
        self._idle: SimpleQueue[_Grader] = SimpleQueue()
        self._all = [_Grader() for _ in range(jobs)]
        self._threads = ThreadPoolExecutor(jobs)
        for one in self._all:
            self._idle.put(one)
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)

    def each(self, paths: Sequence[Path]) -> Iterator[Grade]:
        """A grade for each file or folder handed in, in their order."""
        stems = Counter(_stem(path) for path in paths)
        names = [_stem(path) if stems[_stem(path)] == 1 else path.name for path in paths]
        return self._threads.map(self._grade, paths, names)

    def _grade(self, path: Path, name: str) -> Grade:
        grader = self._idle.get()
        try:
            return grader.grade(path, printable(name), self._asked)
        finally:
            self._idle.put(grader)

    def __enter__(self) -> Graders:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for one in self._all:
            one.close()


class _Grader:
    """One process, started when it is needed; another where it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._late = self._closed = False

    def grade(self, path: Path, name: str, asked: Mapping[str, Any]) -> Grade:
        """A grade, with a problem where the process ended or had no answer in time."""
        line = b""
        self._late = False
        with suppress(OSError, ValueError):  # ValueError: closed meanwhile
            if self._process is None and not self._closed:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "seq2seq_suite.lab.apart"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            timer = threading.Timer(SECONDS, self._give_up)
            timer.start()
            try:
                if process := self._process:
                    requests, replies = pipes(process)
                    requests.write(f"{json.dumps({**asked, 'path': str(path), 'name': name})}\n".encode())
                    requests.flush()
                    line = replies.readline()
            finally:
                timer.cancel()
        with suppress(ValueError):
            return from_plain(json.loads(line))
        code = self._end()
        return Grade(
            name,
            asked["seed"],
            problem=f"no answer in {SECONDS:g} s"
            if self._late
            else (f"its grading ended with {signal.strsignal(-code) if code < 0 else f'exit code {code}'}"),
        )

    def _give_up(self) -> None:
        self._late = True
        self._end()

    def _end(self) -> int:
        """End the process and what it started; its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
        for stream in pipes(process):
            with suppress(OSError):
                stream.close()
        return process.wait()

    def close(self) -> None:
        self._closed = True
        self._end()


def _stem(path: Path) -> str:
    return path.name if path.is_dir() else path.stem


def seed_of(kept: Path | None) -> int | None:
    """The seed of the grades that are kept in a folder, None where there are none."""
    for file in sorted(kept.glob("*.json")) if kept is not None else ():
        with suppress(OSError, ValueError, KeyError):
            return int(json.loads(file.read_text(encoding="utf-8"))["seed"])
    return None


def _graded(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Open and grade a submission, or take what is kept of it."""
    from seq2seq_suite.lab import gradescope, grading, submitting

    def tell(grade: Grade) -> None:
        atomic_write_text(Path(asked["results"]), to_json(gradescope.results(grade), indent=1))

    name, seed = asked["name"], asked["seed"]
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as scratch:
        submission = submitting.opened(Path(asked["path"]), name, Path(scratch))
        kept = Path(asked["kept"]) / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)[:60]}-{crc32(name.encode()):08x}.json"
        key = _digest(submission.folder, f"{__version__} {_laws()} {seed} {name}") if submission.folder else ""
        if asked["kept"] and key:
            with suppress(OSError, ValueError, KeyError, TypeError, StopIteration, UserError):
                found = json.loads(kept.read_text(encoding="utf-8"))
                if found.pop("key") == key:
                    return to_plain(from_plain(found))
        found = to_plain(grading.grade_one(submission, seed=seed, tell=tell if asked["results"] else None))
        if asked["kept"] and key:
            atomic_write_text(kept, to_json({"key": key, **found}, indent=1))
        return found


@cache
def _laws() -> str:
    return _digest(Path(__file__).parent, "")


def _digest(folder: Path, also: str) -> str:
    """Of all files of a folder."""
    whole = hashlib.sha256(also.encode())
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            whole.update(f"\0{file.relative_to(folder)}\0{file.stat().st_size}\0".encode(errors="replace"))
            whole.update(file.read_bytes())
    return whole.hexdigest()


def main() -> None:
    """Answer each request; nothing else gets to standard output."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            found = _graded(asked)
        except Exception as error:  # a submission may hold anything; the others go on
            found = to_plain(
                Grade(
                    asked["name"],
                    asked["seed"],
                    problem=printable(f"its grading failed: {type(error).__name__}: {error}"),
                )
            )
        answers.write(f"{json.dumps(found)}\n")
        answers.flush()


if __name__ == "__main__":
    main()
