"""What `predict` reads and where it writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from seq2seq_suite.types import ConfigError, DataError, Example, Painting, Task

PROGRAM = "python -m seq2seq_suite"
COMMAND_LINE = "command line"


def read_inputs(texts: Sequence[str], source: str | None) -> list[tuple[str, tuple[str, int]]]:
    """The inputs with the file and line each came from."""
    if texts and source is not None:
        raise ConfigError("both TEXT and --input", file=COMMAND_LINE, expected="one of the two")
    if texts:
        return [(text, (COMMAND_LINE, number)) for number, text in enumerate(texts, 1)]
    if source is None and sys.stdin.isatty():
        raise ConfigError("nothing to predict from", file=COMMAND_LINE, expected="TEXT, --input FILE or a pipe",
                          remedy=f'for example {PROGRAM} predict runs/parsing "the cat sleeps"')
    name = "standard input" if source in (None, "-") else str(source)
    try:
        content = sys.stdin.buffer.read() if source in (None, "-") else Path(name).read_bytes()
        lines = content.decode("utf-8-sig").rstrip().split("\n")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=name, remedy="name a text file") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError("not UTF-8", file=name, line=line, remedy="save the file as UTF-8") from None
    return [(line.rstrip("\r"), (name, number)) for number, line in enumerate(lines, 1)]


def check_drawing(task: Task, examples: Sequence[Example]) -> None:
    """Raises ConfigError where there is no picture, or more than one, to draw into."""
    if not isinstance(task, Painting):
        raise ConfigError(f"--draw, but the run's task is {task.name}", file=COMMAND_LINE,
                          expected="a run whose outputs lie in a picture, such as runs/detection",
                          remedy="leave out --draw")
    if len(examples) != 1:
        raise ConfigError(f"--draw with {len(examples)} inputs", file=COMMAND_LINE, expected="one input",
                          remedy="call it once for each picture")


def make_example(task: Task, text: str, place: tuple[str, int]) -> Example:
    """What a line describes, `place` being its file and number; raises DataError."""
    file, line = place
    if not text.strip():
        raise DataError("the input is empty", file=file, line=line, expected="an input on each line",
                        remedy="remove the line or fill it")
    return task.from_text(text, origin=f"{file}:{line}")


@contextmanager
def opened(path: Path | None) -> Iterator[TextIO]:
    """A file to write to, or standard output."""
    if path is None:
        yield sys.stdout
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path), remedy="choose another --output") \
            from None
    with file:
        yield file
