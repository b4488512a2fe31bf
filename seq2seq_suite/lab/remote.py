"""The checking process's side of the worker: a student whose functions run elsewhere."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from seq2seq_suite.common.processes import pipes
from seq2seq_suite.lab import wire
from seq2seq_suite.lab.assignment import Failed
from seq2seq_suite.lab.launch import FORKS, Launched, launch

SECONDS = 5.0  # of a law
_PATIENCE = 1.0  # seconds that a worker may be late with saying that it is late


class Remote:
    """A student in another process, for one law; a law cannot distinguish it from `InProcess`.

    Args:
        read, write: the stream to the process; `read` gives so many bytes, or raises EOFError or TimeoutError.
        said: what the code printed so far.
        seconds: after which the law is given up.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        write: Callable[[bytes], Any],
        said: Callable[[], str],
        seconds: float = SECONDS,
    ):
        self._read, self._write, self.said, self._seconds = read, write, said, seconds
        self.after: Sequence[Any] = ()
        self.calls: Sequence[tuple[str, tuple[Any, ...]]] = ()
        self.lost: Failed | None = None  # why no further call can be answered

    def begin(self, job: Mapping[str, Any]) -> list[str]:
        """Send the files; the names that the part defines."""
        return list(self._exchange({**job, "seconds": self._seconds})["functions"])

    def call(self, name: str, *arguments: Any, gradient: Sequence[int] = (), cotangent: Tensor | None = None) -> Any:
        """As `Student.call`."""
        answer = self._exchange(
            {"call": name, "arguments": list(arguments), "gradient": list(gradient), "cotangent": cotangent}
        )
        self.after, self.calls = answer["after"], [(name, tuple(values)) for name, values in answer["calls"]]
        return answer["output"]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments, **options: self.call(name, *arguments, **options)

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.lost is not None:
            raise self.lost
        try:
            self._write(wire.pack(message))
            answer = wire.unpack(self._read)
            if "error" in answer:
                failed = Failed(
                    *(str(answer[key])[:1000] for key in ("error", "text")),
                    file=str(answer["file"])[:200],
                    line=int(answer["line"]),
                )
            else:
                failed = None
                [answer[key] for key in (("output", "after", "calls") if "call" in message else ("functions",))]
        except TimeoutError:
            failed = self.lost = Failed("time")
        except (EOFError, OSError):
            failed = self.lost = Failed("end", *self._place_of_death())
        except (wire.WireError, KeyError, TypeError, ValueError) as error:
            failed = self.lost = Failed("answer", str(error))
        if failed is None:
            return answer
        if failed.error in ("time", "end"):
            self.lost = failed
        raise _in_words(failed, self._seconds)

    def _place_of_death(self) -> tuple[str]:
        where = re.search(r'File "([\w.]+)", line (\d+)', self.said())
        return (f"{where[1]}:{where[2]}" if where else "",)


def _in_words(failed: Failed, seconds: float) -> Failed:
    """The failure with a message for the student."""
    place = f"{failed.file}:{failed.line}" if failed.line else failed.text if failed.error == "end" else ""
    if place == "os._exit":
        place = ""
    ended = (
        "your code ended the process" + (f" in {place}" if place else ""),
        "你的代码结束了进程" + (f"，位置 {place}" if place else ""),
    )
    messages = {
        "time": (
            f"no answer in {seconds:g} s" + (f"; {place} was running" if place else ""),
            f"{seconds:g} 秒内没有结果" + (f"；当时正在运行 {place}" if place else ""),
        ),
        "end": ended,
        "SystemExit": ended,
        "answer": (f"the answer cannot be read: {failed.text}", f"无法读取返回值：{failed.text}"),
        "NotImplementedError": (
            f"not begun: {place} raises NotImplementedError",
            f"尚未开始：{place} 抛出 NotImplementedError",
        ),
        "Forbidden": (
            f"{place} {failed.text}",
            f"{place} {failed.text.replace('is what this part is to write', '正是这一部分要你写的')}",
        ),
    }
    if failed.error in messages:
        failed.message, failed.message_zh = messages[failed.error]
    return failed


class Workers:
    """One process with torch that is forked for each law; where there is no fork, a process for each law."""

    def __init__(self, launched: Launched | None = None, *, fork: bool = FORKS):
        self._fork, self._launched = fork, launched
        self.holds: list[str] = []  # what is guaranteed, in words

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Launched | None:
        """Start the process where none runs; returns it once it has imported torch, None where there is no fork."""
        if not self._fork:
            return None
        if self._launched is not None and not self._launched.runs:
            self.close()
        if self._launched is None:
            self._launched = Launched()
        if not self.holds:
            found = wire.unpack(_exactly(self._launched.control))["holds"]
            self.holds = [one for one in found if one] or ["time limit"]
        return self._launched

    def close(self) -> None:
        """End the process."""
        if self._launched is not None:
            self._launched.close()
        self._launched, self.holds = None, []

    @contextmanager
    def student(self, seconds: float = SECONDS) -> Any:
        """A fresh process for one law, ended with all that it started when the block is left."""
        launched = self.start()
        with self._alone(seconds) if launched is None else self._forked(launched.control, seconds) as student:
            yield student

    @contextmanager
    def _forked(self, control: socket.socket, seconds: float) -> Any:
        ours, theirs = socket.socketpair()
        output, said = os.pipe()
        for descriptor in (output, said):
            os.set_blocking(descriptor, False)
        number = 0
        try:
            socket.send_fds(control, [f"{seconds:6.2f}".encode()], [theirs.fileno(), said])
            theirs.close()
            os.close(said)
            number = int(_exactly(control)(10))
            end = time.monotonic() + seconds + _PATIENCE
            text = bytearray()

            def read_said() -> str:
                with contextlib.suppress(BlockingIOError):
                    text.extend(os.read(output, 4 * 2000))
                return text.decode(errors="replace")

            yield Remote(_exactly(ours, end), ours.sendall, read_said, seconds)
        finally:
            ours.close()
            os.close(output)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if number:
                    os.kill(number, signal.SIGKILL)
                    os.killpg(number, signal.SIGKILL)

    @contextmanager
    def _alone(self, seconds: float) -> Any:
        folder, process = launch([], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        requests, replies = pipes(process)
        timer = threading.Timer(60, process.kill)  # importing torch may take long
        late = threading.Event()

        def write(frame: bytes) -> None:
            requests.write(frame)
            requests.flush()

        def read(size: int) -> bytes:
            data = replies.read(size)
            if len(data) < size:
                raise TimeoutError if late.is_set() else EOFError
            return data

        def begin(job: Mapping[str, Any]) -> list[str]:
            nonlocal timer
            found = Remote.begin(student, job)
            timer.cancel()
            timer = threading.Timer(seconds + _PATIENCE, lambda: (late.set(), process.kill()))
            timer.start()
            return found

        timer.start()
        student = Remote(read, write, str, seconds)
        student.begin = begin
        try:
            yield student
        finally:
            timer.cancel()
            process.kill()
            with contextlib.suppress(OSError, io.UnsupportedOperation):
                process.communicate()
            folder.cleanup()


def _exactly(channel: socket.socket, end: float = 0.0) -> Callable[[int], bytes]:
    """Reads so many bytes, until a time of the monotonic clock."""

    def read(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            if end:
                channel.settimeout(max(0.001, end - time.monotonic()))
                if time.monotonic() > end:
                    raise TimeoutError
            piece = channel.recv(min(size - len(data), 2**20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    return read
