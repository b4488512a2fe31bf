"""Work on a stream of items in several processes, with results in the items' order."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from seq2seq_suite.common.errors import RunError

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(work: Callable[[Item], Result], items: Iterable[Item], count: int) -> Iterator[Result]:
    """`map(work, items)` by `count` processes; each has one item at a time, so that little is held in memory.

    The processes are forked: `work` may hold anything, and only items and results are sent. Where forking is not safe
    (macOS, Windows) or not allowed (to a daemon), and for one process, the work is done here.

    Args:
        work: must not raise, and must not use threads of this process.
        items: to work on, read as results are consumed.
        count: of processes.

    Raises:
        RunError: a process was killed.
    """
    if count == 1 or not sys.platform.startswith("linux") or multiprocessing.current_process().daemon:
        yield from map(work, items)
        return
    context, processes, busy = multiprocessing.get_context("fork"), [], deque()
    try:
        for item in items:
            result = ()
            if len(busy) == count:
                connection = busy.popleft()
                result = (connection.recv(),)
            else:
                connection, theirs = context.Pipe()
                processes.append(context.Process(target=_serve, args=(work, theirs, connection), daemon=True))
                processes[-1].start()
                theirs.close()
            connection.send(item)
            busy.append(connection)
            yield from result
        for connection in busy:
            yield connection.recv()
    except (EOFError, ConnectionError):
        raise RunError(
            "a process that encodes examples was killed, perhaps for lack of memory; the cache is as it was before"
        ) from None
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _serve(work: Callable[[Any], Any], connection: Connection, other_end: Connection) -> None:
    """Work until the other end is closed, as it also is when its process is killed."""
    other_end.close()
    gc.disable()  # rows and arrays refer to nothing in a circle, and looking for it takes a tenth of the time
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: the first one ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(EOFError, ConnectionError):
        while True:
            connection.send(work(connection.recv()))
