"""The process in which a student's code runs; it holds no reference and no law, and gives no verdict.

Started as `python -I worker.py SOCKET`: it imports torch once and is forked for each law, in a child that gives up all
it can (`sandbox`) before it reads the student's text. Without a socket (where there is no fork) it serves one part by
its standard input and output.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.abc
import importlib.util
import io
import linecache
import os
import signal
import socket
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

MOST_SAID = 2000  # characters that are kept of what the code prints
# Imported once, for all: also what a child could no longer read where Python lies in a home directory.
USUAL = (
    "bisect",
    "collections",
    "copy",
    "dataclasses",
    "enum",
    "functools",
    "heapq",
    "itertools",
    "math",
    "operator",
    "random",
    "re",
    "statistics",
    "string",
    "time",
    "typing",
    "numpy",
    "torch",
    "torch.nn.functional",
)


def neighbours() -> list[types.ModuleType]:
    """The modules beside this one that both processes need, without importing the suite."""
    here = Path(__file__).parent
    for name, folders in (("seq2seq_suite", []), ("seq2seq_suite.lab", [str(here)])):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = folders
    found = [importlib.import_module(f"seq2seq_suite.lab.{name}") for name in ("sandbox", "wire", "calling")]
    for name in [name for name in sys.modules if name.partition(".")[0] == "seq2seq_suite"]:
        del sys.modules[name]
    return found


class Said(io.TextIOBase):
    """Standard output and error of the student's code: what is printed first goes through, the rest is dropped."""

    def __init__(self, descriptor: int):
        self._descriptor, self._left = descriptor, MOST_SAID

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept, self._left = text[: self._left], max(0, self._left - len(text))
        with contextlib.suppress(OSError):
            os.write(self._descriptor, kept.encode(errors="replace"))
        return len(text)


class Code(importlib.abc.Loader):
    """The student's files, and what the lab gives them: modules made of texts, loaded when they are first imported.

    Args:
        files: name of a file -> its text, of the student.
        given: name of a function -> (name of a file, its text), of the references that other parts may use.
    """

    def __init__(self, files: dict[str, str], given: dict[str, tuple[str, str]]):
        self.files, self._given, self._references = files, given, {}
        for name, text in files.items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        lab_given = sys.modules["lab_given"] = types.ModuleType("lab_given")
        lab_given.__getattr__ = self._reference
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Python asks this of whatever finds modules."""
        return importlib.util.spec_from_loader(name, self) if f"{name}.py" in self.files else None

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the text in the module."""
        name = f"{module.__name__}.py"
        exec(compile(self.files[name], name, "exec"), module.__dict__)

    def _reference(self, name: str) -> Any:
        if name not in self._given:
            raise AttributeError(name)
        file, text = self._given[name]
        if file not in self._references:
            module = self._references[file] = types.ModuleType(f"lab_given_{Path(file).stem}")
            exec(compile(text, f"given {file}", "exec"), module.__dict__)
        return getattr(self._references[file], name)

    def place(self, frame: Any) -> tuple[str, int]:
        """File and line of the innermost frame that runs a student's text."""
        while frame is not None and frame.f_code.co_filename not in self.files:
            frame = frame.f_back
        return (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)

    def place_of(self, error: BaseException) -> tuple[str, int]:
        """The same for where an exception came from."""
        found = ("", 0)
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename in self.files:
                found = trace.tb_frame.f_code.co_filename, trace.tb_lineno
            trace = trace.tb_next
        if isinstance(error, SyntaxError) and error.filename in self.files:
            found = error.filename, error.lineno or 0
        return found


class Forbidden(Exception):
    """A function of torch was called that does the part's work."""


