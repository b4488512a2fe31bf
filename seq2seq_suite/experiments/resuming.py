"""Checks before a run is resumed: which settings may differ."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.common.user_code import beside_of
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.drawn import Drawn
from seq2seq_suite.options.training import Training
from seq2seq_suite.runs.records import read_provenance, read_summary
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.training.checkpoint import Progress, newest
from seq2seq_suite.training.optimizer import learning_rate

# What may change: all else decides what is learned from which data or, like the optimiser, is part of the state.
_IN_A_TASK = re.compile(r"tasks\.\w+\.")  # before the keys of a joint run's tasks
_MAY_CHANGE = ("training.", "search.", "device", "data.max_bad_rows", "data.test_splits", "metrics")
_MUST_STAY = ("training.optimizer", "training.optimizer_options")
_LITTLE = 0.02  # of a learning rate, which changes as much without a word
_NO_MATTER = ("training.threads", "training.log_every", "device")  # do not affect metrics
_SAME_OUTPUTS = ("training.", "device", "kernels", "metrics", "search.batch_sentences", "search.compile")  # of weights


def fingerprint(encoded: Sequence[Encoded]) -> str:
    """A hash of a split's examples, their order included."""
    if isinstance(encoded, Drawn) and encoded.digest:
        return encoded.digest
    digest = hashlib.sha256()
    for item in encoded:
        digest.update(content(item))
    return digest.hexdigest()


def content(item: Encoded) -> bytes:
    """The bytes that `fingerprint` hashes, example by example."""
    return b"".join(np.asarray(array).tobytes() for array in (item.source, item.target, *item.auxiliary.values()))


def check_configuration(run_directory: RunDirectory, config: Config) -> None:
    """Refuse to resume with a configuration that would have trained otherwise; print the changes.

    Raises:
        ConfigError: a key has changed that must not.
    """
    before, after, changed = _changed(run_directory, config)
    wrong = [
        key for key in changed if not (plain := _IN_A_TASK.sub("", key)).startswith(_MAY_CHANGE) or plain in _MUST_STAY
    ]
    if wrong:
        key = wrong[0]
        raise ConfigError(
            f"{key} is {after[key]!r}, but the run was started with {before.get(key)!r}",
            file=str(run_directory.config),
            expected="the same task, data, model and optimizer when resuming",
            remedy="resume with the values it had, or start from scratch with --output or --overwrite",
        )
    for key in changed:
        if key != _IN_A_TASK.sub("", key) and _IN_A_TASK.sub("", key) in changed:
            continue  # the joint run changes it for all its tasks
        print(f"resuming with {key} = {after[key]} (was {before.get(key)})")
    if any(key.startswith("training.") for key in changed):
        with suppress(DataError):  # a damaged checkpoint is named when it is loaded
            old = {key.removeprefix("training."): before[key] for key in before if key.startswith("training.")}
            if said := _rate_changes(Training(**old), config.training, newest(run_directory.checkpoints)):
                run_directory.say(said)


def _rate_changes(before: Training, after: Training, progress: Progress | None) -> str:
    """A warning if the learning rate jumps, because the schedule has another length, peak or kind; else empty."""
    if progress is None or not progress.update:
        return ""

    def rate(options: Training, update: int) -> float:
        done = max(update / options.max_updates, progress.seconds / 60 / options.max_minutes)
        return learning_rate(options, update, done)

    last, next_one = rate(before, progress.update - 1), rate(after, progress.update)
    if abs(next_one - rate(before, progress.update)) <= _LITTLE * max(last, next_one):
        return ""
    now, was = (
        f"{options.schedule} over {options.max_updates:,} updates"
        + f" or {options.max_minutes:g} minutes" * (options.max_minutes < math.inf)
        for options in (after, before)
    )
    return (
        f"the learning rate goes from {last:.2g} to {next_one:.2g} at update {progress.update + 1}: {now} (was "
        f"{was}); training.schedule=constant training.learning_rate={last:.2g} stays where it was"
    )


