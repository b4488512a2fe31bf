"""Whether a student's runs are what they say: replayed, predicted with anew, and scored where his code never is.

A task of his own is made by his code: its rows, the reading of its answers and their score come from the sandbox that
laws are tried in, while the weights answer in this process, where none of it runs.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from seq2seq_suite import __version__, config_file
from seq2seq_suite.experiments import opening
from seq2seq_suite.experiments.opening import LoadedRun
from seq2seq_suite.files import read_json
from seq2seq_suite.files import read_rows as read_lines
from seq2seq_suite.lab import unseen
from seq2seq_suite.lab.assignment import Broken
from seq2seq_suite.lab.experiment import SPLIT, Experiment, Plan
from seq2seq_suite.lab.folder import Folder
from seq2seq_suite.lab.parts import job
from seq2seq_suite.lab.plug import plugged
from seq2seq_suite.lab.remote import Workers
from seq2seq_suite.lab.running import (
    COMPARED,
    RECORD,
    Record,
    digest_of,
    farthest,
    forced_accuracy,
    is_alike,
    read_lab_record,
)
from seq2seq_suite.lab.starting import named
from seq2seq_suite.lab.task import UNSEEN
from seq2seq_suite.library import overrides
from seq2seq_suite.metrics.significance import FORMULAS, interval
from seq2seq_suite.tasks import open_task
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.types import Example, Score
from seq2seq_suite.user_code import is_code, trusting

AGAIN, AS_BEFORE = 40, 0.9  # sentences of the run's own that its weights write again, and the share that must agree
REPLAYED = 1e-2  # how far later losses may be away: on another kind of CPU rounding grows
SECONDS, OWN_SECONDS = 240, 60.0  # of a replay; of a student's functions for a task of his own


@dataclass(frozen=True)
class Run:
    """A run that was looked at.

    Args:
        record: what it says of itself, None where there is nothing.
        problem: why it is refused; empty for an honest run.
        got, expected: the figure claimed and the interval that it must lie in, where it came to that.
        says: what was found of an honest run.
        share: of its points: of what should be plugged in, how much is the student's; half where it is not right.
    """

    record: Record | None
    problem: str = ""
    got: str = ""
    expected: str = ""
    says: str = ""
    share: float = 0.0


Replay = Callable[[Experiment, Plan, Sequence[str], Sequence[str]], dict[str, Any]]


class Refused(Exception):
    """A check failed."""


def verify(experiment: Experiment, seed: int, replay: Replay | None = None) -> dict[str, Run]:
    """Look at every run of an experiment: student, seed, configuration, data, losses, weights, figures.

    Args:
        experiment: as the assignment has it, not the student's copy.
        seed: draws the fresh sentences.
        replay: lets the student's code compute, in a process of its own.
    """
    found: dict[str, Run] = {}
    for name, plan in experiment.plans.items():
        record = None
        try:
            if plan.source and found[plan.source].problem:
                raise Refused(f"it goes on from {plan.source}, which is refused")
            record = _record(experiment, plan)
            found[name] = _look(experiment, plan, record, seed, replay or in_child)
        except Refused as refused:
            found[name] = Run(record, f"{refused}{_older(record)}")
        except Exception as error:  # whatever broken files may raise: others must still be graded
            found[name] = Run(record, f"it cannot be read: {getattr(error, 'got', error)}")
    return found


def _older(record: Record | None) -> str:
    """What may be the reason where another version of the suite made the run."""
    return "" if record is None or record.suite == __version__ else (
        f"; version {record.suite} of the suite made this run, {__version__} looks at it: run it again, or grade with "
        f"{record.suite}")


def _record(experiment: Experiment, plan: Plan) -> Record:
    if not (experiment.run_directory(plan.name) / RECORD).is_file():
        raise Refused("not run")
    return read_lab_record(experiment.run_directory(plan.name))


def _look(experiment: Experiment, plan: Plan, record: Record, seed: int, replay: Replay) -> Run:
    folder, directory = experiment.folder, experiment.run_directory(plan.name)
    if (record.assignment, record.student) != (folder.assignment, folder.student):
        raise Refused(f"student: it is a run of {record.student}, assignment {record.assignment}")
    if record.seed != plan.config.seed:
        raise Refused(f"seed: it was trained with {record.seed}, the seed of {folder.student} is {plan.config.seed}")
    if record.config != plan.digest():
        raise Refused("configuration: it is not the experiment's")
    if not plan.source:
        _look_at_configuration(directory, plan)
        if record.metrics != digest_of(directory / "metrics.jsonl") or _losses(directory) != record.losses:
            raise Refused("metrics: metrics.jsonl is not what the run wrote")
    if is_code(plan.config.task) or plan.config.target == "continuations":
        _look_at_replay(plan, record, replay(experiment, plan, [], []))
        return (_of_his_own if is_code(plan.config.task) else _judged)(folder, directory, plan, record, seed)
    task = open_task(plan.config.task, plan.config)
    own, written = _own_predictions(task, directory, plan)
    score = unseen.scored(task, written, own)
    _look_at_figure(task, record, score, "its predictions have")
    if "forced" in record.figures and not plan.source:  # the directory of a search has no configuration to trust
        forced = forced_accuracy(directory, plan.config)["forced"]
        if not abs(forced - record.figures["forced"]) <= 0.5:
            raise Refused(f"figures: forced {record.figures['forced']:.1f} is claimed, the weights have {forced:.1f}")
    fresh = unseen.drawn(task, seed)
    with tempfile.TemporaryDirectory() as scratch:
        answer = replay(experiment, plan, *(unseen.inputs(task, examples, Path(scratch) / name)
                                            for name, examples in (("fresh", fresh), ("own", own[:AGAIN]))))
    _look_at_replay(plan, record, answer)
    agreeing = sum(unseen.without_tags(one) == unseen.without_tags(other)
                   for one, other in zip(answer["again"], written, strict=False)) / len(answer["again"])
    if agreeing < AS_BEFORE:
        raise Refused(f"weights: they write {100 * agreeing:.0f} % of the first predictions as the run has them")
    return _on_fresh(task, record, score, unseen.scored(task, answer["fresh"], fresh), plan)


def _judged(_: Folder, directory: Path, plan: Plan, record: Record, seed: int) -> Run:
    """A language model's texts, judged by its weights in this process: nothing of the student's is plugged in."""
    loaded = opening.open_run(directory, [])
    task = loaded.task
    own, fresh = (loaded.predictor.score(examples, task.encode(examples))[0]
                  for examples in (task.read(SPLIT), unseen.drawn(task, seed)))
    _look_at_figure(task, record, own, "the weights have")
    return _on_fresh(task, record, own, fresh, plan)


def _of_his_own(folder: Folder, directory: Path, plan: Plan, record: Record, seed: int) -> Run:
    """A task of the student's own: new rows by his generator, answered by the weights alone."""
    assignment = named(folder.assignment)
    part = next(part for part in assignment.parts if set(plan.plug) <= set(part.functions))
    try:
        with Workers() as workers, workers.student(OWN_SECONDS) as student:
            student.begin(job(assignment, part, folder.files))
            calls = {name: partial(student.call, name) for name in plan.plug}
            with plugged(calls), trusting(plan.config.code.values()):
                loaded = opening.open_run(directory, overrides({"task": plan.config.task}))
                task = loaded.task
                own, fresh = (_answered(loaded, examples) for examples in (
                    task.read(SPLIT), task.rows(UNSEEN + seed)[:unseen.MOST]))
                _look_at_figure(task, record, own, "the weights have")
                return _on_fresh(task, record, own, fresh, plan)
    except Broken as broken:
        raise Refused(f"{part.name}.py: {broken.message}") from None


