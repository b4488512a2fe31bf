"""Stops training by a signal, at the next safe point."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seq2seq_suite.common.errors import Interrupted
from seq2seq_suite.runs.distributed import ALONE, Ranks
from seq2seq_suite.runs.signals import leave_terminal, stopping


class StopRequest:
    """Remembers a signal until stopping is safe.

    Args:
        ranks: the processes that stop together when one of them gets a signal.
    """

    def __init__(self, ranks: Ranks = ALONE) -> None:
        self.signal = 0
        self.ranks = ranks

    def raise_if_set(self) -> None:
        """Raise Interrupted if a signal came."""
        self.signal = int(self.ranks.highest(self.signal))
        if self.signal:
            raise Interrupted(signal.Signals(self.signal).name)

    @contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Handles stop signals within; a second one acts as usual, except under torchrun."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before: dict[int, Any] = {number: signal.getsignal(number) for number in stopping()}

        def note(number: int, _frame: object) -> None:
            self.signal = number
            if number == signal.SIGHUP:
                leave_terminal()
            if self.ranks.world == 1:  # torchrun passes on a Ctrl-C that the terminal has already sent to all
                signal.signal(number, before[number])

        for number in before:
            signal.signal(number, note)
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