def forbid(names: list[str]) -> None:
    """Let functions of torch raise: under these names, and under whatever other name the same is called."""
    from torch.overrides import TorchFunctionMode

    class Barred(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            called = getattr(function, "__name__", "")
            for stem in stems:
                if stem in called:
                    raise Forbidden(f"`{stem}` is what this part is to write")
            return function(*args, **(kwargs or {}))

    stems = {name.rpartition(".")[2] for name in names} - {"grad", "backward"}
    if stems:
        Barred().__enter__()
    for name in names:
        holder, _, last = name.rpartition(".")
        owner: Any = sys.modules["torch"]
        for step in holder.split(".")[1:]:
            owner = getattr(owner, step)

        def refuse(*_: Any, __name: str = last, **__: Any) -> None:
            raise Forbidden(f"`{__name}` is what this part is to write")

        setattr(owner, last, refuse)
        if last == "backward":  # what computes all gradients, but for this one
            sys.modules["torch"].autograd.Variable._execution_engine = types.SimpleNamespace(run_backward=refuse)


def serve(read: BinaryIO, write: BinaryIO, wire: types.ModuleType, calling: types.ModuleType) -> None:
    """Load the files of the first frame, then answer calls until the stream ends."""
    import torch

    kept: list[Any] = []

    def keep(value: Any) -> int:
        kept.append(value)
        return len(kept) - 1

    def exactly(size: int) -> bytes:
        data = read.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def send(message: dict[str, Any]) -> None:
        try:
            frame = wire.pack(message, keep)
        except Exception as error:
            frame = wire.pack({"error": type(error).__name__, "text": str(error), "file": "", "line": 0})
        write.write(frame)
        write.flush()

    def failed(error: str, text: str, place: tuple[str, int]) -> dict[str, Any]:
        return {"error": error, "text": text[:1000], "file": place[0], "line": place[1]}

    job = wire.unpack(exactly)
    code = Code(job["files"], job["given"])
    leave = os._exit

    def late(_number: int, frame: Any) -> None:
        send(failed("time", "", code.place(frame)))
        leave(1)

    def ended(_status: int = 0) -> None:
        send(failed("end", "os._exit", code.place(sys._getframe(1))))
        leave(1)

    def attempt(work: Callable[[], dict[str, Any]]) -> None:
        try:
            message = work()
        except BaseException as error:
            message = failed(type(error).__name__, str(error), code.place_of(error))
        send(message)

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, job["seconds"])
    os._exit = ended
    forbid(job["forbidden"])
    attempt(lambda: {"functions": [name for name in vars(importlib.import_module(job["part"])) if name[:1] != "_"]})
    while True:
        try:
            asked = wire.unpack(exactly, kept.__getitem__)
        except EOFError:
            return

        def work(asked: dict[str, Any] = asked) -> dict[str, Any]:
            function = getattr(sys.modules[job["part"]], asked["call"])
            torch.default_generator.manual_seed(0)
            sys.modules["random"].seed(0)
            output, after, calls = calling.answer(function, asked["arguments"], asked["gradient"], asked["cotangent"])
            return {"output": output, "after": after, "calls": calls}

        attempt(work)


def child(channel: socket.socket, output: int, modules: list[types.ModuleType], seconds: float) -> None:
    """Serve one law in a forked process."""
    sandbox, wire, calling = modules
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    for number in (1, 2):
        os.dup2(output, number)
    faulthandler.enable(file=2)
    sys.stdout = sys.stderr = Said(1)
    sandbox.enter(seconds)
    with channel.makefile("rb") as read, channel.makefile("wb") as write:
        serve(read, write, wire, calling)


def holds(sandbox: types.ModuleType) -> list[str]:
    """What a child of this process would be guaranteed to be kept from."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, "\n".join(sandbox.enter(5)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        return file.read().split("\n")


def main(arguments: list[str]) -> None:
    """Fork for each request that comes by the socket: its bytes are the seconds of a law, with two descriptors."""
    modules = neighbours()
    sandbox, wire, calling = modules
    for name in USUAL:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    torch = sys.modules["torch"]
    torch.set_num_threads(1)
    frame = io.BytesIO(wire.pack({"any": torch.zeros(1)}))
    wire.unpack(frame.read)  # a first frame, since safetensors imports a part of numpy when it packs its first tensor
    if not arguments:
        with os.fdopen(os.dup(1), "wb") as write:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            serve(sys.stdin.buffer, write, wire, calling)
        return
    control = socket.socket(fileno=int(arguments[0]))
    network = sandbox.cut_network()
    control.sendall(wire.pack({"holds": [*holds(sandbox), *network]}))
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 16, 2)
        if not data:
            return
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        number = os.fork()
        if number == 0:
            with contextlib.suppress(BaseException):
                control.close()
                child(socket.socket(fileno=descriptors[0]), descriptors[1], modules, float(data))
            os.kill(os.getpid(), signal.SIGKILL)
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(b"%10d" % number)


if __name__ == "__main__":
    main(sys.argv[1:])
