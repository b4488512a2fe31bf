"""Rerun published figures, and say which lie outside their tolerance.

    python -m benchmarks.verify --list
    python -m benchmarks.verify --minutes 20
    python -m benchmarks.verify --only parsing-f1 translation-dictionary

`figures.yaml` beside this file has a row for each figure of README.md and benchmarks/README.md. A random sample is
rerun, as many figures as fit into the minutes; of a mean of seeds, one seed. Data are read from `$S2S_SHARED/data`.
What a command wrote stays in `--output`: a second call trains nothing again, and resumes what was stopped. Minutes are
those of the file, on two free CPU threads: a slower machine takes longer.

Exit code: 0 all within, 1 a figure outside or a command that failed, 2 a mistake on the command line or in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmarks.machine import _commit, markdown_table
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.files import atomic_write_text
from seq2seq_suite.common.lazy_imports import _EXTRAS

_OF_ANOTHER_RUN = 4.303 * (4 / 3) ** 0.5  # Student's t of three seeds, 95 %, and one run more beside their mean
FIGURES = Path(__file__).with_name("figures.yaml")
BETWEEN = "baseline", "ceiling"  # of each split, read as the figures of two more


class Row(BaseModel):
    """A row of the file, in which an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Command(Row):
    """What gives figures: words behind `python -m`, minutes of its own, seeds and commit of the published figures."""

    command: str
    minutes: float
    seeds: list[int] = Field(min_length=1)
    commit: str
    extra: Literal["", "speech", "vision", "summarisation"] = ""

    @property
    def parents(self) -> list[str]:
        """Names of the commands whose folders the line names."""
        return [name for name in re.findall(r"\{([\w-]+)\}", self.command) if name not in ("data", "folder", "seed")]

    @property
    def folders(self) -> list[str]:
        """Data folders that the line names."""
        return re.findall(r"\{data\}/([\w-]+)", self.command)


class Figure(Row):
    """A published figure, as figures.yaml explains."""

    metric: str
    value: float
    quotes: list[str] = Field(min_length=1)
    command: str = ""
    read: str = ""
    tolerance: float | Literal["digit", "seeds"] = "digit"
    why: str = ""
    interval: tuple[float, float] | None = None
    deviation: float | None = None
    each: list[float] = []
    counts: list[float] = []
    source: str = ""
    missing: str = ""

    @model_validator(mode="after")
    def _complete(self) -> Figure:
        if sum(map(bool, (self.command and self.read, self.source, self.missing))) != 1:
            raise ValueError("expected command and read, or source, or missing")
        if self.tolerance == "seeds" and self.interval is None and self.deviation is None:
            raise ValueError("tolerance: seeds needs an interval or a deviation")
        if not isinstance(self.tolerance, str) and not self.why:
            raise ValueError("a tolerance that is a number needs why")
        try:
            groups = re.compile(self.read).groups
        except re.error as error:
            raise ValueError(f"read: {error}") from None
        if groups != ("(" in self.read):
            raise ValueError(f"read: got {groups} groups, expected one around the figure")
        return self

    @property
    def margin(self) -> float:
        """The largest difference of a rerun that agrees."""
        if self.tolerance == "digit":
            return 0.5 * 10.0 ** -len(f"{self.value:g}".partition(".")[2])
        if self.tolerance == "seeds":
            low, high = self.interval or (0.0, _OF_ANOTHER_RUN * self.deviation)
            return high - low
        return self.tolerance

    def quoted(self) -> Iterator[tuple[str, str, str]]:
        """Page, beginning of the table's row (empty in prose), and words of each quote."""
        for quote in self.quotes:
            page, *row, text = quote.split(" | ")
            yield page, "".join(row), text


class Figures(Row):
    """The file."""

    commands: dict[str, Command]
    figures: dict[str, Figure]

    @model_validator(mode="after")
    def _known(self) -> Figures:
        named = [(f"commands.{name}", parent) for name, one in self.commands.items() for parent in one.parents]
        named += [(f"figures.{name}", one.command) for name, one in self.figures.items() if one.command]
        for place, name in named:
            if name not in self.commands:
                raise ValueError(f"{place}: no command is named {name}")
        return self

    def line_of_runs(self, name: str) -> list[str]:
        """A command behind those whose runs it reads."""
        return list(
            dict.fromkeys([*(one for parent in self.commands[name].parents for one in self.line_of_runs(parent)), name])
        )


def read_figures(path: Path) -> Figures:
    """Read and check the file.

    Raises:
        ConfigError: it cannot be read, or a row is wrong.
    """
    try:
        return Figures.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{place}{': ' * bool(place)}{first['msg']}", file=str(path)) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(" ".join(str(error).split()), file=str(path)) from None