def _answered(loaded: LoadedRun, examples: Sequence[Example]) -> Score:
    return loaded.task.score([found[0][0] for found in loaded.predict(examples)], [one.reference for one in examples])


def _look_at_figure(task: Task, record: Record, score: Score, says: str) -> None:
    """The figure of the run's own sentences, as it was claimed."""
    claimed, figure = record.figures.get(task.primary_metric, float("nan")), score.figures[task.primary_metric]
    if not abs(figure - claimed) <= 0.01:
        raise Refused(f"figures: {task.primary_metric} {claimed:.2f} is claimed, {says} {figure:.2f}")


def _look_at_configuration(directory: Path, plan: Plan) -> None:
    """The run's file, read as plain data: to check it as a configuration could run code that it names.

    Only the folder of a task of one's own may be another than here.
    """
    told, expected = (yaml.safe_load(text) for text in (
        (directory / "config.yaml").read_text(encoding="utf-8"), config_file.dump(plan.config)))
    for one in (told, expected):
        if is_code(one["task"]):
            one["task"] = Path(one["task"].replace("\\", "/")).name
    different = [key for key in {**expected, **told} if key != "init_from" and told.get(key) != expected.get(key)]
    if different:
        raise Refused(f"configuration: {different[0]} is not the experiment's")


def _losses(directory: Path) -> list[float]:
    rows = [row for _, row in read_lines(directory / "metrics.jsonl") if row and row.get("split") == "train"]
    return [sum(value for name, value in row.items() if name.startswith("loss_")) for row in rows[:COMPARED]]


