"""Speed and quality of `predict --engine`: each engine alone in a process of its own, in turns, on a run's test split.

python -m benchmarks.engines runs/translation --threads 2 --output engines.md
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.command_line import measuring_options, publish
from benchmarks.machine import markdown_table, provenance
from benchmarks.rounds import Rounds, Worker, serve

CASES = ((128, 1), (128, 5), (1, 1), (1, 5))  # sentences in a batch, beam size
MODULE = "benchmarks.engines"
COMPILED = "pytorch, search.compile"


def work(task: dict[str, Any]) -> None:
    """The measuring process."""
    import seq2seq_suite as s2s
    from seq2seq_suite.export.ctranslate2_engine import with_engine
    from seq2seq_suite.prediction.load_run import open_run

    directory = Path(task["run"])
    rows = [json.loads(line) for line in (directory / "predictions/test.jsonl").read_text().splitlines()]
    opened: dict[tuple[int, int], Any] = {}

    def run_of(size: int, beam: int) -> Any:
        if (size, beam) not in opened:
            changes = [
                "device=cpu",
                f"training.threads={task['threads']}",
                f"search.batch_sentences={size}",
                f"search.beam_size={beam}",
                f"search.compile={task['engine'] == COMPILED}",
            ]
            engine = task["engine"].partition(",")[0]
            opened[size, beam] = with_engine(open_run(directory, changes), directory, engine)
        return opened[size, beam]

    def answer(request: dict[str, Any]) -> Any:
        size, beam = request["case"]
        run = run_of(size, beam)
        examples = [run.task.from_text(row["source"]) for row in rows]
        if "outputs" in request:
            outputs = [found[0][0] for found in run.predict(examples)]
            bleu = run.task.score(outputs, [row["reference"] for row in rows]).figures["bleu"]
            return {"outputs": outputs, "bleu": bleu}
        chosen = examples[:: 3 if size > 1 else 20]
        list(run.predict(chosen[:size]))
        rates: list[float] = []
        end = time.perf_counter() + request["seconds"]
        while time.perf_counter() < end or len(rates) < 2:
            start = time.process_time()  # what other processes take does not count
            list(run.predict(chosen))
            rates.append(len(chosen) / (time.process_time() - start))
        return rates

    serve({"version": s2s.__version__}, answer)


def main() -> None:
    """Measure and print the table."""
    from seq2seq_suite.export.ctranslate2_engine import ENGINES

    parser = measuring_options(__doc__, seconds=2.0)
    parser.add_argument("run", nargs="?", help="the directory of a run of translation")
    arguments = parser.parse_args()
    if arguments.worker:
        work(json.loads(arguments.worker))
        return
    engines = ("pytorch", COMPILED, *list(ENGINES)[1:])
    rounds = {(engine, case): Rounds() for engine in engines for case in CASES}
    found: dict[tuple[str, tuple[int, int]], Any] = {}
    for turn in range(arguments.rounds):
        for engine in engines:
            task = {"run": arguments.run, "engine": engine, "threads": arguments.threads}
            with Worker(MODULE, task, arguments.threads) as worker:
                for case in CASES:
                    if turn == 0 and case[0] > 1:
                        found[engine, case] = worker.ask({"case": case, "outputs": True})
                    rates = rounds[engine, case].add(
                        worker.ask({"case": case, "seconds": arguments.seconds}), worker.others
                    )
                    print(f"batch {case[0]} beam {case[1]} {engine}, sentences/s: {rates}", file=sys.stderr, flush=True)
    rows = []
    for engine in engines:
        cells = []
        for case in CASES:
            mine, first = rounds[engine, case], rounds["pytorch", case]
            cells.append(f"{mine.rate():,.0f} ({mine.ratio(first):.2f}x)")
        quality = []
        for case in CASES[:2]:
            mine, first = found[engine, case], found["pytorch", case]
            same = sum(a == b for a, b in zip(mine["outputs"], first["outputs"], strict=True))
            quality += [f"{mine['bleu']:.2f}", f"{same:,} of {len(first['outputs']):,}"]
        own = [rounds[engine, case] for case in CASES]
        disturbed = sum(sum(one.disturbed()) for one in own)
        rows.append([engine, *quality, *cells, f"{sum(len(one.blocks) for one in own)} rounds, {disturbed} disturbed"])
    header = [
        "engine",
        "BLEU, greedy",
        "outputs equal",
        "BLEU, beam 5",
        "outputs equal",
        *(f"batch {size}, {'greedy' if beam == 1 else f'beam {beam}'}" for size, beam in CASES),
        "rounds",
    ]
    publish(
        [
            "# Engines of `predict`",
            "",
            *provenance(arguments.seed, arguments.threads),
            "",
            *markdown_table(header, rows),
            "",
            "Sentences per second of processor time, from text to text; in brackets, by "
            "PyTorch's in the same round. BLEU of the whole split.",
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
