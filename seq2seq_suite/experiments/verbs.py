"""The verbs behind the command line: run, evaluate, predict and check."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from seq2seq_suite import config_file
from seq2seq_suite.config import Config
from seq2seq_suite.data.batching import Bucketed
from seq2seq_suite.experiments import resuming
from seq2seq_suite.experiments.distill import is_distilled
from seq2seq_suite.experiments.inspecting import inspect_split
from seq2seq_suite.experiments.parts import build_trainer, directory_of, evaluate_parts, parts_of, read_parts
from seq2seq_suite.experiments.prepare import (
    encode,
    epoch_encoder,
    read_splits,
)
from seq2seq_suite.report.run import write_report
from seq2seq_suite.tasks import open_task
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.training import distributed, weights
from seq2seq_suite.training.build import build_predictor, choose_device, use_threads
from seq2seq_suite.training.callbacks import Callback, TensorBoard, end
from seq2seq_suite.training.distributed import Ranks
from seq2seq_suite.training.evaluate import Predictor, evaluate_splits
from seq2seq_suite.training.run_directory import CONFIG, RunDirectory
from seq2seq_suite.training.trainer import finished, limit_reached
from seq2seq_suite.types import ConfigError, DataError, Example
from seq2seq_suite.user_code import absolute, is_code


def run(config: Config, directory: Path, *, resume: bool, overwrite: bool, command: list[str],
        callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
    """Train, evaluate the best checkpoint on the test splits, and write a run directory.

    Of several processes (`distributed.together`) the first one writes the run directory and calls `callbacks` with each
    row of `metrics.jsonl`.

    Returns:
        The summary, as in `summary.json`; resuming a finished run returns its summary.

    Raises:
        ConfigError, DataError: something that the user can correct.
        RunError: the loss is no longer finite, or a file cannot be written.
        Interrupted: a signal came; the state was saved.
    """
    ranks = distributed.ranks()
    if ranks.first(config) != config:
        raise ConfigError(f"process {ranks.rank} has another configuration than the first one",
                          expected="the same YAML and key=value on every machine", remedy="start it with the same")
    with ranks.own(directory) as own, (RunDirectory.taken(own, resume=resume, overwrite=overwrite) if ranks.is_first
                                       else nullcontext(RunDirectory(own))) as run_directory:
        if config.training.tensorboard and ranks.is_first:
            callbacks = (*callbacks, TensorBoard(run_directory.path / "tensorboard"))
        run_directory.callbacks = callbacks if ranks.is_first else ()
        if ranks.is_first and resume:
            resuming.check_configuration(run_directory, config)
        ended = ranks.first(resuming.ended(run_directory, config) if ranks.is_first and resume else None)
        if ended is not None:
            progress, summary = ended
            print(finished(progress, limit_reached(config.training, progress, summary["primary_metric"])))
            return summary
        summary = _run(config, run_directory, ranks, resume=resume, command=command)
        end(run_directory.callbacks, run_directory.path)
        return summary


def _run(config: Config, run_directory: RunDirectory, ranks: Ranks, *, resume: bool, command: list[str]
         ) -> dict[str, Any]:
    """`run` in an existing directory."""
    began = time.monotonic()
    torch.manual_seed(config.seed)
    use_threads(config.training.threads)
    _look_at_rescorer(config)
    # All splits are read first: an error in one should not be found after hours of training.
    parts = read_parts(config, run_directory)
    trainer, predictors = build_trainer(config, run_directory, parts, ranks, resume=resume, command=command)
    if any(part.config.in_parallel and part.task.rewritable and not is_distilled(part.config.data.path)
           for part in parts):
        print("a parallel decoder usually gains from training on the outputs of an autoregressive run: "
              "see `distill --help`")
    _look_at_rescorer(config, run_directory.vocabulary)
    prepared = time.monotonic()
    trainer.run_to_best(resume=resume)
    trained = time.monotonic()
    chosen = {name: _with_rescorer(config, one, run_directory.path) for name, one in predictors.items()}
    summary = evaluate_parts(config, parts, chosen, trainer)
    validation = trainer.progress.validation_seconds
    summary["phase_seconds"] = {name: round(seconds, 2) for name, seconds in (
        ("data", prepared - began), ("train", trainer.progress.seconds - validation), ("validation", validation),
        ("test", time.monotonic() - trained))}
    run_directory.write_summary(summary)
    if ranks.is_first:
        for part in parts:
            for split in part.config.data.test_splits:
                inspect_split(part.run, LoadedRun(part.config, chosen[part.name]), split, part.examples[split])
        write_report(run_directory.path)
    return summary


def evaluate(directory: Path, *, split: str, data: str | None, overrides: list[str], trust_code: bool = False
             ) -> dict[str, Any]:
    """Decode and score a split with a run's best checkpoint; predictions go to the run directory.

    For a joint run, all tasks; its metrics are named `task/metric`.
    """
    parts = parts_of(directory)
    if parts:
        for part in parts:  # an error in the last should not be found after decoding the others
            config_of(part, overrides, trust_code=trust_code)
        found = {part.name: evaluate(part, split=split, data=data, overrides=overrides, trust_code=trust_code)
                 for part in parts}
        return {"task": "multitask", "signature": "; ".join(dict.fromkeys(one["signature"] for one in found.values())),
                "splits": {split: {f"{name}/{metric}": value for name, one in found.items()
                                   for metric, value in one["splits"][split].items()}}}
    loaded = open_run(directory, overrides, data=data, trust_code=trust_code)
    # Predictions for other data do not overwrite those for the run's own data.
    suffix = "" if data is None else "-" + re.sub(r"\W+", "_", Path(data).name.partition(".")[0])
    run_directory, examples = RunDirectory(directory), loaded.task.read(split)
    summary = evaluate_splits(run_directory, loaded.predictor, {split: examples}, suffix=suffix)
    inspect_split(run_directory, loaded, split + suffix, examples)
    write_report(directory)
    return {**summary, "parameters": loaded.predictor.learner.num_parameters()}


@dataclass(frozen=True)
class LoadedRun:
    """A trained model, ready to predict."""

    config: Config
    predictor: Predictor

    @property
    def task(self) -> Task:
        """The run's task, with its vocabularies."""
        return self.predictor.task

    def predict(self, examples: Sequence[Example], *, num_hypotheses: int = 1) -> Iterator[list[tuple[Any, float]]]:
        """For each example its predictions with their scores, best first, a batch of examples at a time."""
        options = self.predictor.options
        options = options.changed(num_hypotheses=num_hypotheses, beam_size=max(num_hypotheses, options.beam_size))
        predictor = replace(self.predictor, options=options)
        for first in range(0, len(examples), predictor.batch_sentences):
            chunk = examples[first : first + predictor.batch_sentences]
            for example, hypotheses in zip(chunk, predictor.hypotheses(self.task.encode(chunk)), strict=True):
                yield [(self.task.read_hypothesis(hypothesis, example), hypothesis.score)
                       for hypothesis in hypotheses]


