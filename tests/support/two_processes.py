"""What a test computes once alone and once in two processes, and how the two are started."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which PyTorch's optimisers import: once here, not in each of the two processes
from small_run import Recorder, small_config, start
from torch import Tensor, nn

from seq2seq_suite.common.errors import DataError, Interrupted
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import Bucketed, collate
from seq2seq_suite.prediction import build
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs import distributed
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.training.choosing import Metric
from seq2seq_suite.training.trainer import Trainer

# Rows of the batches of one update. With two processes one is left without a row of the last batch; PowerNorm, whose
# statistics take that row twice, gets batches that are large enough.
ROWS = {"layer": (9, 4, 1), "power": (9, 4)}


def without_chance(config: Config) -> Config:
    """No dropout of any kind, so that one process and two compute the same."""
    values = config.model_dump()
    values["backbone"]["dropout"], values["parsing"]["unknown_rate"] = 0.0, 0.0
    return Config.model_validate(values)


def results(folder: Path, directory: Path, *, shard: bool = False, decode: bool = True) -> dict[str, Any]:
    """For each norm the losses and gradients of an update, the norm's buffers after it, and hypotheses if asked for."""
    return {norm: _result(folder, directory, norm, rows, shard, decode) for norm, rows in ROWS.items()}


def _result(
    folder: Path, directory: Path, norm: str, rows: tuple[int, ...], shard: bool, decode: bool
) -> dict[str, Any]:
    values = without_chance(small_config(folder, clip_norm=1e9, ema_decay=0.0, shard=shard)).model_dump()
    values["backbone"]["norm"], values["search"]["batch_sentences"] = norm, 3
    config, ranks = Config.model_validate(values), distributed.ranks()
    build.use_threads(config.training.threads)
    torch.manual_seed(config.seed)
    task = open_task("parsing", config)
    train, validation = task.read("train"), task.read("validation")
    task.fit(train)
    encoded, encoded_validation = task.encode(train), task.encode(validation)
    predictor = replace(build.build_predictor(config, task, device=torch.device("cpu")), ranks=ranks)
    hypotheses = predictor.hypotheses(encoded_validation) if decode else []
    trainer = Trainer(
        run=RunDirectory(directory),
        options=config.training,
        learner=predictor.learner,
        batches=Bucketed(encoded, "parsing", batch_tokens=256, seed=1),
        validate=lambda between: predictor.score(validation, encoded_validation, between=between)[0].figures,
        metric=Metric("f1", True),
        device=torch.device("cpu"),
        precision=torch.float32,
        origins=[example.origin for example in train],
        ranks=ranks,
    )
    trainer.optimizer = recorder = Recorder(trainer.trained)
    parts = [
        (0, place + 1, collate(encoded[sum(rows[:place]) : sum(rows[:place]) + size], "parsing"))
        for place, size in enumerate(rows)
    ]
    losses, _ = trainer._update(parts)
    gradients, own = recorder.gradients, recorder.gradients
    if trainer.shards is not None:
        own = {name: gradient.to_local() for name, gradient in gradients.items()}
        gradients = {name: gradient.full_tensor() for name, gradient in gradients.items()}
    sizes = [sum(gradient.numel() for gradient in some.values()) for some in (own, gradients)]
    return {
        "losses": losses,
        "gradients": gradients,
        "tokens": trainer.progress.tokens,
        "shared": sizes[0] / sizes[1],
        "buffers": dict(trainer.trained.named_buffers()),
        "hypotheses": [[asdict(one) for one in found] for found in hypotheses],
    }


def sums_of_partly_used_parameters() -> list[list[float] | None]:
    """Gradients of parameters that both processes, only the second one and none have used; in two passes."""
    ranks = distributed.ranks()
    module = PartlyUsed()
    with warnings.catch_warnings(action="error", category=FutureWarning):
        wrapped = ranks.wrap(module, some_unused=True)
    with ranks.keeping_apart(wrapped):
        wrapped(1.0, True).backward()
    wrapped(float(ranks.rank), ranks.is_first).backward()
    return [None if parameter.grad is None else parameter.grad.tolist() for parameter in module.parameters()]


class PartlyUsed(nn.Module):
    """A loss of some of its parameters."""

    def __init__(self):
        super().__init__()
        self.both, self.second, self.none = (nn.Parameter(torch.ones(2)) for _ in range(3))

    def forward(self, factor: float, first_alone: bool) -> Tensor:
        return self.both.sum() * factor + (0.0 if first_alone else self.second.sum())


def stopped_run(config: Config, directory: Path) -> int:
    """A run in which the second process alone gets a signal during the third update; how many updates this one does."""
    update, trainers = Trainer._update, []

    def signalled(self, parts):
        trainers.append(self)
        if self.ranks.rank == 1 and self.progress.update == 2:
            signal.raise_signal(signal.SIGTERM)
        return update(self, parts)

    Trainer._update = signalled
    with suppress(Interrupted):
        start(config, directory)
    Trainer._update = update
    return trainers[-1].progress.update


def work(folder: Path, place: Path) -> None:
    """All of the above, and at last an error of the second process while the first one waits for it."""
    found = results(folder, place)
    found["partly used"] = sums_of_partly_used_parameters()
    config = small_config(folder, accumulate=2, max_updates=8, validate_every=4, log_every=1)
    start(config, place / "whole")
    found["stopped at"] = stopped_run(config, place / "parts")
    start(config, place / "parts", resume=True)
    ranks = distributed.ranks()
    torch.save(found, place / f"results-{ranks.rank}.pt")
    ranks.highest(0)
    if ranks.rank == 1:
        raise DataError("a row is broken", file="train.jsonl", line=7, remedy="mend it")
    ranks.highest(0)


def launch(command: Callable[[], int], place: Path) -> list[tuple[int, str, str]]:
    """Carry out a command in two processes with what torchrun tells them; exit code, output and errors of each."""
    port, start_process = free_port(), multiprocessing.get_context("fork").Process
    children = [start_process(target=_child, args=(command, place, rank, port), daemon=True) for rank in (0, 1)]
    for child in children:
        child.start()
    for child in children:
        child.join(timeout=120)
    return [
        (child.exitcode, *((place / f"{name}-{rank}").read_text() for name in ("output", "errors")))
        for rank, child in enumerate(children)
    ]


def _child(command: Callable[[], int], place: Path, rank: int, port: int) -> None:
    os.environ.update(
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    )
    for number, name in ((1, "output"), (2, "errors")):
        os.dup2(os.open(place / f"{name}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    sys.exit(command())


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
