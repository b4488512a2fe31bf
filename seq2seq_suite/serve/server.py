"""The server behind `serve`: it listens on 127.0.0.1 alone."""

from __future__ import annotations

import errno
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.common.lazy_imports import need
from seq2seq_suite.serve.limits import Limits

HOST = "127.0.0.1"
_BACKLOG = 128  # connections that wait to be accepted


def serve(
    directories: Sequence[Path], settings: Sequence[str], *, port: int, limits: Limits, trust_code: bool = False
) -> None:
    """Open runs and answer until Ctrl-C.

    Raises:
        ConfigError: a package is missing, the port cannot be used, or a setting is wrong.
        DataError: a directory is no run.
    """
    need("starlette", "uvicorn")
    with listening(port) as listener:  # before the runs are read: a port in use is said at once
        print(f"opening {', '.join(map(str, directories))}", flush=True)
        from seq2seq_suite.serve import connections
        from seq2seq_suite.serve.app import build
        from seq2seq_suite.serve.runs import open_runs
        from seq2seq_suite.serve.worker import Worker

        worker = Worker(queue=limits.queue, seconds=limits.seconds)
        with tempfile.TemporaryDirectory(prefix="seq2seq_suite-", ignore_cleanup_errors=True) as folder:
            try:
                runs = worker.first(
                    lambda: open_runs(directories, settings, trust_code=trust_code, folder=Path(folder))
                )
                print(
                    f"{len(runs)} {'runs are' if len(runs) > 1 else 'run is'} open: {', '.join(runs)}\n"
                    f"http://{HOST}:{listener.getsockname()[1]} (Ctrl-C ends)",
                    flush=True,
                )
                app = build(runs, worker, limits)
                server = connections.server_of(app, seconds=limits.seconds, ending=worker.end)
                server.run(sockets=[listener])
            except KeyboardInterrupt:  # the way to end it
                pass
            finally:
                worker.close()
        if worker.computes:  # Python would wait for what it cannot stop
            sys.stdout.flush()
            os._exit(0)


def listening(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1; port 0 is any that is free. Raises ConfigError if it cannot."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        got = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror or error}"
        raise ConfigError(
            f"port {port} {got}",
            file=COMMAND_LINE,
            expected="a port that is free",
            remedy="choose another with --port, or --port 0 for any that is free",
        ) from None
    return listener
