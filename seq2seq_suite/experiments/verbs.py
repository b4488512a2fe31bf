"""The verbs behind the command line that train and score: run and evaluate."""

from __future__ import annotations

import math
import re
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import torch

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.text import slug
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments import resuming
from seq2seq_suite.experiments.distill import is_distilled
from seq2seq_suite.experiments.joint import BESIDE, build_trainer, by_split, evaluate_parts, read_parts
from seq2seq_suite.experiments.prepare import with_own_splits
from seq2seq_suite.inspection.report import inspect_split
from seq2seq_suite.kernels import memory
from seq2seq_suite.prediction.build import use_threads
from seq2seq_suite.prediction.evaluate import evaluate_splits
from seq2seq_suite.prediction.load_run import LoadedRun, config_of, look_at_helpers, open_together, with_helpers
from seq2seq_suite.report.run import write_report
from seq2seq_suite.runs import distributed
from seq2seq_suite.runs.callbacks import Callback, TensorBoard, end
from seq2seq_suite.runs.distributed import Ranks
from seq2seq_suite.runs.joint_directories import task_directories
from seq2seq_suite.runs.records import read_summary
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.tasks.rows import other_data
from seq2seq_suite.terminal.progress import Logged, preparing, unlogged
from seq2seq_suite.training.trainer import finished, limit_reached


