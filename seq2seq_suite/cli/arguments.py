"""Checks of the command line before anything is loaded; inputs and outputs of `predict`."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, DataError, truncate
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.files import is_stream, naming, parse_json, stream_lines

if TYPE_CHECKING:
    from seq2seq_suite.tasks.base import Task

PROGRAM = "python -m seq2seq_suite"


def open_streams() -> None:
    """Replace closed standard streams (None in Python) by an empty file; write UTF-8."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  open as long as the process
        elif hasattr(getattr(sys, name), "reconfigure"):
            errors = "surrogateescape" if mode == "r" else "backslashreplace"
            with suppress(OSError):  # of a stream that was replaced below Python
                getattr(sys, name).reconfigure(encoding="utf-8", errors=errors)


def without_middles(text: str, most: int = 1000) -> str:
    """A message with its lines cut to about `most` characters.

    >>> without_middles("short\\nabcdefgh: no such file", most=16)
    'short\\nabcdefgh ... uch file'
    """
    return "\n".join(
        line if len(line) <= most else f"{line[: most // 2]} ... {line[-(most // 2) :]}" for line in text.split("\n")
    )


@dataclass
class Inputs:
    """Inputs with the file and line of each; lines of a file are read lazily.

    Args:
        texts: from the command line; empty for lines of `source`.
        source: a file's name; None or - for standard input.
        ends: whether empty lines at the end of a source are inputs.
    """

    texts: Sequence[str]
    source: str | None
    ends: bool = False
    count: int = 0  # once all were read
    _lines: Iterator[str] | None = None

    def __post_init__(self) -> None:
        self._file = None if self.source in (None, "-") else Path(self.source)
        self._name = "standard input" if self._file is None else str(self.source)

    @staticmethod
    def of(texts: Sequence[str], source: str | None) -> Inputs | None:
        """The inputs; None where they are to be typed at a terminal."""
        if texts and source is not None:
            raise ConfigError("both TEXT and --input", file=COMMAND_LINE, expected="one of the two")
        return None if not texts and source is None and sys.stdin.isatty() else Inputs(texts, source, ends=True).look()

    @property
    def again(self) -> bool:
        """Whether they can be read twice."""
        return bool(self.texts) or (self._file is not None and not is_stream(self._file))

    def look(self) -> Inputs:
        """Read all inputs once if they can be read again, else the first line, so that mistakes show at once."""
        if self.again:
            for _ in self:
                pass
        else:
            lines = self._read()
            self._lines = chain([next(lines)], lines)
        return self

    def _read(self) -> Iterator[str]:
        return stream_lines(self._file, name=self._name, ends=self.ends)

    def __iter__(self) -> Iterator[tuple[str, tuple[str, int]]]:
        name, number = COMMAND_LINE if self.texts else self._name, 0
        lines = self.texts or self._lines or self._read()
        for number, text in enumerate(lines, 1):
            yield text, (name, number)
        self.count = number


