"""The worker's process, started before this one has imported torch, so that both import it at the same time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

WORKER = Path(__file__).with_name("worker.py")
FORKS = hasattr(os, "fork") and hasattr(socket, "send_fds")


class Launched:
    """A worker that forks for each request that comes by `control`."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair()
        self.control.settimeout(120)
        with theirs:
            self._folder, self.process = launch(
                [str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """End the process."""
        self.control.close()
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()


def launch(
    arguments: list[str], *, stdin: int, stdout: int, pass_fds: Sequence[int] = ()
) -> tuple[tempfile.TemporaryDirectory[str], subprocess.Popen[bytes]]:
    """A worker in an empty folder, with next to nothing of this process's environment."""
    folder = tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True)
    environment = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG") if name in os.environ}
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HOME": folder.name}
    process = subprocess.Popen(
        [sys.executable, "-I", str(WORKER), *arguments],
        env=environment,
        cwd=folder.name,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        pass_fds=pass_fds,
    )
    return folder, process
