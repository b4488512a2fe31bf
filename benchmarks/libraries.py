"""Own code beside a library's, where the suite keeps its own: CPU time of both, interleaved.

    OMP_NUM_THREADS=1 python -m benchmarks.libraries

Muon and the moving average at the size of `tasks/translation.yaml`, n-grams of three symbols, and the random
access to 20,000 encoded pairs of a file.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn

from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.config.config_file import for_task
from seq2seq_suite.data.mapped import Mapped, pack
from seq2seq_suite.model.build import build_model
from seq2seq_suite.options.training import Training
from seq2seq_suite.tasks.language_models.ngrams import Ngrams
from seq2seq_suite.training.muon import Muon
from seq2seq_suite.training.optimizer import MovingAverage, build_optimizer

_SYMBOLS, _ROUNDS = 2000, 3


def compare(name: str, own: Callable[[], object], library: Callable[[], object], *, times: int) -> None:
    """Print the median CPU time of each and the ratio, in rounds of both."""
    for call in (own, library):
        call()
    for _ in range(_ROUNDS):
        found = [[], []]
        for _ in range(times):
            for place, call in enumerate((own, library)):
                began = time.process_time()
                call()
                found[place].append(time.process_time() - began)
        ours, theirs = (median(one) * 1e3 for one in found)
        print(f"{name}: own {ours:.3f} ms, library {theirs:.3f} ms, ratio {theirs / ours:.2f}", flush=True)


def training() -> None:
    """Muon and the moving average."""
    config = for_task("translation", ["backbone.size=tiny"])
    torch.manual_seed(1)
    model = build_model(config.backbone, Shape(TokenShape(_SYMBOLS), TargetShape(_SYMBOLS)))
    muon = build_optimizer(model, Training(optimizer="muon")).param_groups[0]["params"]
    sides = [[nn.Parameter(matrix.detach().clone()) for matrix in muon] for _ in range(2)]
    for parameter in (*model.parameters(), *sides[0], *sides[1]):
        parameter.grad = torch.randn_like(parameter)
    own = Muon(sides[0], lr=1e-3, weight_decay=0.01)
    library = torch.optim.Muon(sides[1], lr=1e-3, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    compare("Muon, one update", own.step, library.step, times=5)

    average, whole = MovingAverage(model, 0.999), nn.ParameterList(model.parameters())

    def ramp(averages: list[torch.Tensor], weights: list[torch.Tensor], updates: torch.Tensor) -> None:
        decay = min(0.999, (1 + float(updates)) / (10 + float(updates)))
        torch._foreach_lerp_(averages, weights, 1.0 - decay)

    averaged = torch.optim.swa_utils.AveragedModel(whole, multi_avg_fn=ramp)
    compare("moving average", lambda: average.update(model, 9), lambda: averaged.update_parameters(whole), times=20)


def ngrams() -> None:
    """The probability of a symbol behind two others."""
    from nltk.lm import KneserNeyInterpolated
    from nltk.lm.preprocessing import padded_everygram_pipeline

    draw = random.Random(1)
    texts = [[draw.randint(4, 99) for _ in range(draw.randint(5, 15))] for _ in range(2000)]
    own, library = Ngrams(3), KneserNeyInterpolated(3, discount=0.75)
    own.count(texts, symbols=100)
    library.fit(*padded_everygram_pipeline(3, [list(map(str, text)) for text in texts]))
    compare("n-gram", lambda: own.probability((4, 5), 6), lambda: library.score("6", ["4", "5"]), times=20)


def access() -> None:
    """An encoded example of a file, by its number, and 64 of them together."""
    import datasets
    import pyarrow as pa

    draw = np.random.default_rng(1)
    items = [
        Encoded(*(draw.integers(0, _SYMBOLS, size) for size in draw.integers(4, 40, 2)), number)
        for number in range(20_000)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "examples.arrow")
        batch = pack(items, [(0, 1)] * len(items), {"source": np.dtype(np.uint16), "target": np.dtype(np.uint16)})
        with file.open("wb") as out, pa.ipc.new_file(out, batch.schema) as writer:
            writer.write_batch(batch)
        mapped = Mapped(file, digest="")
        library = (
            datasets.Dataset(pa.ipc.open_file(pa.memory_map(str(file))).read_all())
            .select_columns(["source", "target"])
            .with_format("numpy")
        )
        order = draw.permutation(len(items))[:640].tolist()
        compare(
            "640 examples, one by one",
            lambda: [mapped[row] for row in order],
            lambda: [library[row] for row in order],
            times=3,
        )
        compare(
            "640 examples, 64 together",
            lambda: [mapped[row] for row in order],
            lambda: [library[order[at : at + 64]] for at in range(0, 640, 64)],
            times=3,
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    training()
    ngrams()
    access()
