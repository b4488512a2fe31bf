"""Training speed in tokens per second beside torch.nn.Transformer and Hugging Face Marian.

    python -m benchmarks.training_speed --data path/to/multi30k --threads 2 --output benchmarks/results/training.md

Tokens are real source and target symbols, END included; padding is not counted. All systems train the same
Transformer (joint vocabulary of 8,000, tied embeddings, dropout 0.1, about 4,096 target symbols an update) on the
same pairs: the suite, Marian and the careful loop on batches of like length, the student on random ones. Padding
batches, gradient clipping and the optimiser are part of an update. Without --data the pairs are made up.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.command_line import chosen_corpus, chosen_systems, common_options, publish
from benchmarks.corpus import Corpus
from benchmarks.machine import markdown_table, matrix_peak, provenance
from benchmarks.rounds import Rounds, Worker, serve
from benchmarks.systems import SHAPES, TrainingSystem

NAMES = {
    "suite": "seq2seq_suite",
    "student": "nn.Transformer, random padded batches",
    "careful": "nn.Transformer, batches of like length, oneDNN's products, freed memory kept",
    "marian": "Hugging Face Marian, batches of like length",
}
NEEDS = {"suite": "torch", "student": "torch", "careful": "torch", "marian": "transformers"}
MODULE = "benchmarks.training_speed"


def measure(
    arguments: argparse.Namespace, corpus: Corpus, size: str, precision: str, systems: list[str]
) -> list[list[str]]:
    """The rows of one size and precision."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "corpus.json"
        corpus.save(file)
        task = {
            "corpus": str(file),
            "size": size,
            "precision": precision,
            "seed": arguments.seed,
            "threads": arguments.threads,
            "seconds": arguments.seconds,
            "blocks": arguments.blocks,
        }
        rounds, about, peaks = {system: Rounds() for system in systems}, {}, []
        for _ in range(arguments.rounds):
            with Worker(MODULE, {**task, "system": "peak"}, arguments.threads) as worker:
                peaks.append(worker.ask({}))
            for system in systems:
                with Worker(MODULE, {**task, "system": system}, arguments.threads) as worker:
                    about[system] = worker.about
                    reported = rounds[system].add(worker.ask({}), worker.others)
                print(f"{size} {precision} {system}, tokens/s: {reported}", file=sys.stderr, flush=True)
    operations = sum(SHAPES[size].operations(len(source), len(target)) for source, target in corpus.train)
    each = operations / sum(len(source) + len(target) for source, target in corpus.train)
    rows = []
    for system in systems:
        rate, facts = rounds[system].rate(), about[system]
        rows.append(
            [
                size,
                precision,
                NAMES[system] + " " + facts["version"],
                f"{facts['parameters'] / 1e6:.2f}M",
                f"{rate:,.0f}",
                f"{rounds['suite'].ratio(rounds[system]):.2f}x",
                f"{100 * facts['real']:.0f} %",
                f"{each / 1e6:.1f}",
                f"{100 * rate * each / max(peaks):.0f} % of {max(peaks) / 1e9:.0f}",
                rounds[system].remark(),
            ]
        )
    return rows


def work(task: dict) -> None:
    """The measuring process: blocks of the same updates, evenly chosen over the lengths of an epoch's batches."""
    import torch

    torch.set_num_threads(task["threads"])
    torch.manual_seed(task["seed"])
    if task["system"] == "peak":
        serve({}, lambda _: matrix_peak(task["precision"], min(2.0, task["seconds"])))
        return
    module = importlib.import_module(f"benchmarks.systems.{task['system']}")
    corpus = Corpus.load(Path(task["corpus"]))
    system: TrainingSystem = module.training(SHAPES[task["size"]], task["precision"], corpus, task["seed"])
    by_length = sorted(system.batches, key=lambda batch: max(len(target) for _, target in batch))
    middle = by_length[len(by_length) // 2]
    system.update(middle)
    start = time.perf_counter()
    system.update(middle)
    fitting = round(task["seconds"] / task["blocks"] / (time.perf_counter() - start))
    count = min(len(by_length), max(2, fitting))
    chosen = [by_length[int((place + 0.5) * len(by_length) / count)] for place in range(count)]
    tokens = sum(len(source) + len(target) for batch in chosen for source, target in batch)
    padded = sum(
        len(batch) * (max(len(source) for source, _ in batch) + max(len(target) for _, target in batch))
        for batch in chosen
    )

    def block() -> float:
        start = time.perf_counter()
        for batch in chosen:
            system.update(batch)
        return tokens / (time.perf_counter() - start)

    block()
    serve(
        {"version": system.version, "parameters": system.parameters(), "updates": count, "real": tokens / padded},
        lambda _: [block() for _ in range(task["blocks"])],
    )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = common_options(__doc__, NAMES, seconds=15.0)
    parser.add_argument("--sizes", nargs="+", choices=SHAPES, default=["tiny"])
    parser.add_argument("--precision", nargs="+", choices=("float32", "bfloat16"), default=["float32"])
    parser.add_argument("--blocks", type=int, default=3, help="in a round, of at least 2 updates each")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds, arguments.seconds, arguments.blocks = 1, 0.1, 2
    return arguments


def main() -> None:
    """Measure and print the table."""
    arguments = parse()
    if arguments.worker:
        work(json.loads(arguments.worker))
        return
    systems, corpus = chosen_systems(arguments, NAMES, NEEDS), chosen_corpus(arguments)
    rows = [
        row
        for precision in arguments.precision
        for size in arguments.sizes
        for row in measure(arguments, corpus, size, precision, systems)
    ]
    header = [
        "size",
        "precision",
        "system",
        "parameters",
        "tokens/s",
        "suite is faster by",
        "tokens that are real",
        "MFLOP/token",
        "% of GEMM peak, GFLOP/s",
        "rounds",
    ]
    publish(
        [
            f"# Training speed: {corpus.name}",
            "",
            *provenance(arguments.seed, arguments.threads),
            "",
            *markdown_table(header, rows),
            "",
            "Operations are counted from shapes, without padding (`Shape.operations`); the peak is that of "
            "large matrix products in the same precision. Ratios are medians over rounds.",
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
