"""Experiments: a student's parts train a real task, and what they reached is noted so that it can be checked."""

from __future__ import annotations

import hashlib
import io
import math
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from seq2seq_suite import __version__
from seq2seq_suite.common.errors import ConfigError, RunError, UserError
from seq2seq_suite.common.files import atomic_write_text, to_json
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import in_sorted_batches
from seq2seq_suite.experiments import verbs
from seq2seq_suite.lab.code import Code
from seq2seq_suite.lab.experiment import SPLIT, Experiment, Plan, read_experiment, search_settings
from seq2seq_suite.lab.plug import plugged
from seq2seq_suite.prediction import load_run as opening
from seq2seq_suite.prediction.evaluate import evaluate_splits
from seq2seq_suite.report.comparison import write_comparison
from seq2seq_suite.runs import weights
from seq2seq_suite.runs.records import read_provenance, read_record, read_summary
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.strategies import autoregressive
from seq2seq_suite.studies.compare import compare_runs
from seq2seq_suite.terminal.tables import aligned, figure

RECORD, PAGE = "lab.json", "page.html"
COMPARED = 20  # first losses, against the suite's own
# Two right ways to compute differ by 1e-7 after an update. Muon, which rounds to bfloat16, makes up to 1e-4 of it in
# 20, without warm-up 6e-3 (measured): only the first few say whether a function is right.
SAME, EARLY = 1e-4, 5
Say = Callable[[str], object]


class Record(BaseModel):
    """`runs/NAME/lab.json`."""

    assignment: str
    student: str
    seed: int
    files: dict[str, str]
    calls: dict[str, int]
    suite: str
    commit: str
    config: str
    data: dict[str, str]
    metrics: str
    losses: list[float]
    own_losses: list[float]
    figures: dict[str, float]
    seconds: float


def run(directory: Path, names: Sequence[str] = (), say: Say = print) -> list[Record]:
    """Plug the student's parts into the core and train what the experiment says into `directory/runs`.

    Args:
        directory: the student's.
        names: of runs; none for all.
        say: is given each line that tells how it goes.

    Raises:
        ConfigError, DataError: something that the student can put right, his own function that fails among it.
        RunError: the training fails.
    """
    experiment = read_experiment(directory)
    for name in names:
        if name not in experiment.plans:
            raise ConfigError(
                f"there is no run {name}",
                file=str(directory / "experiment.yaml"),
                expected=f"one of {', '.join(experiment.plans)}",
            )
    plans = [plan for name, plan in experiment.plans.items() if name in names or not names]
    records, own_losses = [], {}
    for plan in plans:
        own: list[float] = []
        if plan.plug and plan.alike and not plan.source:
            key = config_file.dump(plan.config)
            own = own_losses[key] = own_losses.get(key) or first_losses(plan.config)
        records.append(_carry_out(experiment, plan, own, say))
    say("")
    say(_table(plans, records))
    say(f"drawn in {_draw(experiment)}")
    say(f"now fill in {directory / 'answers.yaml'}")
    return records


def _draw(experiment: Experiment) -> Path:
    """A page of the runs that were trained: figures with their intervals, curves, outputs on which they disagree."""
    trained = [
        experiment.run_directory(name)
        for name, plan in experiment.plans.items()
        if not plan.source and (experiment.run_directory(name) / RECORD).is_file()
    ]
    found = compare_runs(trained, split=SPLIT, measure=False).plain()
    write_comparison(found["rows"], found["pairs"], html=experiment.folder.path / "runs" / PAGE)
    return experiment.folder.path / "runs" / PAGE


