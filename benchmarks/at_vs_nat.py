"""Quality, latency and throughput of parallel decoding, for runs of one task.

    python -m benchmarks.at_vs_nat runs/at:search.beam_size=5 greedy=runs/at:search.beam_size=1 runs/ctc runs/dag \\
        --output nat.md --plot nat.png

A run is a directory, optionally with NAME= before it and changes to its search after colons. Times are from text to
text, including the encoder, the search over lengths and rescoring, after synchronising the device; runs take turns, and
results are medians over rounds. Speed-ups are relative to the first run.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.command_line import publish
from benchmarks.machine import markdown_table, provenance
from benchmarks.picture import picture
from seq2seq_suite.common.errors import UserError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.metrics.significance import FORMULAS, interval
from seq2seq_suite.prediction.evaluate import failures
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.prediction.speed import speed
from seq2seq_suite.runs.records import read_summary

HEADER = (
    "run",
    "strategy",
    "seed",
    "updates",
    "minutes",
    "figure",
    "95 % interval",
    "ms, batch 1",
    "95th percentile",
    "faster",
    "/s, batch 64",
    "faster",
    "/s, largest batch",
    "length error",
    "repeated symbols",
    "loops",
    "passes/symbol",
)
LARGEST = 512  # sentences in a batch at most


@dataclass
class Contestant:
    """A run with its search, and its measurements."""

    name: str
    kind: str
    predictor: Predictor
    examples: Sequence[Example]
    cost: tuple[str, str, str]  # seed, updates and minutes of training, of what it was started from not among them
    figure: float = 0.0
    low: float = 0.0
    high: float = 0.0
    length_error: float = 0.0
    repeated: float = 0.0
    loops: float = 0.0
    latencies: list[list[float]] | None = None
    throughput: list[float] | None = None
    largest: tuple[int, float] = (0, 0.0)
    passes: float = 0.0  # through the decoder for each symbol

    @property
    def alone(self) -> float:
        """Milliseconds of one sentence: the median over sentences, and of that over rounds."""
        return statistics.median(statistics.median(found) for found in self.latencies or [])

    @property
    def in_batches(self) -> float:
        """Milliseconds a sentence in batches of 64: the median over rounds."""
        return 1000.0 / statistics.median(self.throughput or [])


def read(argument: str, split: str) -> Contestant:
    """`RUN:key=value:key=value` or `NAME=RUN:key=value:key=value`."""
    place, *overrides = argument.split(":")
    name, _, directory = place.rpartition("=")
    changes = [override.partition(".")[2] or override for override in overrides]
    return opened(name or " ".join((Path(directory).name, *changes)), Path(directory), overrides, split)


def opened(
    name: str, directory: Path, overrides: Sequence[str], split: str, examples: Sequence[Example] = ()
) -> Contestant:
    """A run with changes to its search, not yet measured; `examples` of the split, if they have been read."""
    loaded, spent = open_run(directory, list(overrides)), read_summary(directory)
    return Contestant(
        name,
        loaded.config.strategy.kind,
        loaded.predictor,
        examples or loaded.task.read(split),
        (str(loaded.config.seed), f"{spent.updates:,}", f"{spent.seconds / 60:.1f}"),
    )


def judge(one: Contestant) -> None:
    """Quality over the whole split."""
    task, predictor = one.predictor.task, one.predictor
    encoded = task.encode(one.examples)
    hypotheses = predictor.hypotheses(encoded, one.examples)
    predictions = predictor.predictions(one.examples, hypotheses)
    score = task.score(predictions, [example.reference for example in one.examples])
    one.figure = score.figures[task.primary_metric]
    one.low = one.high = float("nan")
    if score.counts:
        found = interval(np.array(score.counts, dtype=float), FORMULAS[score.formula])
        one.low, one.high = found.low, found.high
    written = [found[0].symbols if found else () for found in hypotheses]
    lengths = [len(item.target) - 1 for item in encoded]
    one.length_error = (
        100.0
        * sum(abs(len(symbols) - length) for symbols, length in zip(written, lengths, strict=True))
        / max(1, sum(lengths))
    )
    pairs = [(first, second) for symbols in written for first, second in itertools.pairwise(symbols)]
    one.repeated = 100.0 * sum(first == second for first, second in pairs) / max(1, len(pairs))
    one.loops = failures(hypotheses, predictions, encoded)["repeated"]
    one.passes = (speed(predictor, hypotheses, 0.0) or {"passes_per_symbol": float("nan")})["passes_per_symbol"]


def decode(predictor: Predictor, examples: Sequence[Example]) -> float:
    """Seconds from text to predictions."""
    begun = time.perf_counter()
    predictor.predictions(examples, predictor.hypotheses(predictor.task.encode(examples), examples))
    if predictor.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def throughput(one: Contestant, size: int, sentences: int) -> float:
    """Examples a second in batches of `size`."""
    chosen = one.examples[: max(size, sentences)]
    options = one.predictor.options.changed(batch_sentences=size)
    return len(chosen) / decode(replace(one.predictor, options=options), chosen)


def measure(contestants: Sequence[Contestant], *, rounds: int, sentences: int) -> None:
    """Latency and throughput in batches of 64; runs take turns."""
    for one in contestants:
        one.latencies, one.throughput = [], []
        decode(one.predictor, one.examples[:2])
    for _ in range(rounds):
        for one in contestants:
            step = max(1, len(one.examples) // sentences)
            one.latencies.append([1000.0 * decode(one.predictor, [example]) for example in one.examples[::step]])
            one.throughput.append(throughput(one, 64, 4 * sentences))


def grow(contestants: Sequence[Contestant]) -> None:
    """The largest throughput, in batches of 64 and more."""
    for one in contestants:
        one.largest = 64, statistics.median(one.throughput)
        size = 128
        while size <= min(LARGEST, len(one.examples)):
            try:
                one.largest = max(one.largest, (size, throughput(one, size, size)), key=lambda found: found[1])
            except torch.OutOfMemoryError:
                break
            size *= 2


def rows(contestants: Sequence[Contestant]) -> list[list[str]]:
    """The table."""
    first = contestants[0]
    table = []
    for one in contestants:
        worst = statistics.median(statistics.quantiles(found, n=20)[-1] for found in one.latencies)
        rate = statistics.median(one.throughput)
        table.append(
            [
                one.name,
                one.kind,
                *one.cost,
                f"{one.figure:.2f}",
                "-" if one.low != one.low else f"{one.low:.2f} to {one.high:.2f}",
                f"{one.alone:.1f}",
                f"{worst:.1f}",
                f"{first.alone / one.alone:.1f}x",
                f"{rate:.0f}",
                f"{rate / statistics.median(first.throughput):.1f}x",
                f"{one.largest[1]:.0f} at {one.largest[0]}",
                f"{one.length_error:.1f} %",
                f"{one.repeated:.1f} %",
                f"{one.loops:.1f} %",
                f"{one.passes:.2f}",
            ]
        )
    return table


def plot(contestants: Sequence[Contestant], path: Path) -> None:
    """Quality against latency, a point for each run."""
    from matplotlib import colormaps, ticker

    with picture(path, (8.5, 4.5)) as (figure, (axes,)):
        colours = colormaps["tab10" if len(contestants) <= 10 else "tab20"]
        for place, one in enumerate(contestants):
            x, y = one.alone, one.figure
            bounds = None if one.low != one.low else [[y - one.low], [one.high - y]]
            shape = "s" if one.kind == "autoregressive" else "o"
            axes.errorbar(x, y, yerr=bounds, fmt=shape, capsize=3, color=colours(place), label=one.name)
        axes.set(
            xscale="log",
            xlabel="milliseconds for one sentence (median)",
            ylabel=contestants[0].predictor.task.primary_metric,
        )
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(ticker.LogLocator(subs=(2, 5)))
        axes.xaxis.set_minor_formatter("{x:g}")
        axes.grid(alpha=0.3, which="both")
        figure.legend(loc="outside right center", frameon=False, fontsize=8)


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="[NAME=]RUN[:KEY=VALUE]", help="speed-ups are relative to the first")
    parser.add_argument("--split", default="test")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=100, help="timed one by one; four times as many in batches")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plot", type=Path, help="PNG")
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true")
    arguments = parser.parse_intermixed_args(given)
    try:
        contestants = [read(run, arguments.split) for run in arguments.runs]
    except UserError as error:
        parser.error(str(error))
    torch.set_num_threads(arguments.threads)
    tasks = {one.predictor.task.name for one in contestants}
    if len(tasks) > 1:
        parser.error(f"the runs are of several tasks: {', '.join(sorted(tasks))}")
    for one in contestants:
        judge(one)
    measure(contestants, rounds=arguments.rounds, sentences=arguments.sentences)
    grow(contestants)
    if arguments.plot:
        plot(contestants, arguments.plot)
    task = contestants[0].predictor.task
    publish(
        [
            f"## {task.name}, {arguments.split}: {task.primary_metric}",
            "",
            *provenance(", ".join(dict.fromkeys(one.cost[0] for one in contestants)), arguments.threads),
            "",
            *markdown_table(list(HEADER), rows(contestants)),
            "",
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