def runs_and_texts(arguments: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The first argument, and those after it that are run directories; then all others."""
    paths = list(takewhile(lambda one: os.path.isfile(f"{one}/config.yaml"), arguments[1:]))  # long texts are no error
    return [Path(one) for one in (*arguments[:1], *paths)], list(arguments[1 + len(paths) :])


def refuse_paths(texts: Sequence[str], run: Path) -> None:
    """Raises ConfigError for an input that looks like a mistyped run, or like a file that is not there.

    A path has a separator, ASCII letters alone or a folder that is there, and no space; a name that is almost that of
    a run beside the first one is one, too.
    """
    for text in texts:
        path = Path(text)
        if re.search(r"\s", text) or "\0" in text or (os.path.exists(path) and not os.path.isdir(path)):
            continue
        beside = [str(one.parent) for one in run.parent.glob("*/config.yaml")] if path.parent == run.parent else []
        near = difflib.get_close_matches(str(path), beside, n=1, cutoff=0.8)
        named = os.sep in text and (os.path.isdir(path.parent) or re.fullmatch(r"[/\w.+=~-]*", text, re.ASCII))
        if near or named:
            hint = f", did you mean {near[0]}?" if near else ""
            raise ConfigError(
                f"{truncate(text)} is neither a run nor a file{hint}",
                file=COMMAND_LINE,
                expected="runs, then inputs",
                remedy="correct the path; if it is a text, give it on "
                f"standard input: echo TEXT | {PROGRAM} predict {run}",
            )


def in_columns(line: str, place: tuple[str, int]) -> tuple[str, str]:
    """Source and beginning of the output in a line of jsonl, as in a run's predictions/*.jsonl; raises DataError.

    >>> in_columns('{"source": "the cat", "begin": "die"}', ("in.jsonl", 1)), in_columns('{"source": "a dog"}', ("", 1))
    (('the cat', 'die'), ('a dog', ''))
    """
    row = parse_json(line, file=place[0], line=place[1]) if line.strip() else {"source": ""}
    source, begin = (row.get("source"), row.get("begin") or "") if isinstance(row, dict) else (None, "")
    if not (isinstance(source, str) and isinstance(begin, str)):
        raise DataError(
            f"no text in {'begin' if isinstance(source, str) else 'source'}",
            file=place[0],
            line=place[1],
            expected='{"source": "..."}, and optionally "begin": "..."',
            remedy="name the column so, or write an input on each line of a .txt file",
        )
    return source, begin


def texts_and_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Inputs, and what is `key=value` with a key of some section; such an input can come from --input."""
    if not any("=" in argument for argument in arguments):
        return list(arguments), []
    from seq2seq_suite.config.config_file import is_override
    from seq2seq_suite.config.schema import of_any_task

    sections = of_any_task().model_fields
    overrides = [one for one in arguments if is_override(one) and re.split(r"[.=]", one)[0] in sections]
    return [one for one in arguments if one not in overrides], overrides


def check_drawing(task: Task, examples: Sequence[Example]) -> None:
    """Raises ConfigError where there is no picture, or more than one, to draw into."""
    if not task.presentation.draws:
        raise ConfigError(
            f"--draw, but the run's task is {task.name}",
            file=COMMAND_LINE,
            expected="a run that detects objects in pictures, such as runs/detection",
            remedy="leave out --draw",
        )
    if len(examples) != 1:
        raise ConfigError(
            f"--draw with {len(examples)} inputs",
            file=COMMAND_LINE,
            expected="one input",
            remedy="call it once for each picture",
        )


def check_targets(targets: Mapping[str, Path | None]) -> None:
    """Raises ConfigError, before anything is computed, if a file of an option cannot be written."""
    for option, path in targets.items():
        if path is None:
            continue
        try:
            os.stat(path.parent)  # reports what is wrong with a name, unlike `exists`
            with suppress(FileNotFoundError):
                os.stat(path)
            writable = os.access(path if path.exists() else path.parent, os.W_OK)
            got = "this is a folder" if path.is_dir() else "" if writable else "no permission to write it"
        except OSError as error:
            got = error.strerror
        if got:
            raise ConfigError(
                f"{option} {truncate(str(path), 255)}: {got}",
                file=COMMAND_LINE,
                expected="a file in a folder that is there",
                remedy="choose another name",
            )


def short_of_memory(error: Exception) -> str:
    """A short message for lack of memory; empty for other errors.

    >>> short_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes"))[:42]
    'there is not enough memory for 64 bytes: a'
    """
    text = str(error)
    if not isinstance(error, MemoryError) and not re.search(
        "(?i)out of memory|(can't|unable to|cannot) allocate|allocation failed|calculation overflowed", text
    ):
        return ""
    size = re.search(r"(?i)allocate ([\d.]+ [a-z]+)", text)
    return (
        f"there is not enough memory{f' for {size.group(1)}' if size else ''}: a smaller backbone, "
        "training.batch_tokens, search.batch_sentences or search.beam_size takes less"
    )


@contextmanager
def opened(path: Path | None) -> Iterator[TextIO]:
    """A file to write to, or standard output."""
    if path is None:
        yield sys.stdout
        return
    with naming(path), path.open("w", encoding="utf-8") as file:
        yield file


@contextmanager
def muted(quiet: bool) -> Iterator[None]:
    """Print nothing to standard output meanwhile, if so asked."""
    with open(os.devnull, "w", encoding="utf-8") as devnull, redirect_stdout(devnull if quiet else sys.stdout):
        yield


def yamls_and_overrides(arguments: Sequence[str], *, most: int = sys.maxsize) -> tuple[list[Path], list[str]]:
    """The YAML files among the arguments, at most so many, and the overrides; raises ConfigError."""
    from seq2seq_suite.config.config_file import is_override

    paths = [find_yaml(argument) for argument in arguments if not is_override(argument)]
    if not paths:
        raise ConfigError(
            "the YAML file is missing",
            file=COMMAND_LINE,
            expected="YAML [key=value ...]",
            remedy="for example the preset parsing; `tasks` lists them",
        )
    if len(paths) > most or len(set(paths)) < len(paths):
        raise ConfigError(
            f"{len(paths)} files: {truncate(' '.join(map(str, paths)))}",
            file=COMMAND_LINE,
            expected="different YAML files" if most > 1 else "one YAML file, then key=value",
            remedy="start one after the other, with --output; write key=value without spaces",
        )
    return paths, list(filter(is_override, arguments))


def find_yaml(name: str) -> Path:
    """The file that a name stands for; says so if it hides a preset of that name."""
    from seq2seq_suite.config.config_file import find, preset

    path, hidden = find(name), preset(name)
    if hidden is not None and path.resolve() != hidden.resolve():
        print(f"{path} of this folder, not the preset of the same name", file=sys.stderr)
    return path


def only_overrides(arguments: Sequence[str]) -> list[str]:
    """The arguments, all of them overrides; raises ConfigError."""
    from seq2seq_suite.config.config_file import is_override

    for argument in arguments:
        if not is_override(argument):
            raise ConfigError(
                truncate(argument), file=COMMAND_LINE, expected="key=value", remedy="such as search.beam_size=4"
            )
    return list(arguments)


def directories_of(paths: Sequence[Path], output: Path | None) -> list[Path]:
    """Where each YAML file's run goes: several go into directories of their own below --output."""
    if len(paths) == 1 and output is not None:
        return [output]
    return [(output or Path("runs")) / path.stem for path in paths]