def _carry_out(experiment: Experiment, plan: Plan, own: list[float], say: Say) -> Record:
    calls: Counter[str] = Counter()
    code, begun = Code(experiment.folder.path, calls), time.perf_counter()
    functions = code.functions(plan.plug)
    missing = [name for name in plan.plug if name not in functions]
    say(
        f"{plan.name}: {', '.join(functions) or 'nothing'} of yours is plugged in"
        + (f"; not written yet, so the suite's own: {', '.join(missing)}" if missing else "")
    )
    directory = experiment.run_directory(plan.name)
    (directory / RECORD).unlink(missing_ok=True)
    losses: list[float] = []
    tell = _reporter(plan, say)
    with quiet(functions), plugged(functions, plan.also):
        if plan.source:
            figures = _search(experiment, plan, directory)
        else:
            _train(plan.config, directory, [_noting(losses), tell])
            _keep_weights_alone(directory)
            summary = read_summary(directory)
            figures = {
                **summary.splits[SPLIT],
                **dict(summary.failures[SPLIT]),
                **forced_accuracy(directory, plan.config),
            }
    losses = losses[:COMPARED]
    _compare(plan, functions, losses, own, calls, say)
    trained = experiment.run_directory(plan.source) if plan.source else directory
    origin, folder = read_provenance(trained), experiment.folder
    record = Record(
        assignment=folder.assignment,
        student=folder.student,
        seed=plan.config.seed,
        config=plan.digest(),
        files={file.name: digest_of(file) for file in dict.fromkeys(code.files.values())},
        calls={name: calls[name] for name in functions},
        suite=__version__,
        commit=origin.commit,
        data=origin.data,
        metrics=digest_of(directory / "metrics.jsonl"),
        losses=losses,
        own_losses=own,
        figures=figures,
        seconds=round(time.perf_counter() - begun, 1),
    )
    atomic_write_text(directory / RECORD, to_json(record.model_dump(), indent=1))
    return record


def _train(config: Config, directory: Path, callbacks: Sequence[Callable[[dict[str, Any]], object]]) -> None:
    verbs.run(config, directory, resume=False, overwrite=True, command=["lab", "run"], callbacks=callbacks)


def _keep_weights_alone(directory: Path) -> None:
    """The best checkpoint's weights in a folder `best` that is no link, which a zip would leave out; nothing else."""
    checkpoints, kept = directory / "checkpoints", directory / "kept"
    weights.best(directory).resolve().rename(kept)
    shutil.rmtree(checkpoints)
    checkpoints.mkdir()
    kept.rename(checkpoints / "best")
    (checkpoints / "best" / "training.safetensors").unlink(missing_ok=True)


def _search(experiment: Experiment, plan: Plan, directory: Path) -> dict[str, float]:
    """Decode the beginning of the validation split with another run's weights."""
    source = experiment.run_directory(plan.source)
    if not (source / RECORD).is_file():
        raise ConfigError(
            f"{plan.name} goes on from {plan.source}, which has not been run",
            remedy=f"lab run {experiment.folder.path} {plan.source} {plan.name}",
        )
    if directory.is_dir():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    with trusting(True):
        loaded = opening.open_run(source, search_settings(plan))
    examples = loaded.task.read(SPLIT)[: plan.sentences or None]
    found = evaluate_splits(RunDirectory(directory), loaded.predictor, {SPLIT: examples})
    seconds = len(examples) * found["decoding"][SPLIT]["milliseconds_per_sentence"] / 1000
    return {**found["splits"][SPLIT], **found["failures"][SPLIT], "decoding_seconds": seconds}


def forced_accuracy(directory: Path, config: Config, *, sentences: int = 200) -> dict[str, float]:
    """Percent of right symbols under teacher forcing, `forced`, over some of the validation split; nothing for runs
    that do not write text from left to right.
    """
    if (config.strategy.kind, config.target) != ("autoregressive", "text"):
        return {}
    with trusting(True):
        loaded = opening.open_run(directory, [])
    model, strategy = loaded.predictor.model, loaded.predictor.learner.strategy
    assert isinstance(strategy, autoregressive.Autoregressive)
    right = count = 0
    with torch.inference_mode():
        encoded = loaded.task.encode(loaded.task.read(SPLIT)[:sentences])
        for batch in in_sorted_batches(encoded, loaded.task.name, 50):
            memory = strategy.encode_source(model, batch)
            hidden = strategy._hidden(model, batch, memory, autoregressive.shift_right(batch.target))
            hits = model.logits(hidden, memory).argmax(-1) == batch.target
            right, count = right + int(hits[batch.target_mask].sum()), count + int(batch.target_mask.sum())
    return {"forced": 100.0 * right / count}


class _Enough(Exception):
    """The first losses are there."""


def first_losses(config: Config, functions: Mapping[str, Callable[..., Any]] | None = None) -> list[float]:
    """The losses of the first updates of a run, with a student's functions or the suite's own."""
    return beginning(config, functions or {})[0]


