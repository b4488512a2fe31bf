"""An experiment with every combination of some settings, each as its own run."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, DataError, RunError, truncate
from seq2seq_suite.common.text import slug
from seq2seq_suite.common.user_code import trusting, trusts
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments.resuming import check_same
from seq2seq_suite.runs.joint_directories import task_directory
from seq2seq_suite.runs.records import read_summary
from seq2seq_suite.runs.run_directory import CONFIG, RunDirectory
from seq2seq_suite.studies.slurm import Cluster, log_of


def choices(setting: str) -> list[str]:
    """The overrides of `key=a,b,c`; commas inside brackets or quotes do not count.

    >>> choices("backbone.norm=layer,rms"), choices("seed=1"), choices("a=[b, c],[b]")
    (['backbone.norm=layer', 'backbone.norm=rms'], ['seed=1'], ['a=[b, c]', 'a=[b]'])
    """
    key, _, values = setting.partition("=")
    parts = re.findall(r'(?:\[[^]]*\]|\{[^}]*\}|"[^"]*"|[^,])+', values) or [""]
    return [f"{key}={part.strip()}" for part in parts]


def combinations(settings: Sequence[str]) -> list[tuple[str, ...]]:
    """The overrides of every combination of `key=a,b,c` settings.

    Raises:
        ConfigError: a key, or one of its values, is given twice.

    >>> combinations(["search.block=1,4", "search.order=any"])
    [('search.block=1', 'search.order=any'), ('search.block=4', 'search.order=any')]
    """
    keys = [setting.partition("=")[0] for setting in settings]
    if len(set(keys)) < len(keys):
        raise ConfigError(
            f"a key is given twice: {', '.join(keys)}",
            file=COMMAND_LINE,
            expected="key=a,b,c",
            remedy="give all its values to one key",
        )
    options = [choices(setting) for setting in settings]
    for found in options:
        if twice := [one for one in found if found.count(one) > 1]:
            raise ConfigError(
                f"{truncate(twice[0])} is given {found.count(twice[0]):,} times",
                file=COMMAND_LINE,
                expected="different values",
                remedy="give it once",
            )
    return list(itertools.product(*options))


def directories(settings: Sequence[str], output: Path) -> dict[Path, tuple[str, ...]]:
    """The directory of each combination, named by its settings, and its overrides; raises as `combinations` does."""
    return {output / slug("-".join(varied(settings, one))): one for one in combinations(settings)}


def varied(settings: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Those of a combination's overrides that have several values, without the key's section.

    >>> varied(["backbone.dropout=0.1,0.2", "seed=1"], ["backbone.dropout=0.1", "seed=1"])
    ['dropout=0.1']
    """
    several = {setting.partition("=")[0] for setting in settings if len(choices(setting)) > 1}
    parts = [one.partition("=") for one in overrides]
    return [f"{key.rpartition('.')[2]}={value}" for key, _, value in parts if key in several]


def on_validation(yaml: Path, overrides: Sequence[str], *more: str) -> list[str]:
    """The overrides, so that the best checkpoint is scored on the whole validation split, and on `more` splits.

    Raises:
        ConfigError: the configuration is invalid, or an override names test splits.
    """
    for override in overrides:
        if (key := override.partition("=")[0]).endswith("data.test_splits"):
            raise ConfigError(
                f"{override}: sweeps and studies rank on the validation split",
                file=COMMAND_LINE,
                expected=f"no {key}",
                remedy="leave it out; `evaluate RUN` scores test for a run that "
                "you chose, and `report_test: true` in a study for all its variants",
            )
    tasks = [f"tasks.{name}." for name in config_file.load(yaml, overrides, own=True).tasks] or [""]
    return [*overrides, *(f"{task}data.test_splits=[{', '.join(('validation', *more))}]" for task in tasks)]


def sweep(
    yaml: Path, settings: Sequence[str], output: Path, *, jobs: int, cluster: Cluster | None = None
) -> list[Path]:
    """Run the missing combinations of a grid.

    Args:
        yaml: the experiment.
        settings: `key=a,b,c`, a grid over all of them.
        output: the runs' folder.
        jobs, cluster: see `run_all`.

    Returns:
        The directories.

    Raises:
        ConfigError: see `directories` and `run_all`; or a combination is invalid, and nothing was run.
        RunError: some runs failed; the others are finished.
    """
    runs = {
        directory: (yaml, on_validation(yaml, overrides))
        for directory, overrides in directories(settings, output).items()
    }
    run_all(runs, jobs=jobs, cluster=cluster)
    return list(runs)


def run_all(runs: Mapping[Path, tuple[Path, Sequence[str]]], *, jobs: int, cluster: Cluster | None = None) -> None:
    """Run the missing runs: finished runs are kept, interrupted ones are resumed.

    Args:
        runs: directory -> the experiment's file and overrides.
        jobs: runs at a time; if more than one, the output of each goes to a file beside its directory.
        cluster: runs them as its jobs, with the same files, in place of processes of this one.

    Raises:
        ConfigError: an existing run was started with other settings; nothing was run.
        RunError: some runs failed; the others are finished.
    """
    configs = {directory: config_file.load(yaml, overrides, own=True) for directory, (yaml, overrides) in runs.items()}
    for directory, config in configs.items():
        if (directory / CONFIG).is_file():
            with trusting(config.code.values()):
                check_same(RunDirectory(directory), config)
        directory.parent.mkdir(parents=True, exist_ok=True)

    begun: list[subprocess.Popen[bytes]] = []

    def run(directory: Path) -> str:
        print(f"{directory.name}: {' '.join(runs[directory][1])}", flush=True)
        with nullcontext() if jobs == 1 else log_of(directory).open("w", encoding="utf-8") as log:
            process = subprocess.Popen(missing[directory](), stdout=log, stderr=log)
            begun.append(process)
            return f"exit code {process.wait()}"

    missing = {
        directory: partial(_command, directory, yaml, overrides, ["--trust-code"] if trusts() else [])
        for directory, (yaml, overrides) in runs.items()
        if not _has_ended(directory, configs[directory])
    }
    if cluster is not None and missing:
        ends = cluster.run(missing)
    else:
        with ThreadPoolExecutor(jobs) as pool:
            try:
                ends = dict(zip(missing, pool.map(run, missing), strict=True))
            except BaseException:  # a signal to this process alone stops its runs, too; they save first
                for process in begun:
                    process.terminate()
                raise
    failed = [f"{directory.name} ({end})" for directory, end in ends.items() if end != "exit code 0"]
    if failed:
        raise RunError(
            f"{len(failed)} of {len(runs)} runs failed: {', '.join(failed)}; call sweep again to resume them"
        )


def _command(directory: Path, yaml: Path, overrides: Sequence[str], more: Sequence[str]) -> list[str]:
    """The command that starts a run, or resumes one that has begun."""
    resume = ["--resume"] if (directory / CONFIG).is_file() else []
    return [
        sys.executable,
        "-m",
        "seq2seq_suite",
        "run",
        str(yaml),
        *overrides,
        "--output",
        str(directory),
        *resume,
        *more,
    ]


def _has_ended(directory: Path, config: Config) -> bool:
    """Whether a run has a valid summary of the splits asked for; resuming the run replaces a damaged one."""
    try:
        scored = read_summary(directory).failures
    except DataError:
        return False
    return (
        set(config.data.test_splits) <= set(scored)
        if not config.tasks
        else all(_has_ended(task_directory(directory, name), part) for name, part in config.tasks.items())
    )
