"""Joint runs: several tasks on one encoder and one decoder stack.

A joint run has a directory as any other; under `tasks/NAME` each task has one of its own with the task's view of the
shared weights, its vocabulary and its figures, which `evaluate`, `predict`, `compare`, `distill` and `init_from` read
like that of a run by itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from seq2seq_suite import config_file
from seq2seq_suite.config import Config
from seq2seq_suite.data.batching import Bucketed
from seq2seq_suite.data.mixture import Mixture, shares
from seq2seq_suite.experiments.prepare import (
    encode,
    few_shapes,
    note_origin,
    prepare_vocabulary,
    read_splits,
    renewing,
    subset,
)
from seq2seq_suite.files import atomic_write_text
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.report.html import write_report
from seq2seq_suite.sizes import Sizes
from seq2seq_suite.strategies.learner import JointLearner
from seq2seq_suite.tasks import open_task
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.training import checkpoint
from seq2seq_suite.training.balance import GradientBalance
from seq2seq_suite.training.build import build_decoder, choose_device, choose_precision, use_threads
from seq2seq_suite.training.distributed import ALONE, Ranks
from seq2seq_suite.training.evaluate import Decoder, evaluate_splits, settle
from seq2seq_suite.training.run_directory import RunDirectory
from seq2seq_suite.training.trainer import Trainer
from seq2seq_suite.types import Encoded, Example, Score

MEAN = "mean"  # of the tasks' primary metrics, error rates counted from 100 down
_FOLDER = "tasks"


@dataclass(frozen=True)
class JointTask:
    """What the trainer asks of a task, for all of them."""

    name: str = "multitask"
    primary_metric: str = MEAN
    higher_is_better: bool = True


@dataclass(frozen=True)
class JointDecoder:
    """All tasks' decoders as one.

    Args:
        parts: name -> the task's decoder.
        learner: of all of them.
        device: of the learner.
    """

    parts: Mapping[str, Decoder]
    learner: JointLearner
    device: torch.device
    task: JointTask = JointTask()

    def score(self, examples: Mapping[str, Sequence[Example]], encoded: Mapping[str, Sequence[Encoded]], *,
              between: Callable[[], None] = lambda: None) -> tuple[Score, None]:
        """The figures of each task as `name/metric`, and their mean."""
        figures = {name: decoder.score(examples[name], encoded[name], between=between)[0].figures
                   for name, decoder in self.parts.items()}
        return Score(self.joined(figures), ""), None

    def joined(self, figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """All figures in one table, the mean of the primary ones first."""
        found = {f"{name}/{metric}": value for name, of_task in figures.items() for metric, value in of_task.items()}
        primary = [self._upward(self.parts[name].task, of_task) for name, of_task in figures.items()]
        return {MEAN: statistics.fmean(primary), **found}

    @staticmethod
    def _upward(task: Task, figures: Mapping[str, float]) -> float:
        figure = figures[task.primary_metric]
        return figure if task.higher_is_better else 100.0 - figure


def directory_of(directory: Path, name: str) -> Path:
    """Where a joint run keeps what belongs to one task."""
    return directory / _FOLDER / name


def parts_of(directory: Path) -> list[Path]:
    """The directories of a joint run's tasks; none for another run."""
    folder = directory / _FOLDER
    return sorted(path for path in folder.iterdir() if (path / "config.yaml").is_file()) if folder.is_dir() else []


def build_joint(config: Config, tasks: Mapping[str, Task], *, device: torch.device, ranks: Ranks = ALONE
                ) -> JointDecoder:
    """Models with fresh weights that share what they can, and how to decode with them."""
    parts: dict[str, Decoder] = {}
    like: list[tuple[Sizes, Seq2Seq]] = []
    for name, task in tasks.items():
        parts[name] = replace(build_decoder(config.tasks[name], task, device=device, like=like), ranks=ranks)
        like.append((task.sizes(), parts[name].model))
    learner = JointLearner({name: decoder.learner for name, decoder in parts.items()},
                           {name: part.task_weight for name, part in config.tasks.items()})
    return JointDecoder(parts, learner, device)