def beginning(
    config: Config, functions: Mapping[str, Callable[..., Any]], also: Sequence[str] = ()
) -> tuple[list[float], dict[str, str]]:
    """The first losses, and the hashes of the data that the run reads."""
    losses: list[float] = []

    def enough(row: dict[str, Any]) -> None:
        if len(losses) >= COMPARED:
            raise _Enough

    with tempfile.TemporaryDirectory() as folder, quiet(functions), plugged(functions, also):
        with suppress(_Enough):
            _train(config, Path(folder) / "run", [_noting(losses), enough])
        data = read_provenance(Path(folder) / "run").data
    return losses[:COMPARED], data


def _noting(losses: list[float]) -> Callable[[dict[str, Any]], None]:
    def note(row: dict[str, Any]) -> None:
        if row["split"] == "train":
            losses.append(sum(value for name, value in row.items() if name.startswith("loss_")))

    return note


def _reporter(plan: Plan, say: Say) -> Callable[[dict[str, Any]], None]:
    most, shown_on = plan.config.training.max_updates, sys.stdout  # which `quiet` takes away meanwhile

    def tell(row: dict[str, Any]) -> None:
        if row["split"] == "train" and row["update"] % 50 == 0:
            losses = "  ".join(f"{name} {value:.3f}" for name, value in row.items() if name.startswith("loss_"))
            with redirect_stdout(shown_on):
                say(f"  update {row['update']} of {most}  {losses}  {row['seconds']:.0f} s")

    return tell


@contextmanager
def quiet(functions: Mapping[str, Any]) -> Iterator[None]:
    """Nothing of the suite's own output; raises RunError for what a student's functions may make the suite raise."""
    output = io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(output):
            yield
    except (UserError, RunError, _Enough):
        raise
    except Exception as error:
        if not functions:
            raise
        raise RunError(
            f"with {', '.join(functions)} plugged in the suite fails ({type(error).__name__}: {error}): "
            "look at shapes and types with `lab check` first"
        ) from error


def _compare(
    plan: Plan, functions: Mapping[str, Any], losses: list[float], own: list[float], calls: Counter[str], say: Say
) -> None:
    called = ", ".join(f"{calls[name]:,} calls of {name}" for name in functions)
    idle = [name for name in functions if not calls[name]]
    if called:
        say(f"  your code is what computes: {called}")
    if idle:
        say(f"  never called: {', '.join(idle)}")
    if losses and own:
        largest = farthest(losses, own)
        verdict = "" if is_alike(losses, own) else "  (more than rounding: something differs, see `lab check`)"
        say(f"  first {len(losses)} losses against the suite's own: largest difference {largest:.1e}{verdict}")


def farthest(losses: Sequence[float], others: Sequence[float]) -> float:
    """The largest difference of two runs' losses, of those above 1 as a share; infinite where one has fewer, or
    something that is no number.

    >>> farthest([1.0, 200.0], [1.25, 201.0]), farthest([1.0], []), farthest([1.0, math.nan], [1.0, 2.0])
    (0.2, inf, inf)
    """
    if len(losses) != len(others) or not all(map(math.isfinite, (*losses, *others))):
        return math.inf
    return max(
        (abs(one - other) / max(1.0, abs(other)) for one, other in zip(losses, others, strict=True)), default=0.0
    )


def is_alike(losses: Sequence[float], own: Sequence[float]) -> bool:
    """Whether losses are those of a right function: the first `EARLY` are the suite's but for rounding."""
    return farthest(losses[:EARLY], own[:EARLY]) <= SAME


def digest_of(file: Path) -> str:
    """The SHA-256 of a file, empty where there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def _table(plans: Sequence[Plan], records: Sequence[Record]) -> str:
    """The first figures of each run; those of different tasks have different names."""
    return aligned(
        (),
        [
            (
                plan.name,
                *[f"{name} {figure(value)}" for name, value in record.figures.items()][:3],
                f"{record.seconds:.0f} s",
            )
            for plan, record in zip(plans, records, strict=True)
        ],
    )


def read_lab_record(directory: Path) -> Record:
    """Raises DataError where `lab run` has not made the run."""
    return read_record(directory / RECORD, Record, expected="what `lab run` writes", remedy="run it with `lab run`")
