"""What an experiment says: its runs, what is plugged into them, and its questions."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from seq2seq_suite.api import overrides
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.user_code import absolute, is_code, trusting
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.lab.folder import Folder, printable, read_yaml
from seq2seq_suite.lab.plug import CHANGES, SLOTS
from seq2seq_suite.runs.records import shaped

# All other keys of a run are settings.
OF_A_RUN = ("base", "plug", "also", "from", "sentences", "begin", "again", "choose")
EXPERIMENTS = Path(__file__).parent / "experiments"
SPLIT = "validation"
OWN_TASK = absolute("task.py:OwnTask", Path(__file__).parent)  # the only code that an experiment may name
# What all experiments have in common: nothing that depends on the machine or the clock.
COMMON: dict[str, Any] = {
    "device": "cpu",
    "kernels": "fast",
    "training.threads": 1,
    "training.precision": "float32",
    "training.ema_decay": 0.0,
    "training.max_minutes": float("inf"),
    "training.log_every": 1,
    "training.validate_every": 10**6,
    "training.save_every": 10**6,
    "training.validate_examples": 20,
    "data.test_splits": [SPLIT],
}


class Question(BaseModel):
    """A question about the runs; `answer` is an expression, see `answers`."""

    model_config = ConfigDict(extra="forbid")
    ask: str
    ask_zh: str = ""
    answer: str = ""
    within: float = 0.0
    choices: list[str] = []
    points: float = 0.0


class File(BaseModel):
    """`experiment.yaml`.

    Args:
        base: a YAML of `experiments/base`, or beside the file, or what would stand in it.
        settings: of all runs, on top of it and of `COMMON`.
        plug: slots for the student's functions.
        choices: what the student chooses -> option -> what it adds to the runs that name the choice in `choose`.
        chosen: his options; two choices among the same options are to differ.
        runs: name -> settings of its own; `base`, `plug`, `also`; `again`, which is added to the seed; `begin`, the
            run whose weights it begins with; and for a run that only searches `from`, the run whose weights it takes,
            and `sentences` of the validation split.
        points: of the runs together; questions have their own.
    """

    model_config = ConfigDict(extra="forbid")
    base: str | dict[str, Any]
    settings: dict[str, Any] = {}
    plug: list[str] = []
    choices: dict[str, dict[str, dict[str, Any]]] = {}
    chosen: dict[str, str] = {}
    points: float = 0.0
    runs: dict[str, dict[str, Any]]
    questions: dict[str, Question] = {}


@dataclass(frozen=True)
class Plan:
    """One run of an experiment.

    Args:
        config: what is trained, or with what is searched.
        plug: slots for the student's functions.
        also: further changes, of `plug.CHANGES`.
        source: the run whose weights search; empty for one that is trained.
        sentences: of the validation split; 0 for all.
        begin: the run whose weights it begins with; empty for fresh ones.
    """

    name: str
    config: Config
    plug: tuple[str, ...]
    also: tuple[str, ...] = ()
    source: str = ""
    sentences: int = 0
    begin: str = ""

    @property
    def alike(self) -> bool:
        """Whether right functions give the suite's own losses."""
        return not self.also and all(SLOTS[name].alike for name in self.plug)

    def digest(self) -> str:
        """A digest of the settings of the run, without paths."""
        facts = {
            **self.config.model_dump(mode="json"),
            "plug": self.plug,
            "also": self.also,
            "source": self.source,
            "init_from": self.begin,
            "task": self.config.task.rpartition("/")[2],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Experiment:
    """What an assignment's experiment is, for one student."""

    folder: Folder
    file: Path
    plans: dict[str, Plan]
    given: File

    def run_directory(self, name: str) -> Path:
        """Where a run is or will be."""
        return self.folder.path / "runs" / name


def read_experiment(directory: Path, *, own: bool = True, file: Path | None = None) -> Experiment:
    """The experiment of a student's folder.

    Args:
        directory: with `lab.yaml`.
        own: by the folder's `experiment.yaml`, if there is one; otherwise as the assignment has it.
        file: in place of either.

    Raises:
        ConfigError, DataError: a file is missing or wrong.
    """
    folder = Folder.read(directory)
    file = file or directory / "experiment.yaml"
    if (not own and file.parent == directory) or not file.is_file():
        file = EXPERIMENTS / f"{folder.assignment}.yaml"
    if not file.is_file():
        raise DataError(
            f"the assignment '{folder.assignment}' has no experiment",
            file=str(directory / "lab.yaml"),
            expected=f"one of {', '.join(sorted(one.stem for one in EXPERIMENTS.glob('*.yaml')))}",
        )
    given = read_file(file)
    mine = directory / "experiment.yaml"
    if given.choices and mine.is_file():
        options = read_yaml(mine, expected="the file that `lab start` wrote").get("chosen")
        given = given.model_copy(update={"chosen": given.chosen | (options if isinstance(options, dict) else {})})
    return Experiment(folder, file, _plans(given, file, folder), given)


def read_file(file: Path) -> File:
    """What an `experiment.yaml` says; raises DataError where it is none."""
    return shaped(
        config_file.parse(file),
        File,
        file,
        remedy="correct it, or copy it again with `lab start`",
        expected="base, settings, plug, choices, chosen, runs and questions",
    )


def _chosen(given: File, file: Path) -> dict[str, dict[str, Any]]:
    """What each choice adds to its runs; raises ConfigError for one that is none."""
    for name, run in given.runs.items():
        if unknown := [choice for choice in run.get("choose", ()) if choice not in given.choices]:
            raise ConfigError(
                f"runs.{name}: choose: {unknown[0]}",
                file=str(file),
                expected=f"one of {', '.join(given.choices) or 'no choices'}",
            )
    for choice, options in given.choices.items():
        option = given.chosen.get(choice, "")
        if not isinstance(option, str) or option not in options:
            raise ConfigError(
                f"chosen: {choice}: {printable(option, 20) or 'nothing'}",
                file=str(file),
                expected=f"one of {', '.join(options)}",
            )
        for other in given.choices:
            if other < choice and given.choices[other] == options and given.chosen.get(other) == option:
                raise ConfigError(
                    f"chosen: {other} and {choice} are both {option}", file=str(file), expected="two that differ"
                )
    return {choice: options[given.chosen[choice]] for choice, options in given.choices.items()}


def _plans(given: File, file: Path, folder: Folder) -> dict[str, Plan]:
    plans: dict[str, Plan] = {}
    chosen = _chosen(given, file)
    runs = {
        name: {key: value for choice in run.get("choose", ()) for key, value in chosen[choice].items()} | run
        for name, run in given.runs.items()
    }
    for name, run in runs.items():
        source, begin = (str(run.get(key, "")) for key in ("from", "begin"))
        for key, other in (("from", source), ("begin", begin)):
            if other and other not in plans:
                raise ConfigError(f"runs.{name}: {key}: there is no run {other} above it", file=str(file))
        slots, also = tuple(run.get("plug", given.plug)), tuple(run.get("also", ()))
        for slot in (*slots, *also):
            if slot not in SLOTS and slot not in CHANGES:
                raise ConfigError(
                    f"plug: {slot} has no place in the core", file=str(file), expected=f"one of {', '.join(SLOTS)}"
                )
        settings = {**COMMON, **given.settings, "seed": folder.seed + int(run.get("again", 0))}
        for settings_file in (runs[source] if source else {}, run):
            settings |= {key: value for key, value in settings_file.items() if key not in OF_A_RUN}
        if begin:
            settings["init_from"] = str(folder.path.resolve() / "runs" / begin)
        base = _base(run.get("base") or runs.get(source, {}).get("base") or given.base, file)
        with trusting([OWN_TASK]):
            config = config_file.from_mapping(base, overrides(settings))
        plans[name] = Plan(name, config, slots, also, source, int(run.get("sentences", 0)), begin)
    return plans


def _base(given: str | dict[str, Any], file: Path) -> dict[str, Any]:
    if isinstance(given, str):
        beside = file.parent / given
        return config_file.parse(beside if beside.is_file() else EXPERIMENTS / "base" / given)
    found = copy.deepcopy(given)
    if is_code(found.get("task")):
        found["task"] = absolute(found["task"], Path(__file__).parent)
    return found


def search_settings(plan: Plan) -> list[str]:
    """What a run that only searches changes in the configuration of the run whose weights it takes."""
    return [f"search={json.dumps(plan.config.search.model_dump(mode='json'))}"] if plan.source else []