def open_run(directory: Path, overrides: list[str], *, data: str | None = None, trust_code: bool = False
             ) -> LoadedRun:
    """A run's best checkpoint (its last one if none was validated) with its configuration.

    `trust_code` allows running code that is in the run directory.

    Raises:
        DataError: the directory is no run, or its checkpoint is broken.
    """
    config = config_of(directory, overrides, trust_code=trust_code)
    if config.task == "multitask":
        raise ConfigError("a joint run has several tasks", file=str(directory),
                          expected=f"one of them: {', '.join(config.tasks)}",
                          remedy=f"--task NAME, or the directory {directory_of(directory, 'NAME')}")
    if data is not None:
        config = config.model_copy(update={"data": config.data.model_copy(update={"path": data, "split": {}})})
    use_threads(config.training.threads)
    task = open_task(config.task, config)
    task.load(directory / "vocabulary")
    predictor = build_predictor(config, task, device=choose_device(config.device, distributed.ranks()))
    weights.load_best(directory, predictor.learner)
    predictor.learner.eval()
    return LoadedRun(config, _with_rescorer(config, predictor, directory))


def config_of(directory: Path, overrides: list[str], *, trust_code: bool = False) -> Config:
    """A run's configuration with overrides.

    Reading the configuration runs the code of a user's own task. Code in the run directory may come from elsewhere, and
    is run only if trusted.

    Raises:
        DataError: the directory is no run, or one of a format that cannot be read.
        ConfigError: it names code in the run directory, which is not trusted.
    """
    given = parse_config(directory)
    parts = given.get("tasks").values() if isinstance(given.get("tasks"), dict) else ()
    named = [part.get("task") for part in (given, *parts) if isinstance(part, dict)]
    named += given["components"].values() if isinstance(given.get("components"), dict) else ()
    here = directory.resolve()
    whole = here.parents[1] if here.parent.name == "tasks" else here  # of a joint run
    for reference in filter(is_code, named):
        if not trust_code and Path(absolute(reference, here).rpartition(":")[0]).is_relative_to(whole):
            raise ConfigError(f"{reference} is in the run directory, whose code is not trusted",
                              file=str(directory / CONFIG), expected="code of your own, elsewhere",
                              remedy="read it, then add --trust-code")
    return config_file.load(directory / CONFIG, overrides)