def check_same(run_directory: RunDirectory, config: Config) -> None:
    """Refuse a run, finished or not, whose configuration differs from the one requested, but for the test splits.

    Raises:
        ConfigError: a key has changed.
    """
    before, after, changed = _changed(run_directory, config)
    for key in changed:
        if not _IN_A_TASK.sub("", key).startswith((*_NO_MATTER, "data.test_splits")):
            raise ConfigError(
                f"{key} is {after[key]!r}, but this run was started with {before.get(key)!r}",
                file=str(run_directory.config),
                expected="runs with the requested settings",
                remedy="choose another --output, or delete the run",
            )


def ended(run_directory: RunDirectory, config: Config) -> tuple[Progress, dict[str, Any]] | None:
    """Progress and summary of a complete run; None if something is left to do or to repair."""
    try:
        progress, summary = newest(run_directory.checkpoints), read_summary(run_directory.path)
    except DataError:
        return None
    _, _, changed = _changed(run_directory, config)
    asked = [key for key in changed if not _IN_A_TASK.sub("", key).startswith(_NO_MATTER)]
    if asked or progress is None or not progress.finished or summary.updates != progress.update:
        return None
    return progress, summary.model_dump(exclude_unset=True)


def check_data(run_directory: RunDirectory, hashes: dict[str, str], path: str) -> None:
    """Refuse to resume with other data than the run was started with.

    Args:
        run_directory: its `provenance.json` holds the hashes of the first start.
        hashes: split -> `fingerprint` now.
        path: of the data, for the message.

    Raises:
        DataError: a split has changed.
    """
    if not os.path.lexists(run_directory.provenance):
        return
    before = read_provenance(run_directory.path).data
    changed = [split for split, digest in hashes.items() if before.get(split, digest) != digest]
    if changed:
        raise DataError(
            f"the split '{changed[0]}' is no longer what the run was started with",
            file=path,
            expected=f"the examples whose hash is in {run_directory.provenance}, in the same order",
            remedy="restore the data, or start from scratch with --output or --overwrite",
        )


def settings_of_search(run_directory: RunDirectory, config: Config) -> dict[str, Any]:
    """The keys, with their values, in which a configuration differs from a run's and that may change its outputs."""
    _, after, changed = _changed(run_directory, config)
    return {key: after[key] for key in changed if not key.startswith(_SAME_OUTPUTS)}


def _changed(run_directory: RunDirectory, config: Config) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The settings that a run was started with, those of now, and the keys whose values differ."""
    kept, same, after = config_file.code_of(run_directory.config), {}, _flat(config.model_dump())
    for key, now in config.code.items():
        if key in kept and kept[key] != now and not _is_same(kept[key], now):
            raise ConfigError(
                f"{key}: {now} is not the code that the run was started with",
                file=str(run_directory.config),
                expected=f"what {kept[key]} has",
                remedy="resume with that, or start from scratch with --output or --overwrite",
            )
        whole, _, last = key.rpartition(".")  # of a list of metrics
        same |= {} if key not in kept else {whole: after[whole]} if last.isdigit() else {key: now}
    found = config_file.load(run_directory.config, config_file.as_overrides(same), of_run=True)
    before = _flat(found.model_dump())
    return before, after, [key for key in after if before.get(key) != after[key]]


def _is_same(*code: str) -> bool:
    """Whether `FILE.py:NAME` name the same in files of the same content, which import files of the same content."""

    def contents(file: Path) -> list[tuple[str, bytes]]:
        return sorted((str(one.relative_to(file.parent)), one.read_bytes()) for one in (file, *beside_of(file)))

    return (
        len(
            {
                (str(contents(Path(file)) if Path(file).is_file() else None), name)
                for file, _, name in (one.rpartition(":") for one in code)
            }
        )
        == 1
    )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in values.items():
        if isinstance(value, dict) and value and f"{prefix}{key}" not in _MUST_STAY:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
