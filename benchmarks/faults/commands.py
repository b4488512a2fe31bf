"""Calls the suite's command line in forked children, with bounds on time and memory, and judges how each one ended."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import re
import resource
import shlex
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults import confinement

Main = Callable[[Sequence[str]], int]

SECONDS = 20.0  # within which every answer is expected, unless a case says otherwise
MEMORY = 2**31  # bytes that a command may take beyond what the fork has already
_LONGEST_LINE = 2000  # characters of a message, so that no number of 5,000 digits is shown in full
_FORK = threading.Lock()  # packages with files of their own (filelock) refuse that two threads fork at once
_KEPT = 2**20  # bytes of what a command writes that are read, from the beginning and from the end
_TRACE = re.compile(
    r"Traceback \(most recent call last\)|Exception ignored|Aborted!|Fatal Python error|core dumped"
    r"|terminate called|During handling of the above"
)


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Args:
        words: its arguments, without the program's name.
        code: the exit code, that of a shell for a signal (137 for SIGKILL); None if it did not answer in time.
        out, err: what it wrote.
        seconds: how long it took.
        memory: bytes at its peak, beyond what it began with.
    """

    words: tuple[str, ...]
    code: int | None
    out: str
    err: str
    seconds: float = 0.0
    memory: int = 0

    @property
    def command(self) -> str:
        """As it would be typed, long words shortened."""
        return " ".join(
            word if len(word) <= 200 else f"{word[:150]}...({len(word)} characters)'"
            for word in map(shlex.quote, ("python", "-m", "seq2seq_suite", *self.words))
        )


