"""The one thread in which models compute, and the queue before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from seq2seq_suite.common.errors import RunError
from seq2seq_suite.serve.limits import Refused

Result = TypeVar("Result")


class Worker:
    """Computes one request after the other: two models at a time would lengthen each other's milliseconds.

    Args:
        queue: most requests that wait or are computed.
        seconds: longest time from the request to its answer.
    """

    def __init__(self, *, queue: int, seconds: float):
        self.queue, self.seconds, self.waiting = queue, seconds, 0
        self._pool, self._lock = ThreadPoolExecutor(1, thread_name_prefix="models"), threading.Lock()
        self._ended: asyncio.Future[None] | None = None

    async def result(self, work: Callable[[], Result]) -> Result:
        """What `work` returns.

        Raises:
            Refused: the queue is full, or it takes too long; work that has begun goes on to its end, other is dropped.
        """
        with self._lock:
            if self.waiting >= self.queue:
                raise Refused(
                    503,
                    f"{self.waiting} requests are waiting",
                    expected=f"at most {self.queue}",
                    remedy="ask again in a moment, or start the server with a larger --queue",
                )
            self.waiting += 1
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        future: Future[Result] = self._pool.submit(_guarded, work)
        future.add_done_callback(self._done)
        answer = asyncio.wrap_future(future)
        await asyncio.wait((answer, self._ended), timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        if self._ended.done():
            raise Refused(503, "the server is shutting down", expected="a running server", remedy="start it again")
        raise Refused(
            503,
            f"no answer within {self.seconds:g} seconds",
            expected="a shorter input, or less to do",
            remedy="ask again, or start the server with a larger --seconds",
        )

    def first(self, work: Callable[[], Result]) -> Result:
        """What `work` returns, before there are requests."""
        self.waiting = 1
        future = self._pool.submit(work)
        future.add_done_callback(self._done)
        return future.result()

    @property
    def computes(self) -> bool:
        """Whether something that was begun has not ended."""
        return self.waiting > 0

    def end(self) -> None:
        """Answer all that wait that the server ends; from the thread that answers."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def close(self) -> None:
        """Drop what waits; what is being computed ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, _: Future[Any]) -> None:
        with self._lock:
            self.waiting -= 1


def _guarded(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except Exception:
        raise
    except BaseException as error:  # a user's code may raise SystemExit, which would end the server
        raise RunError(f"the run's code ends in {type(error).__name__}: {error}") from error