def run(
    config: Config,
    directory: Path,
    *,
    resume: bool,
    overwrite: bool,
    command: list[str],
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
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
    ranks, own_code = distributed.ranks(), config.code.values()  # whoever made the configuration has trusted it
    with trusting(own_code):
        alike = ranks.first(config) == config
    if not alike:
        raise ConfigError(
            f"process {ranks.rank} has another configuration than the first one",
            expected="the same YAML and key=value on every machine",
            remedy="start it with the same",
        )
    with (
        trusting(own_code),
        ranks.own(directory) as own,
        (
            RunDirectory.claim(own, resume=resume, overwrite=overwrite)
            if ranks.is_first
            else nullcontext(RunDirectory(own))
        ) as run_directory,
    ):
        if config.training.tensorboard and ranks.is_first:
            callbacks = (*callbacks, TensorBoard(run_directory.path / "tensorboard"))
        run_directory.callbacks, said = callbacks if ranks.is_first else (), []
        with redirect_stdout(Logged(unlogged(), said.append)):
            config = with_own_splits(config)
            if ranks.is_first and resume:
                resuming.check_configuration(run_directory, config)
        ended = ranks.first(resuming.ended(run_directory, config) if ranks.is_first and resume else None)
        if ended is not None:
            progress, summary = ended
            print(finished(progress, limit_reached(config.training, progress, summary["primary_metric"])))
            return summary
        with run_directory.logging(said):
            summary = _run(config, run_directory, ranks, resume=resume, command=command)
            end(run_directory.callbacks, run_directory.path)
        return summary


def _run(
    config: Config, run_directory: RunDirectory, ranks: Ranks, *, resume: bool, command: list[str]
) -> dict[str, Any]:
    """`run` in an existing directory."""
    began = time.monotonic()
    torch.manual_seed(config.seed)
    use_threads(config.training.threads)
    memory.keep_freed()
    look_at_helpers(config)
    # All splits are read first: an error in one should not be found after hours of training.
    parts = read_parts(config, run_directory)
    trainer, predictors = build_trainer(config, run_directory, parts, ranks, resume=resume, command=command)
    if any(
        part.config.in_parallel and part.task.several_references and not is_distilled(part.config.data.path)
        for part in parts
    ):
        print(
            "a parallel decoder usually gains from training on the outputs of an autoregressive run: "
            "see `distill --help`"
        )
    look_at_helpers(config, run_directory.vocabulary)
    prepared = time.monotonic()
    size = f"{sum(len(part.encoded['train']) for part in parts):,}" + (
        " (the first file's)" if config.data.streaming else ""
    )
    if ranks.is_first:
        learning, every = (trainer.learner.num_parameters(learning=one) for one in (True, False))
        print(
            *config.training.warnings(),
            f"training on {size} examples, {f'{learning:,} of ' * (learning < every)}{every:,} parameters, "
            f"device {trainer.device.type}, prepared in {prepared - began:.1f} s",
            sep="\n",
            flush=True,
        )
    trainer.run_to_best(resume=resume)
    trained = time.monotonic()
    chosen = {name: with_helpers(config, one, run_directory.path) for name, one in predictors.items()}
    summary = evaluate_parts(parts, chosen, trainer)
    validation = trainer.progress.validation_seconds
    summary["phase_seconds"] = {
        name: round(seconds, 2)
        for name, seconds in (
            ("data", prepared - began),
            ("train", trainer.progress.seconds - validation),
            ("validation", validation),
            ("test", time.monotonic() - trained),
        )
    }
    run_directory.write_summary(summary)
    if ranks.is_first:
        for part in parts:
            for split in part.config.data.test_splits:
                with preparing(f"looking into outputs of {split}"):
                    inspect_split(part.run, LoadedRun(part.config, chosen[part.name]), split, part.held_out(split))
        write_report(run_directory.path)
    return summary


def evaluate(
    directory: Path, *others: Path, split: str, data: str | None, overrides: list[str], shown: bool = True
) -> dict[str, Any]:
    """Decode and score a split with a run's best checkpoint; predictions and figures go to the run directory.

    For a joint run, all tasks; its figures are named `task/figure`. With `others` the runs predict together, and the
    predictions go to the first one's directory. Unless `shown`, outputs are not inspected, and the report stays.

    Returns:
        The summary of the split, whose name has what is not the run's own: `test@beam_size=4` for other settings,
        `test-more` for the data more.jsonl, `test-with-other` for several runs. Figures of other settings also stand in
        the run's summary, with the settings; those of other data and of several runs in the log alone.
    """
    parts = task_directories(directory)
    if parts and not others:
        for part in parts:  # an error in the last should not be found after decoding the others
            config_of(part, overrides)
        found = {part.name: evaluate(part, split=split, data=data, overrides=overrides, shown=shown) for part in parts}
        return {
            "task": "multitask",
            **{name: by_split(found, name) for name in ("splits", *BESIDE)},
            "signature": "; ".join(dict.fromkeys(one["signature"] for one in found.values())),
        }
    loaded = open_together([directory, *others], overrides)
    RunDirectory(directory).refuse_links_out()
    if data is not None:
        loaded.task.data = other_data(loaded.task.data, data, split, loaded.task.languages)
    with preparing(f"preparing the split {split} of {loaded.task.data.path}"):
        run_directory, examples = RunDirectory(directory), loaded.task.read(split)
    # Figures for other data, other settings or several runs stand beside those of the run itself.
    settings = resuming.settings_of_search(run_directory, loaded.config)
    name = split if data is None else f"{split}-" + re.sub(r"\W+", "_", Path(data).name.partition(".")[0])
    name += _suffix(settings) + "".join(f"-with-{other.resolve().name}" for other in others)
    # The summary is to say what the predictions beside it say; a broken one is found before these are replaced.
    own = data is None and not others and run_directory.summary.exists()
    kept = read_summary(directory).model_dump(exclude_unset=True) if own else {}
    summary = evaluate_splits(run_directory, loaded.predictor, {name: examples})
    if shown and not others:
        inspect_split(run_directory, loaded, name, examples)
    if kept:
        metric, added = summary["primary_metric"], {**summary, "settings": {name: settings} if settings else {}}
        before, after = (f"{one['splits'].get(name, {}).get(metric, math.nan):.4g}" for one in (kept, summary))
        if before not in ("nan", after):
            print(f"{name}: {metric} was {before} in {run_directory.summary} and is {after} now", file=sys.stderr)
        merged = {key: kept.get(key, {}) | one for key, one in added.items() if isinstance(one, dict) and one}
        run_directory.write_summary((kept if settings and kept["formula"] else kept | summary) | merged)
    if shown:
        write_report(directory)
    return {**summary, "parameters": loaded.predictor.learner.num_parameters()}


def evaluate_all(
    directory: Path, *others: Path, split: str, data: str | None, combinations: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """`evaluate` with each combination of overrides, a row each in the run's summary.

    Of several the outputs are not inspected, which takes longer than to decode them and would fill the report.

    Returns:
        The summary of all rows, as `evaluate` returns that of one.

    Raises:
        ConfigError: of a combination, before any is decoded; or two of them have the outputs of one row.
    """
    rows: dict[tuple[Path, str], Sequence[str]] = {}
    for overrides in combinations if len(combinations) > 1 else ():
        for part in task_directories(directory) or [directory]:
            settings = resuming.settings_of_search(RunDirectory(part), config_of(part, list(overrides)))
            first = rows.setdefault((part, _suffix(settings)), overrides)
            if first is not overrides:
                raise ConfigError(
                    f"{' '.join(overrides)} has the outputs of {' '.join(first)}",
                    file=str(part),
                    expected="combinations whose outputs differ, each of which gets a row",
                    remedy="leave one out, or call evaluate for each: the later figures replace the earlier",
                )
    found = [
        evaluate(directory, *others, split=split, data=data, overrides=list(one), shown=len(combinations) == 1)
        for one in combinations
    ]
    for part in task_directories(directory) or [directory] if len(combinations) > 1 else ():
        write_report(part)
    return {
        key: {name: one for each in found for name, one in each.get(key, {}).items()}
        if isinstance(value, dict)
        else value
        for key, value in found[-1].items()
    }


def row_name(directory: Path, split: str, overrides: Sequence[str]) -> str:
    """The row of a run's summary that `evaluate` writes with these overrides."""
    return split + _suffix(resuming.settings_of_search(RunDirectory(directory), config_of(directory, list(overrides))))


def _suffix(settings: Mapping[str, Any]) -> str:
    """What settings add to the name of a split.

    >>> _suffix({}), _suffix({"search.beam_size": 4, "search.rescorer": "runs/at"})
    ('', '@beam_size=4,rescorer=runs_at')
    """
    said = ",".join(slug(one.removeprefix("search.")) for one in config_file.as_overrides(settings))
    long = f"{said[:80]}-{zlib.crc32(said.encode()):08x}" if len(said) > 100 else said  # it is a file's name, too
    return f"@{long}" if said else ""