def parse_config(directory: Path) -> dict[str, Any]:
    """A run's `config.yaml` as plain data; raises DataError if the directory is no run, or has another format."""
    if not (directory / CONFIG).is_file():
        raise DataError(f"not a run directory: it has no {CONFIG}", file=str(directory),
                        expected="a directory that `run` wrote", remedy="name it as in `evaluate runs/parsing`")
    return config_file.parse(directory / CONFIG, of_run=True)


def choose_task(directory: Path, name: str | None) -> Path:
    """The directory of one of a joint run's tasks; the run's own without a name.

    Raises:
        DataError: there is no such task, or the run is not finished.
    """
    if name is None:
        return directory
    found = parts_of(directory)
    if directory_of(directory, name) not in found:
        there = f"one of {', '.join(part.name for part in found)}" if found else "a finished joint run"
        raise DataError(f"there is no task '{name}' in this run", file=str(directory), expected=there,
                        remedy="choose another" if found else "finish the run, with `run ... --resume` if it was "
                        "stopped; for a run of one task remove --task")
    return directory_of(directory, name)


_ALONE = ["search.rescorer="]  # a rescorer is loaded without its own rescorer


def _look_at_rescorer(config: Config, vocabulary: Path | None = None) -> None:
    """Refuse a run that cannot rescore the outputs, if possible before training.

    Args:
        config: may name a run.
        vocabulary: folder of the outputs' vocabulary; None where there is none yet.

    Raises:
        ConfigError, DataError: it names no run, or one for other outputs.
    """
    if not config.search.rescorer:
        return
    other = Path(config.search.rescorer)
    theirs = config_of(other, _ALONE)
    place = {"file": str(other), "remedy": "train it on the same data with the same options of task and subwords"}
    if theirs.task != config.task:
        raise ConfigError(f"search.rescorer: its task is {theirs.task}", expected=f"task {config.task}", **place)
    expected = "an autoregressive run whose decoder is not guided by a constraint"
    if theirs.in_parallel:
        raise ConfigError(f"search.rescorer: its strategy is {theirs.strategy.kind}", expected=expected, **place)
    weights.best(other)
    task = open_task(theirs.task, theirs)
    task.load(other / "vocabulary")
    if task.shape().target.num_focus:
        raise ConfigError(f"search.rescorer: its decoder is guided, as that of task {task.name} is", expected=expected,
                          **place)
    if vocabulary is None:
        return
    own, given = ({file.name: file.read_bytes() for file in folder.glob("*") if file.is_file()}
                  for folder in (vocabulary, other / "vocabulary"))
    if own != given:
        raise ConfigError("search.rescorer: its vocabulary differs", expected="the same symbols", **place)


def _with_rescorer(config: Config, predictor: Predictor, directory: Path) -> Predictor:
    """The predictor with its rescorer, if the configuration names one."""
    if not config.search.rescorer:
        return predictor
    _look_at_rescorer(config, directory / "vocabulary")
    return replace(predictor, rescorer=open_run(Path(config.search.rescorer), _ALONE).predictor.learner)


def check(config: Config) -> list[tuple[str, str]]:
    """Examine configuration and data as a run would, without training.

    Returns:
        (what, finding) rows: sizes, lengths, unknown symbols, a sample and an estimate of memory.
    """
    from seq2seq_suite.experiments.check import examine

    if config.task == "multitask":
        return [(f"{name}: {what}", found) for name, part in config.tasks.items() for what, found in check(part)]
    torch.manual_seed(config.seed)
    task = open_task(config.task, config)
    splits = read_splits(config, task)
    task.fit(splits["train"])
    encoded = {split: encode(config, task, examples) for split, examples in splits.items()}
    predictor = build_predictor(config, task, device=torch.device("cpu"))
    order = Bucketed(encoded["train"], task.name, batch_tokens=config.training.batch_tokens, seed=config.seed).epoch(0)
    largest = max(order, key=lambda rows: len(rows) * max(len(encoded["train"][row].target) for row in rows))
    draw = epoch_encoder(task, [splits["train"][row] for row in largest])
    items = [encoded["train"][row] for row in largest] if draw is None else draw(0)
    return examine(config, splits, encoded, predictor, largest=items, batches=len(order))
