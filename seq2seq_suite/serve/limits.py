"""Limits of a server, and the errors that it answers beyond them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seq2seq_suite.common.errors import UserError

MOST_OUTPUTS = 20  # of one input
MOST_INSPECTED = {"text": 300, "question": 300, "picture": 1600, "sound": 1600}  # positions: attention has their square
MOST_PIXELS = 25_000_000  # of a picture
PICTURES = ("PNG", "JPEG", "WEBP", "GIF", "BMP")  # formats that are read; none of them runs anything


@dataclass(frozen=True)
class Limits:
    """Bounds of a request.

    Args:
        text: characters of a text.
        megabytes: of a file of sound or a picture.
        seconds: from the first byte to the answer.
        queue: requests that wait or are computed.
        rate: requests a second, all clients together.
    """

    text: int = 20_000
    megabytes: float = 16.0
    seconds: float = 30.0
    queue: int = 32
    rate: float = 200.0

    @property
    def body(self) -> int:
        """Bytes of a request in JSON: a character has at most twelve, written as two escapes."""
        return 12 * self.text + 4096

    @property
    def file(self) -> int:
        """Bytes of a file."""
        return int(self.megabytes * 2**20)


class Refused(Exception):
    """A request that is not answered.

    Args:
        status: of HTTP.
        what: was wrong.
        expected: what would be right.
        remedy: what to do.
    """

    def __init__(self, status: int, what: str, *, expected: str = "", remedy: str = ""):
        super().__init__(what)
        self.status, self.what, self.expected, self.remedy = status, what, expected, remedy

    @classmethod
    def of(cls, error: UserError) -> Refused:
        """An input that a run does not take."""
        return cls(422, error.got, expected=error.expected, remedy=error.remedy)

    def plain(self) -> dict[str, Any]:
        """As JSON, in the three parts that messages of the command line have."""
        return {"error": {"what": self.what, "expected": self.expected, "remedy": self.remedy}}


class Rate:
    """Lets so many requests a second pass, and as many at once after a pause.

    >>> clock = iter([0.0, 0.0, 0.0, 0.5])
    >>> rate = Rate(2.0, clock=lambda: next(clock))
    >>> rate.passes(), rate.passes(), rate.passes()
    (True, True, True)
    """

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic):
        self.rate, self.most, self._clock = rate, max(1.0, rate), clock
        self._left, self._last, self._lock = self.most, clock(), threading.Lock()

    def passes(self) -> bool:
        """Whether one more passes now."""
        with self._lock:
            now = self._clock()
            self._left = min(self.most, self._left + (now - self._last) * self.rate)
            self._last = now
            if self._left < 1.0:
                return False
            self._left -= 1.0
            return True

    @property
    def pause(self) -> int:
        """Seconds after which one more passes, for `Retry-After`."""
        return max(1, math.ceil(1.0 / self.rate))
