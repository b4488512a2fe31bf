"""A run small enough to be trained in a second: 40 embedded sentences and a model of width 32."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from torch import nn

from benchmarks.faults import commands
from seq2seq_suite import miniworld
from seq2seq_suite.cli import app as cli
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments import verbs
from seq2seq_suite.miniworld import pictures, rows, sentences, stories, topics

SIZES = {"train": 40, "validation": 8, "test": 8}


@contextmanager
def few_rows(number: int) -> Iterator[None]:
    """Embedded data of which validation and test have so few rows.

    They are generated anew: the cache, which users' own runs read, is to keep whole splits alone.
    """
    with ExitStack() as stack:
        stack.enter_context(patch.object(miniworld, "TEXTS", set()))
        for sizes in (sentences.SIZES, stories.SIZES, stories.STORIES, topics.SIZES, pictures.SIZES):
            stack.enter_context(patch.dict(sizes, {"validation": number, "test": number}))
        yield


def write_trees(folder: Path, *, sizes: dict[str, int] = SIZES) -> Path:
    """A folder with `train.jsonl`, `validation.jsonl` and `test.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in sizes.items():
        write_rows(folder / f"{split}.jsonl", [row["tree"] for row in rows("trees", split, size=size)])
    return folder


def write_rows(path: Path, trees: Sequence[str]) -> None:
    """A jsonl file of trees."""
    path.write_text("".join(json.dumps({"tree": tree}) + "\n" for tree in trees), encoding="utf-8")


def small_config(folder: Path, **training: Any) -> Config:
    """A run over `write_trees(folder)`; everything random in training is switched on."""
    return Config.model_validate(
        {
            "task": "parsing",
            "device": "cpu",
            "data": {"path": str(folder)},
            "backbone": {
                "width": 32,
                "feed_forward_width": 64,
                "num_heads": 2,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "dropout": 0.1,
            },
            "parsing": {"max_characters": 8},
            "training": {
                "max_updates": 20,
                "batch_tokens": 256,
                "learning_rate": 3e-3,
                "warmup_updates": 5,
                "precision": "float32",
                "ema_decay": 0.9,
                "schedule": "constant",
                "validate_every": 10,
                "save_every": 5,
                "log_every": 2,
                "threads": 1,
                **training,
            },
        }
    )


def start(config: Config, directory: Path, *, resume: bool = False) -> dict[str, Any]:
    """Run it in this process."""
    return verbs.run(config, directory, resume=resume, overwrite=False, command=["run"])


def in_forks(folder: Path) -> SimpleNamespace:
    """For `sweep` in the place of `subprocess`: each run a fork of this process, which has imported PyTorch already.

    Args:
        folder: the only one in which runs may write.
    """

    def run(command: list[str], *, check: bool = False, stdout: Any, stderr: Any) -> SimpleNamespace:
        python, module, package, *words = command
        assert (python, module, package, check) == (sys.executable, "-m", "seq2seq_suite", False)
        ended = commands.start(cli.main, words, folder, limit=60.0).wait()
        (stdout or sys.stdout).write(ended.out)
        (stderr or sys.stderr).write(ended.err)
        return SimpleNamespace(returncode=ended.code, wait=lambda: ended.code)

    return SimpleNamespace(run=run, Popen=run)


def metrics(directory: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl without what depends on the clock."""
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key not in ("seconds", "tokens_per_second")} for row in rows]


def weights(directory: Path, checkpoint: str = "last") -> dict[str, bytes]:
    """The bytes of a checkpoint's two files of tensors."""
    folder = directory / "checkpoints" / checkpoint
    return {name: (folder / name).read_bytes() for name in ("model.safetensors", "training.safetensors")}


class Recorder:
    """Stands for an optimiser and keeps the gradients it is given."""

    def __init__(self, model: nn.Module):
        self.model, self.param_groups, self.gradients = model, [{"lr": 0.0, "factor": 1.0}], {}

    def step(self) -> None:
        self.gradients = {
            name: parameter.grad.clone()
            for name, parameter in self.model.named_parameters()
            if parameter.grad is not None
        }

    def zero_grad(self) -> None:
        self.model.zero_grad()
