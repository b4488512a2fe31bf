"""How training shows itself: a bar on a terminal, plain lines in a file or a pipe."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

_SOON = 10.0  # seconds until a line names what takes so long
_SHOWN_FIGURES, _NOTHING = 4, "n/a (no target fits)"  # of a validation, so that its line fits; of a loss

if TYPE_CHECKING:  # rich is loaded only where there is a terminal to draw on
    from rich.console import Console, RenderableType
    from rich.live import Live


class Logged:
    """Standard output that writes what is printed to a log, too, line by line.

    Args:
        stream: where it goes.
        log: called with each line that is not empty.
    """

    def __init__(self, stream: TextIO, log: Callable[[str], None]):
        self.stream, self._log, self._rest = stream, log, ""

    def write(self, text: str) -> int:
        """As a file's."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(str.strip, lines):
            self._log(line)
        return self.stream.write(text)

    def flush(self) -> None:
        """As a file's."""
        self.stream.flush()

    def around(self, stream: TextIO) -> Logged:
        """The same log around another stream, that of a spinner, say."""
        return Logged(stream, self._log)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def unlogged() -> TextIO:
    """Standard output, for what its writer logs itself."""
    return sys.stdout.stream if type(sys.stdout) is Logged else sys.stdout


@contextmanager
def preparing(what: str) -> Iterator[None]:
    """Meanwhile, show what is being done: a spinner on a terminal, elsewhere a line once it takes ten seconds.

    Under torchrun the first process alone does.
    """
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    console, outer = _terminal(), sys.stdout
    if console is None:
        line = threading.Timer(_SOON, print, (what,), {"flush": True})
        line.daemon = True
        line.start()
        try:
            yield
        finally:
            line.cancel()
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as spinner:
        spinner.add_task(what, total=None)
        with redirect_stdout(outer.around(sys.stdout)) if type(outer) is Logged else nullcontext():
            yield


class Progress:
    """Shows updates, losses, speed and time; used as a context manager around training.

    Args:
        total_updates: the limit on updates. The estimate of the time left goes by the `fraction` that `update` is
            given, which may follow a limit on time instead.
        console: a rich console to draw on; by default standard output, with a bar if that is a terminal.
    """

    def __init__(self, total_updates: int, *, console: Console | None = None):
        self.total_updates = total_updates
        self._console = console if console is not None else _terminal()
        self._live: Live | None = None
        self._started = time.monotonic()
        self._first: tuple[float, float] | None = None  # (time, fraction) of the first update seen
        self._seconds_left: tuple[float, float] | None = None  # (time, seconds left then)
        self._fraction = 0.0
        self._status = "starting"
        self._best = ""

    def __enter__(self) -> Progress:
        self._started = time.monotonic()
        if self._console is not None and self._console.is_terminal and not self._console.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=2, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._print(f"{self._status}  {_clock(time.monotonic() - self._started)} elapsed")

    def update(
        self, update: int, *, fraction: float, loss: float, tokens_per_second: float, learning_rate: float
    ) -> str:
        """Show the progress of training, and return it in words; without a terminal each call prints a line.

        Args:
            update: updates done.
            fraction: share of the run that is done, from 0 to 1, by whichever limit is nearer.
            loss: mean loss since the last call; NaN if it is of nothing.
            tokens_per_second: source and target tokens.
            learning_rate: of the last update.
        """
        now = time.monotonic()
        if self._first is None:
            self._first = (now, fraction)  # a resumed run does not begin at 0, so one point gives no speed
        elif fraction > self._first[1]:
            pace = (now - self._first[0]) / (fraction - self._first[1])
            self._seconds_left = (now, max(0.0, 1.0 - fraction) * pace)
        self._fraction = min(1.0, max(0.0, fraction))
        begin = f"update {update}/{self.total_updates}  loss {_NOTHING if math.isnan(loss) else format(loss, '.3f')}"
        self._status = f"{begin}  {tokens_per_second:,.0f} tokens/s  lr {learning_rate:.1e}"
        if self._live is None:
            self._print(f"{self._status}  {self._times()}")
        return self._status

    def validation(self, update: int, metrics: Mapping[str, Any], best: bool) -> None:
        """The first figures of a validation; the very first is the metric that decides, its best value stays there."""
        first = list(metrics.items())[:_SHOWN_FIGURES]
        figures = "  ".join(f"{name} {_figure(value)}" for name, value in first)
        self._print(f"validation at update {update}: {figures}{'  (best)' if best else ''}")
        if best and metrics:
            name, value = next(iter(metrics.items()))
            self._best = f"best {name} {_figure(value)}"

    def _print(self, text: str) -> None:
        if self._console is None:
            print(text, file=unlogged(), flush=True)
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _times(self) -> str:
        now = time.monotonic()
        elapsed = f"{_clock(now - self._started)} elapsed"
        if self._seconds_left is None:
            return elapsed
        at, seconds = self._seconds_left
        return f"{elapsed}, about {_clock(max(0.0, seconds - (now - at)))} left"

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        bar.add_row(ProgressBar(total=1.0, completed=self._fraction), Text(f"{self._fraction:4.0%}  {self._times()}"))
        status = Text(self._status, no_wrap=True, overflow="ellipsis")
        if self._best:
            status.append(f"  {self._best}", style="green")
        return Group(bar, status)


def _terminal() -> Console | None:
    """A console on standard output if that is a terminal that can redraw lines."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "") in ("dumb", "unknown"):
        return None
    from rich.console import Console

    return Console(file=unlogged())


def _figure(value: Any) -> str:
    return str(value) if not isinstance(value, float) else "n/a" if math.isnan(value) else f"{value:.4g}"


def _clock(seconds: float) -> str:
    """A duration in hours, minutes and seconds.

    >>> _clock(72.4), _clock(3 * 3600 + 5)
    ('1:12', '3:00:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
