"""What the exchange of gradients costs an update, between processes of this machine.

    python -m benchmarks.overlap --processes 1 2 4

The processes share each batch, as a run's do, with one thread each, over gloo. An update without its optimiser is timed
with gradients exchanged by DistributedDataParallel during the backward pass, exchanged after it parameter by parameter,
and not at all, in turns. An update waits for the exchange by (during - none) / during.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn

from benchmarks.corpus import synthetic
from benchmarks.machine import markdown_table, provenance
from benchmarks.systems import LABEL_SMOOTHING, SHAPES, suite
from seq2seq_suite.data.batching import collate
from seq2seq_suite.runs.distributed import Ranks


def measure(rank: int, world: int, size: str, rounds: int, store: str, results: str) -> None:
    """Medians of the three ways, in seconds; the first process writes them."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    distributed.init_process_group("gloo", store=distributed.FileStore(store, world), rank=rank, world_size=world)
    ranks, corpus = Ranks(rank, world), synthetic(1, train=2000, test=1)
    batches = suite.buckets(corpus, 1, round_lengths=False)
    batch, _ = ranks.share(collate(corpus.encoded(batches[len(batches) // 2]), "translation"))
    learner = suite.learner(SHAPES[size], LABEL_SMOOTHING)
    model = _Loss(learner.model, learner.strategy)
    wrapped = ranks.wrap(model)

    def backward() -> None:
        wrapped(batch).backward()

    def apart() -> None:
        with ranks.keeping_apart(wrapped):
            backward()

    def after() -> None:
        apart()
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad)

    ways: dict[str, Callable[[], None]] = {"during": backward, "after": after, "none": apart}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 2):
        for name, way in ways.items():
            model.zero_grad(set_to_none=False)
            distributed.barrier()
            start = time.perf_counter()
            way()
            distributed.barrier()
            if number > 1:
                times[name].append(time.perf_counter() - start)
    if ranks.is_first:
        torch.save((times, sum(one.numel() for one in model.parameters())), results)
    distributed.destroy_process_group()


class _Loss(nn.Module):
    def __init__(self, model: nn.Module, strategy: nn.Module):
        super().__init__()
        self.model, self.strategy = model, strategy

    def forward(self, batch: object) -> torch.Tensor:
        return self.strategy.loss(self.model, batch).sums["cross_entropy"] / batch.target_mask.sum()


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--size", choices=SHAPES, default="tiny")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    header = [
        "processes",
        "MB of gradients",
        "no exchange, ms",
        "during the backward pass, ms",
        "after it, ms",
        "exposed part of the update",
    ]
    print("\n".join([*provenance(1, 1), "", *markdown_table(header, [])]), flush=True)
    for world in arguments.processes:
        with tempfile.TemporaryDirectory() as folder:
            store, results = (str(Path(folder) / name) for name in ("store", "results"))
            run = functools.partial(
                measure, world=world, size=arguments.size, rounds=arguments.rounds, store=store, results=results
            )
            multiprocessing.spawn(run, nprocs=world)
            times, count = torch.load(results)
        during, after, none = (statistics.median(times[name]) for name in ("during", "after", "none"))
        row = [
            str(world),
            f"{4 * count / 1e6:.1f}",
            *(f"{1e3 * one:.0f}" for one in (none, during, after)),
            f"{100 * (during - none) / during:.0f} %",
        ]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