def _look_at_replay(plan: Plan, record: Record, answer: dict[str, Any]) -> None:
    if plan.source:
        return
    if answer["data"] != record.data:
        split = next(name for name in answer["data"] if answer["data"][name] != record.data.get(name))
        raise Refused(f"data: its split {split} is not the experiment's")
    apart = farthest(answer["losses"], record.losses)
    if not (is_alike(answer["losses"], record.losses) and apart <= REPLAYED):
        raise Refused(f"replay: the first {COMPARED} losses of the code handed in differ by {apart:.1e}")


def _own_predictions(task: Task, directory: Path, plan: Plan) -> tuple[list[Example], list[str]]:
    """The validation sentences with their right answers, from the suite; and what the run wrote for them."""
    examples = task.read(SPLIT)[: plan.sentences or None]
    rows = [row for _, row in read_lines(directory / "predictions" / f"{SPLIT}.jsonl") if row]
    written = [str(row["prediction"]) for row in rows]
    if len(written) != len(examples):
        raise Refused(f"predictions: there are {len(written)} of {len(examples)}")
    return examples, written


def _on_fresh(task: Task, record: Record, own: Score, fresh: Score, plan: Plan) -> Run:
    """Whether a run's figure fits what its weights reach on fresh sentences: both differ by chance.

    The bound is twice the 95 % interval of the difference, so that one honest run in ten thousand is refused.
    """
    there, here = (interval(np.array(score.counts, dtype=float), FORMULAS[score.formula]) for score in (fresh, own))
    low = there.figure - 2 * math.hypot(there.figure - there.low, here.high - here.figure) - 0.5
    high = there.figure + 2 * math.hypot(there.high - there.figure, here.figure - here.low) + 0.5
    claimed, expected = own.figures[task.primary_metric], f"{low:.1f} to {high:.1f}"
    if not low <= claimed <= high:
        return Run(record, f"figures: {task.primary_metric} {claimed:.2f} is claimed, on fresh sentences the weights "
                           f"have {there.figure:.2f}", f"{claimed:.2f}", expected)
    says = f"{task.primary_metric} {claimed:.2f}, on {len(fresh.counts)} fresh sentences {there.figure:.2f}"
    idle = [name for name in plan.plug if not record.calls.get(name)]
    if idle:
        says += f"; not yours, or never called: {', '.join(idle)}"
    if record.own_losses and plan.alike:
        says += f"; from the suite's own losses {farthest(record.losses, record.own_losses):.1e}"
    return Run(record, "", f"{claimed:.2f}", expected, says, _share(plan, record))


def _share(plan: Plan, record: Record) -> float:
    """Of a run's points: how much of what should be plugged in was the student's; half where it is not right."""
    called = [name for name in plan.plug if record.calls.get(name)]
    right = not (record.own_losses and plan.alike) or is_alike(record.losses, record.own_losses)
    return len(called) / max(1, len(plan.plug)) * (1.0 if right else 0.5) if plan.plug else 1.0


def in_child(experiment: Experiment, plan: Plan, fresh: Sequence[str], own: Sequence[str]) -> dict[str, Any]:
    """Replay and predict in another process, which is given sentences without their answers.

    Raises:
        Refused: the student's code fails, or takes too long.
    """
    sounds = hasattr(plan.config, "audio")
    request = {"directory": str(experiment.folder.path.resolve()), "file": str(experiment.file),
               "run": plan.name, "fresh": list(fresh), "own": list(own), "sounds": sounds,
               "reads": sorted({str(Path(file).parent) for file in (*fresh, *own)}) if sounds else []}
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        environment = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG", "HOME", "PYTHONPATH",
                                                           "XDG_CACHE_HOME") if name in os.environ}
        environment |= {"TMPDIR": folder, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [
            str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")]))
        try:
            ended = subprocess.run([sys.executable, "-m", "seq2seq_suite.lab.replaying", str(answer)], cwd=folder,
                                   input=json.dumps(request), text=True, env=environment, timeout=SECONDS,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        except subprocess.TimeoutExpired:
            raise Refused(f"replay: no answer in {SECONDS} s") from None
        if not answer.is_file():
            last = (ended.stderr.strip().splitlines() or ["it ended without a word"])[-1]
            raise Refused(f"replay: the code handed in fails: {last[:200]}")
        found = read_json(answer)
    if "error" in found:
        raise Refused(f"replay: {str(found['error']).splitlines()[0][:300]}")
    if len(found["fresh"]) != len(fresh) or len(found["again"]) != len(own):
        raise Refused("replay: predictions are missing")
    return found
