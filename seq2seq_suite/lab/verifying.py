"""Whether a student's runs are what they say: replayed, predicted with anew, and scored where his code never is.

A task of his own is made by his code: its rows, the reading of its answers and their score come from the sandbox that
laws are tried in, while the weights answer in this process, where none of it runs.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from seq2seq_suite import __version__
from seq2seq_suite.api import overrides
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.common.files import read_json
from seq2seq_suite.common.files import read_rows as read_lines
from seq2seq_suite.common.user_code import is_code, trusting
from seq2seq_suite.config import config_file
from seq2seq_suite.lab import unseen
from seq2seq_suite.lab.assignment import Broken
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.code import student_files
from seq2seq_suite.lab.experiment import SPLIT, Experiment, Plan
from seq2seq_suite.lab.folder import Folder, printable, refusals
from seq2seq_suite.lab.parts import job
from seq2seq_suite.lab.plug import plugged
from seq2seq_suite.lab.remote import Workers
from seq2seq_suite.lab.running import (
    COMPARED,
    RECORD,
    Record,
    digest_of,
    farthest,
    first_losses,
    forced_accuracy,
    is_alike,
    read_lab_record,
)
from seq2seq_suite.lab.sandbox import LATE, MOST_FILE_SIZE
from seq2seq_suite.lab.starting import named
from seq2seq_suite.lab.submitting import LARGEST, copy
from seq2seq_suite.lab.task import UNSEEN
from seq2seq_suite.metrics.significance import FORMULAS, interval
from seq2seq_suite.prediction import load_run as opening
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks.base import Task

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
    return (
        ""
        if record is None or record.suite == __version__
        else (
            f"; version {record.suite} of the suite made this run, {__version__} looks at it: run it again, or grade "
            f"with {record.suite}"
        )
    )


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
    mine = {name: file.stem for name, file in student_files(folder.path).items()}
    for why in (why for name in plan.plug if name in mine for why in refusals(folder.files, mine[name])):
        raise Refused(f"{why.file}:{why.line} {why.message}: what the laws refuse is not run")
    if is_code(plan.config.task) or plan.config.target == "continuations":
        answer = replay(experiment, plan, [], [])
        _look_at_replay(plan, record, answer)
        calls = Counter(answer["calls"])
        found = (
            _of_his_own(folder, directory, plan, record, seed, calls)
            if is_code(plan.config.task)
            else _judged(directory, record, seed)
        )
        return _shared(found, plan, mine, {**answer, "calls": calls})
    task = open_task(plan.config.task, plan.config)
    own, stored = _own_predictions(task, directory, plan)
    score = unseen.scored(task, stored, own)
    _look_at_figure(task, record, score, "its predictions have")
    if "forced" in record.figures and not plan.source:  # the directory of a search has no configuration to trust
        forced = forced_accuracy(directory, plan.config)["forced"]
        if not abs(forced - record.figures["forced"]) <= 0.5:
            raise Refused(f"figures: forced {record.figures['forced']:.1f} is claimed, the weights have {forced:.1f}")
    fresh = unseen.drawn(task, seed)
    with tempfile.TemporaryDirectory() as scratch:
        answer = replay(
            experiment,
            plan,
            *(
                unseen.inputs(task, examples, Path(scratch) / name)
                for name, examples in (("fresh", fresh), ("own", own[:AGAIN]))
            ),
        )
    _look_at_replay(plan, record, answer)
    agreeing = sum(
        unseen.without_tags(one) == unseen.without_tags(other)
        for one, other in zip(answer["again"], stored, strict=False)
    ) / len(answer["again"])
    if agreeing < AS_BEFORE:
        raise Refused(f"weights: they write {100 * agreeing:.0f} % of the first predictions as the run has them")
    return _shared(_on_fresh(task, record, score, unseen.scored(task, answer["fresh"], fresh)), plan, mine, answer)


def _judged(directory: Path, record: Record, seed: int) -> Run:
    """A language model's texts, judged by its weights in this process: nothing of the student's is plugged in."""
    loaded = opening.open_run(directory, [])
    task = loaded.task
    own, fresh = (
        loaded.predictor.score(examples, task.encode(examples))[0]
        for examples in (task.read(SPLIT), unseen.drawn(task, seed))
    )
    _look_at_figure(task, record, own, "the weights have")
    return _on_fresh(task, record, own, fresh)


def _of_his_own(folder: Folder, directory: Path, plan: Plan, record: Record, seed: int, calls: Counter[str]) -> Run:
    """A task of the student's own: new rows by his generator, answered by the weights alone. Counts his functions'
    calls.
    """

    def call(name: str, *arguments: Any) -> Any:
        calls[name] += 1
        return student.call(name, *arguments)

    assignment = named(folder.assignment)
    part = next(part for part in assignment.parts if set(plan.plug) <= set(part.functions))
    try:
        with Workers() as workers, workers.student(OWN_SECONDS) as student:
            student.begin(job(assignment, part, folder.files))
            stand_ins = {name: partial(call, name) for name in plan.plug}
            with plugged(stand_ins), trusting(plan.config.code.values()):
                loaded = opening.open_run(directory, overrides({"task": plan.config.task}))
                task: Any = loaded.task  # an OwnTask, but of a module of its own, as all code of users
                own, fresh = (
                    _answered(loaded, examples)
                    for examples in (task.read(SPLIT), task.rows(UNSEEN + seed)[: unseen.MOST])
                )
                _look_at_figure(task, record, own, "the weights have")
                return _on_fresh(task, record, own, fresh)
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
    config, expected = (
        yaml.safe_load(text)
        for text in ((directory / "config.yaml").read_text(encoding="utf-8"), config_file.dump(plan.config))
    )
    for one in (config, expected):
        if is_code(one["task"]):
            one["task"] = Path(one["task"].replace("\\", "/")).name
    different = [key for key in {**expected, **config} if key != "init_from" and config.get(key) != expected.get(key)]
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
    stored = [str(row["prediction"]) for row in rows]
    if len(stored) != len(examples):
        raise Refused(f"predictions: there are {len(stored)} of {len(examples)}")
    return examples, stored


def _on_fresh(task: Task, record: Record, own: Score, fresh: Score) -> Run:
    """Whether a run's figure fits what its weights reach on fresh sentences: both differ by chance.

    The bound is twice the 95 % interval of the difference, so that one honest run in ten thousand is refused.
    """
    there, here = (interval(np.array(score.counts, dtype=float), FORMULAS[score.formula]) for score in (fresh, own))
    low = there.figure - 2 * math.hypot(there.figure - there.low, here.high - here.figure) - 0.5
    high = there.figure + 2 * math.hypot(there.high - there.figure, here.figure - here.low) + 0.5
    claimed, expected = own.figures[task.primary_metric], f"{low:.1f} to {high:.1f}"
    if not low <= claimed <= high:
        return Run(
            record,
            f"figures: {task.primary_metric} {claimed:.2f} is claimed, on fresh sentences the weights "
            f"have {there.figure:.2f}",
            f"{claimed:.2f}",
            expected,
        )
    return Run(
        record,
        "",
        f"{claimed:.2f}",
        expected,
        f"{task.primary_metric} {claimed:.2f}, on {len(fresh.counts)} fresh sentences {there.figure:.2f}",
    )


def _shared(run: Run, plan: Plan, mine: Collection[str], answer: Mapping[str, Any]) -> Run:
    """A run with its share: of what should be plugged in, how much was written and was called in the replay; half of
    it where the losses are not those of the suite's own code, which are computed here.

    Args:
        mine: the functions that the student has written. A run of the suite's code alone wants one at least.
    """
    if run.problem:
        return run
    called = [name for name in plan.plug if name in mine and answer["calls"].get(name)]
    share, says = len(called) / max(1, len(plan.plug)), run.says
    if not plan.plug:
        asked = {name for one in ASSIGNMENTS for part in one.parts for name in part.functions}
        share, says = (1.0, says) if asked & set(mine) else (0.0, f"{says}; no function of yours is written")
    if idle := [name for name in plan.plug if name not in called]:
        says += f"; not yours, or never called: {', '.join(idle)}"
    if called and plan.alike and not plan.source:
        own = first_losses(plan.config)
        says += f"; from the suite's own losses {farthest(answer['losses'], own):.1e}"
        share *= 1.0 if is_alike(answer["losses"], own) else 0.5
    return replace(run, share=share, says=says)


def in_child(experiment: Experiment, plan: Plan, fresh: Sequence[str], own: Sequence[str]) -> dict[str, Any]:
    """Replay and predict in another process, which is given sentences without their answers.

    Raises:
        Refused: the student's code fails, or takes too long.
    """
    sounds = hasattr(plan.config, "audio")
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as folder:
        answer, said, copied = (Path(folder) / name for name in ("answer.json", "said", "submission"))
        copy(experiment.folder.path, copied)
        shutil.copyfile(experiment.file, file := Path(folder) / experiment.file.name)
        if sounds:
            fresh, own = (
                [
                    shutil.copyfile(one, copied.with_name(f"{kind}{number}.wav")).as_posix()
                    for number, one in enumerate(each)
                ]
                for kind, each in (("fresh", fresh), ("own", own))
            )
        request = {
            "directory": str(copied),
            "file": str(file),
            "run": plan.name,
            "fresh": list(fresh),
            "own": list(own),
            "sounds": sounds,
            "seconds": SECONDS,
        }
        environment = {
            name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG", "PYTHONPATH") if name in os.environ
        }
        environment |= {
            "TMPDIR": folder,
            "HOME": folder,
            "XDG_CACHE_HOME": f"{folder}/cache",
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
        }
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")])
        )
        ended = None
        with said.open("wb") as stream, suppress(subprocess.TimeoutExpired):
            ended = subprocess.run(
                [sys.executable, "-m", "seq2seq_suite.lab.replaying", str(answer)],
                cwd=folder,
                input=json.dumps(request),
                text=True,
                env=environment,
                timeout=SECONDS + 60,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                check=False,
            ).returncode
        if ended in (None, LATE):
            raise Refused(f"replay: no answer in {SECONDS} s, or more than {MOST_FILE_SIZE >> 30} GiB written")
        if answer.is_symlink() or not answer.is_file() or answer.stat().st_size > LARGEST:
            last = (said.read_text(errors="replace").strip().splitlines() or ["it ended without a word"])[-1]
            raise Refused(f"replay: the code handed in fails: {printable(last)}")
        found = read_json(answer)
    if "error" in found:
        raise Refused(f"replay: {printable(str(found['error']).splitlines()[0], 300)}")
    if len(found["fresh"]) != len(fresh) or len(found["again"]) != len(own):
        raise Refused("replay: predictions are missing")
    return found
