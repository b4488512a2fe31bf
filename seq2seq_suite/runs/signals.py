"""The signals that end a command."""

from __future__ import annotations

import os
import signal
import stat
import sys


def stopping() -> tuple[signal.Signals, ...]:
    """SIGINT, SIGTERM, and SIGHUP unless it is ignored, as under `nohup`."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,)))


def leave_terminal() -> None:
    """Discard output after the terminal has closed: writing to it would end the command before it has saved."""
    for stream in (sys.stdout, sys.stderr):
        try:
            number = stream.fileno()
        except (OSError, ValueError):  # no file
            continue
        if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(number):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)
