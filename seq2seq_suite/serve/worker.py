"""The one thread in which models compute, and the queue before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

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

    async def result(self, work: Callable[[], Result]) -> Result:
        """What `work` returns.

        Raises:
            Refused: the queue is full, or it takes too long; work that has begun goes on to its end, other is dropped.
        """
        with self._lock:
            if self.waiting >= self.queue:
                raise Refused(503, f"{self.waiting} requests are waiting", expected=f"at most {self.queue}",
                              remedy="ask again in a moment, or start the server with a larger --queue")
            self.waiting += 1
        future: Future[Result] = self._pool.submit(work)
        future.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.seconds)
        except TimeoutError:
            raise Refused(503, f"no answer within {self.seconds:g} seconds", expected="a shorter input, or less to do",
                          remedy="ask again, or start the server with a larger --seconds") from None

    def first(self, work: Callable[[], Result]) -> Result:
        """What `work` returns, before there are requests."""
        return self._pool.submit(work).result()

    def close(self) -> None:
        """Drop what waits; what is being computed ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, _: Future[Any]) -> None:
        with self._lock:
            self.waiting -= 1