def run_joint(config: Config, run_directory: RunDirectory, ranks: Ranks, *, resume: bool, command: list[str]
              ) -> dict[str, Any]:
    """`experiment.run` for `task: multitask`, in a directory that is there."""
    torch.manual_seed(config.seed)
    use_threads(config.training.threads)
    tasks = {name: open_task(part.task, part) for name, part in config.tasks.items()}
    examples = {name: read_splits(config.tasks[name], task) for name, task in tasks.items()}
    trainer = _build_trainer(config, run_directory, tasks, examples, ranks, resume=resume, command=command)
    trainer.run_to_best(resume=resume)
    decoder = trainer.decoder
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for name, part in decoder.parts.items():
        summary = _finish(config, run_directory, name, part, examples[name], trainer)
        for split in config.tasks[name].data.test_splits:
            figures.setdefault(split, {})[name] = summary["splits"][split]
    complete = {split: decoder.joined(found) for split, found in figures.items() if len(found) == len(tasks)}
    rest = {split: {f"{name}/{metric}": value for name, of_task in found.items() for metric, value in of_task.items()}
            for split, found in figures.items() if split not in complete}
    summary = {"task": config.task, "primary_metric": MEAN, "higher_is_better": True, "splits": {**complete, **rest},
               "failures": {}, "signature": "", "formula": "mean", **trainer.cost()}
    summary["splits"].setdefault("validation", {MEAN: trainer.progress.best_figure})
    run_directory.write_summary(summary)
    if ranks.is_first:
        write_report(run_directory.path)
    return summary


def _build_trainer(config: Config, run_directory: RunDirectory, tasks: Mapping[str, Task],
                   examples: Mapping[str, Mapping[str, list[Example]]], ranks: Ranks, *, resume: bool,
                   command: list[str]) -> Trainer:
    options, seed = config.training, config.seed
    encoded: dict[str, dict[str, list[Encoded]]] = {}
    for name, task in tasks.items():
        folder = directory_of(run_directory.path, name) / "vocabulary"
        prepare_vocabulary(config.tasks[name], task, examples[name]["train"], folder, ranks, resume=resume)
        encoded[name] = {split: encode(config.tasks[name], task, examples[name][split])
                         for split in ("train", "validation")}
    device = choose_device(config.device, ranks)
    decoder = build_joint(config, tasks, device=device, ranks=ranks)
    ranks.copy_weights(decoder.learner)
    precision = ranks.first(choose_precision(options.precision, device))
    batches = {name: Bucketed(encoded[name]["train"], name, batch_tokens=config.tasks[name].training.batch_tokens,
                              seed=seed, few_shapes=few_shapes(precision, device),
                              renew=renewing(task, examples[name]["train"])) for name, task in tasks.items()}
    chosen = _shares(config, batches)
    told = "shares of the batches: " + ", ".join(f"{name} {100 * share:.1f} %" for name, share in chosen.items())
    print(told)
    run_directory.log(told)
    kept = {name: subset(len(splits["validation"]), options.validate_examples, seed)
            for name, splits in examples.items()}
    note_origin(config, run_directory, {f"{name}/{split}": items for name, splits in encoded.items()
                                        for split, items in splits.items()}, ranks, resume=resume, command=command)
    return Trainer(
        run_directory, options, decoder, Mixture(batches, chosen),
        ({name: [examples[name]["validation"][index] for index in places] for name, places in kept.items()},
         {name: [encoded[name]["validation"][index] for index in places] for name, places in kept.items()}),
        precision, [example.origin for splits in examples.values() for example in splits["train"]], ranks,
        _balance(config, decoder.learner, ranks))


def _shares(config: Config, batches: Mapping[str, Bucketed]) -> dict[str, float]:
    """Of the batches, by temperature and with no task read more often than allowed."""
    total = config.training.max_updates * config.training.accumulate
    most = [config.mixture.max_epochs * len(part.epoch(0)) / total for part in batches.values()]
    found = shares([len(part.items) for part in batches.values()], temperature=config.mixture.temperature,
                   factors=[config.tasks[name].task_share for name in batches], most=most)
    return dict(zip(batches, found, strict=True))


def _balance(config: Config, learner: JointLearner, ranks: Ranks) -> GradientBalance | None:
    """None where the tasks' gradients are added as they are."""
    if not config.mixture.balance:
        return None
    weights = {name: part.task_weight for name, part in config.tasks.items()}
    return GradientBalance(list(learner.parameters()), list(learner.core_parameters()), exponent=config.mixture.balance,
                           weights=weights, ranks=ranks)


def _finish(config: Config, run_directory: RunDirectory, name: str, decoder: Decoder,
            examples: Mapping[str, list[Example]], trainer: Trainer) -> dict[str, Any]:
    """A task's own directory: weights, what is tuned, predictions and summary."""
    own = RunDirectory(directory_of(run_directory.path, name))
    own.write_config(config_file.dump(config.tasks[name]))
    if trainer.ranks.is_first:
        atomic_write_text(own.provenance, run_directory.provenance.read_text(encoding="utf-8"))
        checkpoint.export(own.checkpoints, decoder.learner)
    settle(decoder, examples["validation"], own)
    tested = {split: examples[split] for split in config.tasks[name].data.test_splits}
    mixture, position = trainer.batches, trainer.progress.update * config.training.accumulate
    summary = {**evaluate_splits(own, decoder, tested), **trainer.cost(), "batches": mixture.counts(position)[name],
               "parameters": decoder.learner.num_parameters(),
               "core_parameters": decoder.learner.num_core_parameters()}
    own.write_summary(summary)
    return summary
