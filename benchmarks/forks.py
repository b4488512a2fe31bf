"""Work in copies of a project: each piece in a fork of this process, which has paid for the imports of PyTorch and the
like, and in a copy of its own. Nothing is written into the project itself.
"""

from __future__ import annotations

import ast
import compileall
import contextlib
import importlib
import json
import os
import py_compile
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Task = TypeVar("Task")
_MOST_MEMORY = 6 * 2**30  # bytes: a mutant that never stops growing must not take the machine with it


@dataclass(frozen=True)
class Project:
    """A copy to make copies of.

    Args:
        root: the project itself, which is only read.
        package: the folder of what is mutated.
        folder: where copies lie; one of them, `clean`, with its modules compiled.
    """

    root: Path
    package: str
    folder: Path

    @property
    def clean(self) -> Path:
        return self.folder / "clean"

    def copy(self) -> None:
        """Make the clean copy: what git knows, or everything."""
        known = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        own = (self.root / ".git").exists() and known.returncode == 0
        every = (path for path in self.root.rglob("*") if "__pycache__" not in path.parts)
        for name in known.stdout.split("\0") if own else [str(path.relative_to(self.root)) for path in every]:
            if (self.root / name).is_file():
                (self.clean / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.root / name, self.clean / name)
        # A module that has changed is known by its content: times of files are too coarse for copies.
        compileall.compile_dir(self.clean, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)

    def test_files(self) -> list[str]:
        """Files with tests, those with doctests included."""
        tests = sorted(path for path in (self.clean / "tests").rglob("test_*.py"))
        modules = sorted(path for path in (self.clean / self.package).rglob("*.py") if ">>> " in path.read_text())
        return [str(path.relative_to(self.clean)) for path in tests + modules]

    def preload(self) -> None:
        """Import what the package and its tests import from elsewhere."""
        names, own = set(), {path.stem for path in self.clean.rglob("*") if path.suffix in ("", ".py")}
        for file in [*(self.clean / self.package).rglob("*.py"), *(self.clean / "tests").rglob("*.py")]:
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.add(node.module)
        for name in sorted(names):
            if name.partition(".")[0] not in own:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)


def in_children(
    tasks: Iterable[Task], work: Callable[[Task, Path], dict[str, Any]], project: Project, jobs: int
) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Each task with what `work` makes of it in a fork and a copy of its own; `died` says how a fork ended early."""
    running: dict[int, tuple[Task, Path]] = {}
    waiting = iter(tasks)
    try:
        while True:
            while len(running) < jobs and (task := next(waiting, None)) is not None:
                folder = Path(tempfile.mkdtemp(dir=project.folder))
                pid = os.fork()
                if not pid:
                    _child(work, task, project, folder)
                running[pid] = task, folder
            if not running:
                return
            states = (os.waitpid(pid, os.WNOHANG) for pid in running)  # of our children alone
            pid, status = next((state for state in states if state[0]), (0, 0))
            if not pid:
                time.sleep(0.02)
                continue
            task, folder = running.pop(pid)
            _end(pid)
            result = folder / "result.json"
            found = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {"died": status}
            now, log = folder / "now", folder / "log"
            found["last"] = now.read_text(encoding="utf-8") if now.exists() else ""
            found["log"] = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            shutil.rmtree(folder, ignore_errors=True)
            yield task, found
    finally:
        for pid in running:
            _end(pid)
            os.waitpid(pid, 0)


def _end(pid: int) -> None:
    """Kill a child and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _child(work: Callable[[Task, Path], dict[str, Any]], task: Task, project: Project, folder: Path) -> None:
    """The forked process: moves into a copy, works, leaves its result there."""
    os.setsid()
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        with open(os.devnull, "rb") as nothing, (folder / "log").open("wb") as log:
            os.dup2(nothing.fileno(), 0)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", 1, closefd=False), os.fdopen(2, "w", 1, closefd=False)
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
        tree, temporary = folder / "tree", folder / "tmp"
        shutil.copytree(project.clean, tree)
        temporary.mkdir()
        os.chdir(tree)
        tempfile.tempdir = None
        elsewhere = [entry for entry in sys.path if entry and Path(entry).resolve() != project.root]
        sys.path[:] = [str(tree), *elsewhere]
        sys.dont_write_bytecode = True
        os.environ |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temporary)}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and name != "__main__" and Path(file).is_relative_to(project.root):
                del sys.modules[name]
        result = work(task, tree)
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