@dataclass
class Running:
    """A command that has been started.

    Args:
        words: its arguments.
        pid: of the process, which leads a group of its own.
        files: where its output and errors go.
        limit: seconds from its start after which it is killed by `wait`.
        began: the bytes of memory that it began with, written by the process itself: a fork begins without the pages
            that its parent has of files, such as those of libraries.
    """

    words: tuple[str, ...]
    pid: int
    files: tuple[io.BufferedRandom, io.BufferedRandom]
    limit: float
    began: mmap.mmap
    started: float = field(default_factory=time.monotonic)
    _ended: Ended | None = None

    def poll(self) -> Ended | None:
        """How it ended; None while it runs."""
        if self._ended is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                began = int.from_bytes(self.began[:], sys.byteorder)
                self._finish(code if code >= 0 else 128 - code, max(0, usage.ru_maxrss * 1024 - began))
        return self._ended

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the process alone, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self) -> Ended:
        """How it ended; one that does not answer is killed, and so is all that it has started."""
        pause = 0.001
        while self.poll() is None:
            if time.monotonic() - self.started > self.limit:
                self._kill_all()
                os.waitpid(self.pid, 0)
                self._finish(None, 0)
            time.sleep(pause)
            pause = min(0.02, pause * 1.5)
        self._kill_all()
        assert self._ended is not None
        return self._ended

    def _kill_all(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _finish(self, code: int | None, memory: int) -> None:
        texts = []
        for file in self.files:
            texts.append(_beginning_and_end(file))
            file.close()
        self._ended = Ended(self.words, code, texts[0], texts[1], time.monotonic() - self.started, memory)


def start(
    main: Main,
    words: Sequence[str],
    folder: Path,
    *,
    within: Path | None = None,
    stdin: bytes = b"",
    limit: float = SECONDS,
    environment: Mapping[str, str] | None = None,
    first: Callable[[], None] = lambda: None,
    output: int | None = None,
) -> Running:
    """Start a command in a forked child, which has imported already what this process has.

    Args:
        main: the command line, of arguments without the program's name, to an exit code.
        words: the arguments.
        folder: the working directory.
        within: the only folder in which it may write; by default the working directory.
        stdin: what it reads.
        limit: seconds.
        environment: additions to this process's.
        first: called in the child before anything else; may install an audit hook, or close what is open.
        output: where its standard output goes instead, a file descriptor; -1 is a closed one.
    """
    began = mmap.mmap(-1, 8)
    confinement.prepare(within or folder)
    files = tuple(tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115  the caller reads them when it has ended
    sys.stdout.flush()
    sys.stderr.flush()
    with _FORK:
        pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.setsid()
            os.chdir(folder)
            tempfile.tempdir = str(within or folder)
            os.environ.update({"TMPDIR": tempfile.tempdir, **(environment or {})})
            _take_over(files, stdin, output)
            confinement.confine(within or folder)
            sys.argv = ["seq2seq_suite", *words]
            first()
            began[:] = (_pages()[1] * resource.getpagesize()).to_bytes(8, sys.byteorder)
            code = _carry_out(main, list(words))
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    return Running(tuple(words), pid, files, limit, began)


def as_program(words: Sequence[str]) -> int:
    """A `Main` that becomes a Python of its own, as from a shell; its imports take seconds."""
    paths = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    os.execve(sys.executable, [sys.executable, "-m", "seq2seq_suite", *words], {**os.environ, "PYTHONPATH": paths})


def _take_over(files: Sequence[io.BufferedRandom], stdin: bytes, output: int | None) -> None:
    """Give this process the three standard streams, default signals and a bound on its memory."""
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        os.dup2(given.fileno(), 0)
    os.dup2(files[1].fileno(), 2)
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    if output == -1:  # what Python makes of a standard output that is closed
        os.close(1)
        sys.stdout = None
    else:
        os.dup2(files[0].fileno() if output is None else output, 1)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    bound = _pages()[0] * resource.getpagesize() + 2 * MEMORY  # addresses: threads reserve more than they use
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _pages() -> tuple[int, int]:
    """Pages of this process: addresses, and memory."""
    file = Path("/proc/self/statm")
    if not file.exists():
        return 2**20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 // resource.getpagesize()
    addresses, memory = file.read_text().split()[:2]
    return int(addresses), int(memory)


def _beginning_and_end(file: io.BufferedRandom) -> str:
    """What stands in a file, without the middle of a very long one."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    content = file.read(_KEPT)
    if size > _KEPT:
        file.seek(max(_KEPT, size - _KEPT))
        content += file.read()
    return content.decode("utf-8", errors="replace")


def _carry_out(main: Main, words: list[str]) -> int:
    """What `python -m seq2seq_suite` would do, its last words included."""
    try:
        code = main(words)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        print(traceback.format_exc(), file=sys.stderr or sys.stdout)
        code = 1
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        print(f"Exception ignored on flushing sys.stdout: {error!r}", file=sys.stderr)
        code = 120
    if sys.stderr is not None:
        sys.stderr.flush()
    return code


def faults(ended: Ended, codes: Sequence[int] = (0, 2), *, memory: int = MEMORY) -> list[str]:
    """What is wrong with an ending, whatever the command was.

    Args:
        ended: the ending.
        codes: exit codes that are right.
        memory: bytes that it may have taken.

    >>> faults(Ended(("run",), 2, "", "a.yaml:1: sed: unknown key, did you mean seed?"))
    []
    >>> faults(Ended(("run",), 1, "", "Traceback (most recent call last):\\n  ...\\nKeyError: 'kind'"))
    ["a stack trace: KeyError: 'kind'", 'exit code 1, expected 0 or 2']
    """
    if ended.code is None:
        return [f"no answer within {ended.seconds:.0f} s"]
    found, said = [], ended.out + ended.err
    if _TRACE.search(said):
        found.append(f"a stack trace: {(ended.err.strip() or said.strip()).splitlines()[-1][:300]}")
    if ended.code not in codes:
        found.append(f"exit code {ended.code}, expected {' or '.join(map(str, codes))}")
    if ended.code and ended.code < 128 and not ended.err.strip():  # what is killed says nothing
        found.append(f"exit code {ended.code} without a word")
    longest = max(map(len, ended.err.splitlines()), default=0)
    if longest > _LONGEST_LINE:
        found.append(f"a message with a line of {longest:,} characters")
    if ended.memory > memory:
        found.append(f"{ended.memory / 2**20:,.0f} MiB of memory")
    return found
