"""Launches and waits of an update and of a step of search, on a device that only pretends not to be the CPU.

    python -m benchmarks.launches translation parsing

For each preset of `tasks/` a table's row: an update is the second one, a step of search the median of those that decode
the validation split: a symbol left to right, a pass of blocks. A batch is one of that split, from its source to its
outputs. What a launch and a wait are: see `benchmarks.pretended_device`. `--smaller` takes models of one layer and 64
examples, as the tests do; `--set key=value` changes the configurations.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch

from benchmarks.pretended_device import DEVICE, GRAPH, Counts, on_the_device  # isort: skip  # before the suite

from seq2seq_suite.config import config_file
from seq2seq_suite.experiments import joint as parts
from seq2seq_suite.experiments import verbs
from seq2seq_suite.prediction import load_run as opening
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.search import blocks, verified_blocks
from seq2seq_suite.search.step import Stepper
from seq2seq_suite.training.trainer import Trainer

TASKS = Path(__file__).parents[1] / "tasks"
FEW = [
    "training.max_updates=2",
    "training.max_minutes=60",
    "training.validate_examples=4",
    "training.log_every=1",
    "training.precision=float32",
    "training.threads=1",
]
SMALLER = [
    "backbone.width=32",
    "backbone.feed_forward_width=32",
    "backbone.num_heads=2",
    "backbone.encoder_layers=1",
    "backbone.decoder_layers=1",
]
STEPS = (  # of a search: a symbol, a pass over a block, one that checks drafts
    (Stepper, "log_probabilities"),
    (blocks, "_pass"),
    (verified_blocks, "_wide_pass"),
)
_OF_ONE_TASK = ["data.size=64", "data.test_splits=[]"]


@dataclass
class Part:
    """What some calls of a function counted on average.

    Args:
        launches, operators: a call, the median.
        waits: a call, the mean, by the line that asked for them.
        calls: how many there were.
    """

    launches: float
    operators: float
    waits: dict[str, float]
    calls: int


class Meter:
    """Counts from each call of a method to its end, or to its next call."""

    def __init__(self, counts: Counts):
        self.counts = counts
        self.parts: list[tuple[int, int, dict[str, int]]] = []

    @contextmanager
    def watching(self, owner: type | ModuleType, name: str, *, to_next: bool = False) -> Iterator[None]:
        """While the method runs: all of a call, or what happens from one call to the next."""
        original, begun = getattr(owner, name), []

        def counted(*args: Any, **kwargs: Any) -> Any:
            if to_next and begun:
                self._add(begun.pop())
            begun.append(self._now())
            found = original(*args, **kwargs)
            if not to_next:
                self._add(begun.pop())
            return found

        with mock.patch.object(owner, name, counted):
            yield

    def mean(self, parts: slice = slice(None)) -> Part | None:
        """Of the calls; None without any."""
        chosen = self.parts[parts]
        if not chosen:
            return None
        lines = dict.fromkeys(line for *_, waits in chosen for line in waits)
        mean = {line: sum(waits.get(line, 0) for *_, waits in chosen) / len(chosen) for line in lines}
        return Part(
            statistics.median(part[0] for part in chosen),
            statistics.median(part[1] for part in chosen),
            mean,
            len(chosen),
        )

    def _now(self) -> tuple[int, int, dict[str, int]]:
        return self.counts.launches.total(), self.counts.operators, dict(self.counts.waits)

    def _add(self, before: tuple[int, int, dict[str, int]]) -> None:
        launches, operators, waits = self._now()
        new = {line: count - before[2].get(line, 0) for line, count in waits.items()}
        self.parts.append((launches - before[0], operators - before[1], {line: n for line, n in new.items() if n}))


@contextmanager
def chosen_device(device: torch.device) -> Iterator[None]:
    """Runs and predictors are built on the device."""
    with (
        mock.patch.object(parts, "choose_device", lambda *_: device),
        mock.patch.object(opening, "choose_device", lambda *_: device),
    ):
        yield


def trained(preset: str, settings: Sequence[str], directory: Path, *, resume: bool = False) -> dict[str, Part | None]:
    """Train a preset on the device, into a run directory; what an update, a step of search and a batch count."""
    few = FEW if preset == "multitask" else [*FEW, *_OF_ONE_TASK]
    config = config_file.load(TASKS / f"{preset}.yaml", [*few, *settings])
    with on_the_device() as counts, chosen_device(DEVICE):
        update, step, batch = Meter(counts), Meter(counts), Meter(counts)
        with ExitStack() as watched:
            watched.enter_context(update.watching(Trainer, "_update"))
            watched.enter_context(batch.watching(Predictor, "generate"))
            for owner, name in STEPS:
                watched.enter_context(step.watching(owner, name, to_next=True))
            verbs.run(config, directory, resume=resume, overwrite=False, command=["run"])
    return {"update": update.mean(slice(1, None)), "step": step.mean(), "batch": batch.mean()}


def searched(
    directories: Sequence[Path], settings: Sequence[str], device: torch.device, *, count: int = 4
) -> list[list[tuple[tuple[int, ...], float]]]:
    """Outputs and scores of the first examples of the validation split, of one run or several together."""
    with chosen_device(device):
        run = opening.open_together(directories, list(settings))
        torch.manual_seed(1)
        found = run.predictor.hypotheses(run.task.encode(run.task.read("validation")[:count]))
    return [[(one.symbols, one.score) for one in hypotheses] for hypotheses in found]


def counted_search(
    directories: Sequence[Path], settings: Sequence[str]
) -> tuple[Any, Part | None, dict[str, int], int]:
    """`searched` on the device, what a step behind the first one counts, all waits, and how often a graph ran."""
    with on_the_device() as counts:
        step = Meter(counts)
        with step.watching(Stepper, "log_probabilities", to_next=True):
            found = searched(directories, settings, DEVICE)
    return found, step.mean(slice(1, None)), dict(counts.waits), counts.launches[GRAPH]


def row(name: str, found: dict[str, Part | None]) -> str:
    """A row of the table."""
    cells = [name]
    for part in found.values():
        cells += (
            ["", ""]
            if part is None
            else [
                f"{part.launches:,.0f} ({part.operators:,.0f})",
                f"{sum(part.waits.values()):.2g}" + "".join(f"; {line} {n:.2g}" for line, n in part.waits.items()),
            ]
        )
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--smaller", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    print("| preset | launches of an update (with views) | waits | of a step of search | waits | of a batch | waits |")
    print("| --- |" + " --- |" * 6)
    for preset in options.presets:
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
            found = trained(preset, [*(SMALLER if options.smaller else ()), *options.set], Path(folder) / "run")
        print(row(preset, found), flush=True)


if __name__ == "__main__":
    main()
