"""The cost of additive attention compared with the scaled dot product: tokens per second and peak memory of one layer.

    python -m benchmarks.attention_score --lengths 32 128 512 --threads 2 --output benchmarks/results/attention.md

Self-attention of the suite's own layer with its four projections, everything visible, no dropout, float32. Each score
and length has its own process, whose peak is the growth of its resident memory (on CUDA, of what is
allocated) over the first forward and backward pass.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.command_line import measuring_options, publish
from benchmarks.machine import markdown_table, provenance
from benchmarks.rounds import Rounds, Worker, serve

SCORES = ("dot", "additive")
PASSES = ("forward", "forward and backward")
BLOCKS = 3
MODULE = "benchmarks.attention_score"


def measure(arguments: argparse.Namespace, length: int) -> list[list[str]]:
    """The rows of one length: dot, then additive."""
    rows = max(1, arguments.tokens // length)
    task = {
        "length": length,
        "rows": rows,
        "width": arguments.width,
        "heads": arguments.heads,
        "seed": arguments.seed,
        "device": arguments.device,
        "threads": arguments.threads,
    }
    rounds, memory = {(score, kind): Rounds() for score in SCORES for kind in PASSES}, {}
    for _ in range(arguments.rounds):
        for score in SCORES:
            with Worker(MODULE, {**task, "score": score}, arguments.threads) as worker:
                memory[score] = worker.about["memory"]
                for kind in PASSES:
                    rates = worker.ask({"backward": kind != PASSES[0], "seconds": arguments.seconds / BLOCKS})
                    reported = rounds[score, kind].add(rates, worker.others)
                    print(f"{length} {score} {kind}, tokens/s: {reported}", file=sys.stderr, flush=True)
    table = []
    for score in SCORES:
        cells = []
        for kind in PASSES:
            found = rounds[score, kind]
            slower = rounds["dot", kind].ratio(found)
            cells.append(f"{found.rate():,.0f}" + ("" if score == "dot" else f" ({slower:.2f}x slower)"))
        disturbed = sum(sum(rounds[score, kind].disturbed()) for kind in PASSES)
        table.append(
            [
                str(length),
                str(rows),
                score,
                *cells,
                f"{memory[score] / 2**20:,.0f}",
                f"{len(PASSES) * arguments.rounds} rounds, {disturbed} disturbed",
            ]
        )
    return table


def work(task: dict[str, Any]) -> None:
    """The measuring process."""
    import torch

    from seq2seq_suite.model.attention import MultiHeadAttention
    from seq2seq_suite.model.variants.additive import AdditiveMultiHeadAttention

    torch.set_num_threads(task["threads"])
    torch.manual_seed(task["seed"])
    device = torch.device(task["device"])
    build = AdditiveMultiHeadAttention if task["score"] == "additive" else MultiHeadAttention
    layer = build(task["width"], task["heads"]).to(device)
    x = torch.randn(task["rows"], task["length"], task["width"], device=device, requires_grad=True)

    def forward() -> None:
        with torch.inference_mode():
            layer(x, None)
        _wait(device.type)

    def both() -> None:
        layer.zero_grad()
        x.grad = None
        layer(x, None)[0].sum().backward()
        _wait(device.type)

    before = _memory(device.type)
    both()
    memory = _memory(device.type) - before
    forward()
    serve(
        {"memory": memory},
        lambda request: [
            _rate(both if request["backward"] else forward, task["rows"] * task["length"], request["seconds"])
            for _ in range(BLOCKS)
        ],
    )


def _wait(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def _memory(device: str) -> int:
    """The peak memory so far, in bytes."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _rate(run: Callable[[], None], tokens: int, seconds: float) -> float:
    """Tokens per second of as many runs as fit into the time, at least one."""
    runs, start = 0, time.perf_counter()
    while not runs or time.perf_counter() - start < seconds:
        run()
        runs += 1
    return runs * tokens / (time.perf_counter() - start)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = measuring_options(__doc__, seconds=3.0)
    parser.add_argument("--lengths", nargs="+", type=int, default=[32, 128, 512], help="positions of a sequence")
    parser.add_argument("--tokens", type=int, default=2048, help="positions of a batch, about")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.lengths, arguments.tokens, arguments.rounds, arguments.seconds = [16], 64, 1, 0.0
    return arguments


def main() -> None:
    """Measure and print the table."""
    arguments = parse()
    if arguments.worker:
        work(json.loads(arguments.worker))
        return
    table = [row for length in arguments.lengths for row in measure(arguments, length)]
    header = ["length", "sequences", "score", *(f"{kind}, tokens/s" for kind in PASSES), "peak memory, MiB", "rounds"]
    publish(
        [
            f"# Attention scores: width {arguments.width}, {arguments.heads} heads, float32, {arguments.device}",
            "",
            *provenance(arguments.seed, arguments.threads),
            "",
            *markdown_table(header, table),
            "",
            "Additive attention keeps a vector for each pair of query and key, so that its memory grows with the "
            "square of the length times the width; ratios are medians over rounds.",
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
