"""Decoding speed in sentences per second beside Hugging Face `generate` and CTranslate2, with the same weights.

    python -m benchmarks.decoding_speed --data path/to/multi30k --threads 2 --output benchmarks/results/decoding.md

The suite trains a model for a while; the others get its converted weights, so that all compute the same function and
outputs have similar lengths. The share of greedy outputs equal to the suite's is in the table. Greedy and beam
search run over 1,000 sentences sorted by length, 64 at a time, and over 100 sentences one at a time; outputs end at 64
symbols. Every system is also timed in its fastest mode: CTranslate2 with all sentences together, a worker per
thread, and in int8; Hugging Face with its static cache.

In each round each system is measured in a new process, alone on the machine, in which no other library has threads
(`benchmarks.rounds` explains why); the table names the libraries that the process had loaded.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.command_line import chosen_corpus, chosen_systems, common_options, publish
from benchmarks.corpus import Corpus
from benchmarks.machine import markdown_table, provenance
from benchmarks.rounds import Rounds, Worker, serve
from benchmarks.systems import SHAPES, DecodingSystem

NAMES = {
    "suite": "seq2seq_suite",
    "suite-compiled": "the same, search.compile",
    "marian": "Hugging Face generate (Marian)",
    "marian-static": "that, static cache",
    "ctranslate": "CTranslate2 float32",
    "ctranslate-int8": "CTranslate2 int8",
    "ctranslate-bulk": "CTranslate2 float32, all sentences together",
    "ctranslate-bulk-int8": "CTranslate2 int8, all sentences together",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "suite-compiled": {"compile": True},
    "marian-static": {"cache": "static"},
    "ctranslate-int8": {"compute_type": "int8"},
    "ctranslate-bulk": {"bulk": 16},
    "ctranslate-bulk-int8": {"bulk": 16, "compute_type": "int8"},
}
NEEDS = {
    name: {"suite": "torch", "marian": "transformers", "ctranslate": "ctranslate2"}[name.partition("-")[0]]
    for name in NAMES
}
CASES = ((64, 1), (64, 5), (1, 1), (1, 5))  # sentences in a batch, beam size
LONGEST = 64
MODULE = "benchmarks.decoding_speed"


def measure(arguments: argparse.Namespace, corpus: Corpus, systems: list[str]) -> list[list[str]]:
    """A row for each system, with the cases in its columns."""
    about: dict[str, dict[str, Any]] = {}
    greedy: dict[str, list[list[int]]] = {}
    rounds = {(system, case): Rounds() for system in systems for case in CASES}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "corpus.json"
        corpus.save(file)
        task = {
            "corpus": str(file),
            "weights": str(_weights(arguments, corpus, file)),
            "size": arguments.size,
            "seed": arguments.seed,
            "threads": arguments.threads,
        }
        if any(system.startswith("ctranslate") for system in systems):
            with Worker(MODULE, {**task, "system": "convert"}, arguments.threads):
                pass
        for turn in range(arguments.rounds):
            for system in systems:
                with Worker(MODULE, {**task, "system": system}, arguments.threads) as worker:
                    about[system] = worker.about
                    if turn == 0:
                        greedy[system] = worker.ask({"outputs": True})
                    for case in CASES if "bulk" not in system else CASES[:2]:
                        rates = worker.ask(
                            {"case": case, "sentences": arguments.sentences, "seconds": arguments.seconds}
                        )
                        reported = rounds[system, case].add(rates, worker.others)
                        print(
                            f"batch {case[0]} beam {case[1]} {system}, sentences/s: {reported}",
                            file=sys.stderr,
                            flush=True,
                        )
    rows = []
    for system in systems:
        same = sum(mine == theirs for mine, theirs in zip(greedy["suite"], greedy[system], strict=True))
        cells, disturbed, taken = [], 0, 0
        for case in CASES:
            found, ours = rounds[system, case], rounds["suite", case]
            cells.append(
                ""
                if not found.blocks
                else f"{found.rate():,.1f}"
                if system == "suite"
                else f"{found.rate():,.1f} ({ours.ratio(found):.2f}x)"
            )
            disturbed, taken = disturbed + sum(found.disturbed()), taken + len(found.blocks)
        rows.append(
            [
                f"{NAMES[system]} {about[system]['version']}",
                f"{100 * same / len(corpus.test):.1f} %",
                *cells,
                ", ".join(about[system]["libraries"]),
                f"{taken} rounds, {disturbed} disturbed",
            ]
        )
    return rows


def _weights(arguments: argparse.Namespace, corpus: Corpus, corpus_file: Path) -> Path:
    """The suite's weights after `--train-seconds`; trained once for a corpus, size, seed and time."""
    about = [arguments.size, arguments.seed, arguments.train_seconds, arguments.threads]
    key = hashlib.sha256(json.dumps(about).encode() + corpus_file.read_bytes()).hexdigest()[:12]
    file = arguments.cache / f"weights-{key}.pt"
    if not file.exists():
        task = {
            "corpus": str(corpus_file),
            "weights": str(file),
            "size": arguments.size,
            "seed": arguments.seed,
            "threads": arguments.threads,
            "system": "train",
            "seconds": arguments.train_seconds,
        }
        print(f"training for {arguments.train_seconds:g} seconds", file=sys.stderr, flush=True)
        with Worker(MODULE, task, arguments.threads):
            pass
    return file