class Runs:
    """Commands that have run, or run now, in one folder, each with one of its seeds.

    Args:
        folder: each run has a folder there, its output (`.txt`) and what is known of it (`.json`).
    """

    def __init__(self, folder: Path, figures: Figures):
        self.folder, self.figures = folder.resolve(), figures

    def place(self, name: str, seed: int, ending: str = "") -> Path:
        """The command's folder, or a file beside it."""
        return self.folder / f"{name}-{seed}{ending}"

    def words(self, name: str, seed: int) -> list[str]:
        """The command line behind `python -m`."""
        command = self.figures.commands[name]
        parents = {parent: str(self.place(parent, seed)) for parent in command.parents}
        words = [
            word.format(data=data_folder(), folder=self.place(name, seed), seed=seed, **parents)
            for word in shlex.split(command.command)
        ]
        if words[:2] == ["seq2seq_suite", "run"]:
            words += [f"seed={seed}", "--output", str(self.place(name, seed))]
        return words

    def record(self, name: str, seed: int) -> dict[str, Any] | None:
        """What is known of a finished run of this very command."""
        file = self.place(name, seed, ".json")
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        return found if found and found["command"] == self.words(name, seed) else None

    def run(self, name: str, seed: int) -> bool:
        """Run it unless it has run; whether it ended well."""
        if self.record(name, seed) is not None:
            return True
        words, folder = self.words(name, seed), self.place(name, seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        if words[:2] == ["seq2seq_suite", "run"]:
            if (folder / "checkpoints").is_dir():
                words = [*words, "--resume"]
            else:
                shutil.rmtree(folder, ignore_errors=True)
        print(
            f"{name}, some {self.figures.commands[name].minutes:g} minutes: python -m {shlex.join(words)}",
            file=sys.stderr,
            flush=True,
        )
        started = time.monotonic()
        with open(self.place(name, seed, ".txt"), "w", encoding="utf-8") as stream:
            ended = subprocess.run([sys.executable, "-m", *words], stdout=stream, stderr=stream, check=False).returncode
        if ended in (130, -signal.SIGINT):
            raise KeyboardInterrupt
        if ended:
            return False
        # A later `evaluate` of the run writes its own figures into the run's summary.
        file = folder / "summary.json"
        summary = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        record = {
            "command": self.words(name, seed),
            "seconds": round(time.monotonic() - started, 1),
            "commit": _commit(),
            "splits": {**summary["splits"], **{name: summary.get(name, {}) for name in BETWEEN}} if summary else None,
        }
        atomic_write_text(self.place(name, seed, ".json"), json.dumps(record, indent=1) + "\n")
        return True

    def read(self, figure: Figure, seed: int) -> float | None:
        """The figure from the command's summary or output; None where it is not."""
        output = self.place(figure.command, seed, ".txt").read_text(encoding="utf-8")
        if "(" in figure.read:
            found = re.findall(figure.read, output, re.MULTILINE)
            return float(found[0]) if len(found) == 1 else None
        _, minus, key = figure.read.rpartition("100 - ")
        split, _, metric = key.partition(".")
        splits = (self.record(figure.command, seed) or {}).get("splits")
        if splits is None:  # `evaluate --json`, behind what it said before
            start = re.search(r"^\{", output, re.MULTILINE)
            splits = json.JSONDecoder().raw_decode(output, start.start())[0]["splits"] if start else {}
        value = splits.get(split, {}).get(metric)
        return None if value is None else 100.0 - value if minus else value


def data_folder() -> str:
    """Where data folders are."""
    return str(Path(os.environ.get("S2S_SHARED", "path/to")) / "data")


def lacking(commands: Sequence[Command]) -> str:
    """What the commands need and this machine has not; empty if nothing."""
    for command in commands:
        for folder in command.folders:
            if not (Path(data_folder()) / folder).is_dir():
                return f"for want of $S2S_SHARED/data/{folder}"
        if command.extra and any(find_spec(package) is None for package in _EXTRAS[command.extra]):
            return f"for want of the extra {command.extra}"
    return ""


def choose(figures: Figures, wanted: Sequence[str], minutes: float, sample: int) -> tuple[dict[str, int], Counter[str]]:
    """A random sample whose commands fit into the minutes.

    Returns:
        Figure -> the seed that is rerun, in the order of the file; and why others are left out, counted.
    """
    names, rng = list(dict.fromkeys(wanted or figures.figures)), Random(sample)
    rng.shuffle(names)
    place = rng.random()  # the same for all, so that figures of one command share a run
    taken: dict[tuple[str, int], float] = {}
    seeds: dict[str, int] = {}
    left: Counter[str] = Counter()
    for name in names:
        figure = figures.figures[name]
        if not figure.command:
            left["that others published" if figure.source else "that no command here gives"] += 1
            continue
        line, published = figures.line_of_runs(figure.command), figures.commands[figure.command].seeds
        seed = published[int(place * len(published))]
        new = {(one, seed): figures.commands[one].minutes for one in line if (one, seed) not in taken}
        if what := lacking([figures.commands[one] for one in line]):
            left[what] += 1
        elif sum(taken.values()) + sum(new.values()) > minutes:
            left["that do not fit into the minutes"] += 1
        else:
            taken |= new
            seeds[name] = seed
    return {name: seeds[name] for name in figures.figures if name in seeds}, left


def verify(figures: Figures, seeds: Mapping[str, int], runs: Runs) -> tuple[list[list[str]], int]:
    """A row for each figure, and how many are not within their tolerance."""
    rows, wrong = [], 0
    failed: set[tuple[str, int]] = set()
    kept = {
        (figures.figures[name].command, seed): runs.record(figures.figures[name].command, seed)
        for name, seed in seeds.items()
    }
    for name, seed in seeds.items():
        figure, found, verdict = figures.figures[name], "", "yes"
        for one in figures.line_of_runs(figure.command):
            if (one, seed) in failed or not runs.run(one, seed):
                failed |= {(one, seed), (figure.command, seed)}
                verdict = f"failed, see {runs.place(one, seed, '.txt').name}"
                break
        else:
            value = runs.read(figure, seed)
            found = "not in the output" if value is None else f"{value:.5g}"
            verdict = "yes" if value is not None and abs(value - figure.value) <= figure.margin + 1e-9 else "NO"
        wrong += verdict != "yes"
        record = kept[figure.command, seed]
        rows.append(
            [
                name,
                figure.metric,
                f"{figure.value:g} ± {figure.margin:.3g}",
                found,
                verdict,
                str(seed),
                f"kept, {record['commit']}" if record else "now",
            ]
        )
    return rows, wrong


def listing(figures: Figures) -> list[str]:
    """A table of all figures."""
    rows = []
    for name, figure in figures.figures.items():
        row = [name, figure.metric, f"{figure.value:g}"]
        if not figure.command:
            rows.append([*row, "", "", "", "", figure.source or figure.missing])
            continue
        commands = [figures.commands[one] for one in figures.line_of_runs(figure.command)]
        needs = dict.fromkeys(
            [
                *(folder for one in commands for folder in one.folders),
                *(f"extra {one.extra}" for one in commands if one.extra),
            ]
        )
        rows.append(
            [
                *row,
                f"{figure.margin:.3g}",
                f"{sum(one.minutes for one in commands):g}",
                ", ".join(map(str, commands[-1].seeds)),
                commands[-1].commit,
                ", ".join(needs),
            ]
        )
    return markdown_table(["figure", "metric", "published", "±", "minutes", "seeds", "commit", "needs"], rows)


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, help="of the sample; by default 20, with --only no limit")
    parser.add_argument("--seed", type=int, default=1, help="of the sample, and of which seed is rerun")
    parser.add_argument("--only", nargs="+", metavar="ID", default=[], help="choose among these figures alone")
    parser.add_argument("--list", action="store_true", help="print all figures, and run nothing")
    parser.add_argument("--output", type=Path, default=Path("runs/verify"), help="folder that keeps the runs")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="another file of figures")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Choose, rerun and print a table."""
    arguments = parse(given)
    try:
        figures = read_figures(arguments.figures)
        if unknown := [name for name in arguments.only if name not in figures.figures]:
            raise ConfigError(f"no figure is named {', '.join(unknown)}; --list prints the names")
        if arguments.minutes is not None and not arguments.minutes > 0.0:
            raise ConfigError(f"--minutes: got {arguments.minutes:g}, expected a number above 0")
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.list:
        print("\n".join(listing(figures)))
        return 0
    minutes = arguments.minutes or (float("inf") if arguments.only else 20.0)
    seeds, left = choose(figures, arguments.only, minutes, arguments.seed)
    reasons = f"{left.total()} left out" + "".join(f", {count} {why}" for why, count in left.most_common())
    if not seeds:
        print(f"nothing to rerun: {reasons}", file=sys.stderr)
        return 2
    try:
        rows, wrong = verify(figures, seeds, Runs(arguments.output, figures))
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)
        return 130
    print("\n".join(markdown_table(["figure", "metric", "published", "found", "within?", "seed", "run"], rows)))
    print(f"\n{len(rows) - wrong} of {len(rows)} figures within their tolerance; {reasons}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