def work(task: dict[str, Any]) -> None:
    """The measuring process, and those that convert the weights before."""
    corpus, weights, shape = Corpus.load(Path(task["corpus"])), Path(task["weights"]), SHAPES[task["size"]]
    name = task["system"]
    if name in ("train", "convert"):
        if name == "train":
            suite = importlib.import_module("benchmarks.systems.suite")
            suite.train_briefly(shape, corpus, task["seed"], task["seconds"], weights, threads=task["threads"])
        else:
            importlib.import_module("benchmarks.systems.ctranslate").convert(shape, corpus.pieces, weights)
        serve({}, lambda _: None)
        return
    module = importlib.import_module(f"benchmarks.systems.{name.partition('-')[0]}")
    system: DecodingSystem = module.decoding(shape, corpus, weights, threads=task["threads"], **OPTIONS.get(name, {}))
    sources = [source for source, _ in corpus.test]

    def answer(request: dict[str, Any]) -> Any:
        if "outputs" in request:
            return system.decode(sources, 1, LONGEST, 64)
        return _time(system, sources, request)

    serve({"version": system.version}, answer)


def _time(system: DecodingSystem, sources: list[list[int]], request: dict[str, Any]) -> list[float]:
    """Sentences per second of at least two passes over the sentences, as many as fit into the time."""
    size, beam_size = request["case"]
    if size == 1:
        chosen = sources[: max(1, request["sentences"] // 10)]
    else:
        chosen = sorted(sources[: request["sentences"]], key=len)
    system.decode(chosen[:size], beam_size, LONGEST, size)
    rates: list[float] = []
    end = time.perf_counter() + request["seconds"]
    while time.perf_counter() < end or len(rates) < 2:
        start = time.perf_counter()
        system.decode(chosen, beam_size, LONGEST, size)
        rates.append(len(chosen) / (time.perf_counter() - start))
    return rates


def parse() -> argparse.Namespace:
    """The command line."""
    parser = common_options(__doc__, NAMES, seconds=4.0)
    parser.add_argument("--size", choices=SHAPES, default="tiny")
    parser.add_argument("--sentences", type=int, default=1000, help="in batches; a tenth of them one at a time")
    parser.add_argument("--train-seconds", type=float, default=200.0, help="0 for one update (outputs are long)")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds, arguments.seconds, arguments.train_seconds, arguments.sentences = 1, 0.0, 0.0, 10
    return arguments


def main() -> None:
    """Measure and print the table."""
    arguments = parse()
    if arguments.worker:
        work(json.loads(arguments.worker))
        return
    systems, corpus = chosen_systems(arguments, NAMES, NEEDS), chosen_corpus(arguments)
    rows = measure(arguments, corpus, systems)
    header = [
        "system",
        "outputs equal",
        *(f"batch {size}, {'greedy' if beam == 1 else f'beam {beam}'}" for size, beam in CASES),
        "libraries",
        "rounds",
    ]
    publish(
        [
            f"# Decoding speed: {corpus.name}, {arguments.size}, float32",
            "",
            *provenance(arguments.seed, arguments.threads),
            "",
            *markdown_table(header, rows),
            "",
            "Sentences per second; in brackets, the suite's rate by it. Weights: the suite's after "
            f"{arguments.train_seconds:g} seconds of training.",
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
