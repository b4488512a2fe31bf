"""Checkpoints: all that a run needs to continue bit for bit, written atomically.

`checkpoints/step-N/` holds `model.safetensors` (the weights to use: averaged ones where averaging is on),
`training.safetensors` (weights in training without frozen ones, optimiser, random state) and `state.json` (format,
place in the data, best figure, time, and size and hash of the two files). `last` and `best` point to such folders.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from seq2seq_suite.common.errors import DataError, RunError
from seq2seq_suite.common.files import naming, to_disk
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.config.versions import FORMAT, FormatError
from seq2seq_suite.runs.records import shaped
from seq2seq_suite.runs.tensors import save_each
from seq2seq_suite.runs.weights import (
    MODEL,
    STATE,
    WRITTEN,
    check_files,
    hash_of,
    load_tensors,
    other_checkpoints,
    put_weights,
    steps,
    unique,
)
from seq2seq_suite.training.optimizer import MovingAverage

TRAINING = "training.safetensors"
_Content = dict[str, Tensor] | Callable[[Path], None]  # of a file: its tensors, or what writes it


@dataclass
class Progress:
    """How far a run has come. Steps and seconds are totals over all its sessions.

    Args:
        update: updates done.
        epoch, position: place in the data: whole epochs, and batches of the present one.
        seconds: time spent training and validating.
        validation_seconds: of these, those spent validating.
        tokens: source and target symbols trained on.
        best_update, best_figure, best_loss: of the best validation; -1 and NaN before the first.
        equal_validations: how many there were if the metric had the same value at all of them, else 0.
        validations_since_best: what `training.patience` counts.
        validated_update: update of the last validation.
        finished: a limit was reached.
        figures: of the last validation.
        since_logged: sums of losses since the last row of metrics.jsonl, so that a resumed run writes the same rows.
        gradient_norms: of a joint run with `mixture.balance`, each task's moving average.
    """

    update: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    tokens: int = 0
    best_update: int = -1
    best_figure: float = float("nan")
    best_loss: float = float("nan")
    equal_validations: int = 0
    validations_since_best: int = 0
    validated_update: int = -1
    finished: bool = False
    figures: dict[str, float] = field(default_factory=dict)
    since_logged: dict[str, float] = field(default_factory=dict)
    gradient_norms: dict[str, float] = field(default_factory=dict)
    validation_seconds: float = 0.0


def save(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: MovingAverage | None,
    progress: Progress,
    *,
    keep: int,
) -> Path:
    """Write `folder/step-N` in one atomic rename, point `last` (and `best`) to it and drop old ones.

    Args:
        folder: the run's `checkpoints`.
        keep: how many of the newest stay, beside the best.

    Returns:
        The new checkpoint's folder.
    """
    weights = _weights(model)
    used = {**weights, **_on_cpu(average.weights)} if average is not None else weights
    used = {name: tensor for name, tensor in used.items() if name in weights}
    frozen = {name for name, one in model.named_parameters(remove_duplicate=False) if not one.requires_grad}
    training = {f"model.{name}": tensor for name, tensor in weights.items() if name not in frozen}
    training |= _optimizer_tensors(model, optimizer)
    training |= {f"random.{name}": tensor for name, tensor in _random_state().items()}
    state = {key: None if value != value else value for key, value in asdict(progress).items()}  # JSON has no NaN
    final = folder / f"step-{progress.update}"
    _write(final, {MODEL: used, TRAINING: training}, {"progress": state, "optimizers": _updated_by(model, optimizer)})
    point(folder, "last", final)
    if progress.best_update == progress.update:
        point(folder, "best", final)
    _prune(folder, progress.best_update, keep)
    return final


def export(folder: Path, model: nn.Module) -> None:
    """Write a model's weights alone as `folder/best`: to predict with or to start from, not to resume."""
    _write(folder / "best", {MODEL: _weights(model)}, {})


def export_each(
    folder: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Iterable[tuple[str, Tensor]], dtype: str
) -> None:
    """`export` of tensors by name that come one by one and are never in memory together; see `save_each`."""
    _write(folder / "best", {MODEL: partial(save_each, shapes=shapes, tensors=tensors, dtype=dtype)}, {})


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return _on_cpu(unique(model.state_dict()))


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}


def _write(final: Path, files: Mapping[str, _Content], facts: Mapping[str, Any]) -> None:
    """Write a folder of tensors, with facts and the files' sizes and hashes in `state.json`, in one atomic rename."""
    with naming(final):
        final.parent.mkdir(exist_ok=True)  # not its parents: a deleted run directory is not created again
        _replace(final, _new_folder(final.with_name(f".{final.name}.partial"), files, facts))
        to_disk(final.parent)


def _new_folder(folder: Path, files: Mapping[str, _Content], facts: Mapping[str, Any]) -> Path:
    """A new folder with the files and `state.json`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        for name, content in files.items():
            content(folder / name) if callable(content) else save_file(content, folder / name)
        hashes = {name: {"bytes": (folder / name).stat().st_size, "sha256": hash_of(folder / name)} for name in files}
        (folder / STATE).write_text(json.dumps({"format": FORMAT, **facts, "files": hashes}, indent=1))
        for path in folder.iterdir():
            to_disk(path)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)  # frees a full disk
        if not isinstance(error, SafetensorError):
            raise
        code = re.search(r"os error (\d+)", str(error))  # safetensors reports the system's error as text only
        raise OSError(int(code[1]), os.strerror(int(code[1]))) if code else OSError(str(error)) from error
    return folder


def load_newest(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage | None
) -> tuple[Progress | None, list[str]]:
    """Restore the newest checkpoint that is whole.

    Newer ones that are broken are renamed to `broken-step-N`, so that they do not count among those to keep.

    Returns:
        Its progress, None if there is none; and a line for each checkpoint that was skipped.

    Raises:
        DataError: there are checkpoints, but none can be used.
        FormatError: the newest has a format that cannot be read.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(
            "this is a file",
            file=str(folder),
            expected="the folder of a run's checkpoints",
            remedy="restore it, or start the run again with --overwrite",
        )
    _finish_replacing(folder)
    complaints: list[str] = []
    passed: list[Path] = []
    for path in reversed(steps(folder)):
        try:
            progress, optimizers = _read_state(path)
            tensors = load_tensors(path / TRAINING)
            put_weights(path / MODEL, model, grown=False)
        except FormatError:  # it is whole
            raise
        except DataError as error:
            complaints.append(f"{error.file or path}: {error.got}; skipped")
            passed.append(path)
            continue
        if average is not None:
            parameters = dict(model.named_parameters())
            average.weights = {name: parameters[name].detach().clone() for name in average.weights}
        model.load_state_dict(_section(tensors, "model."), strict=False)
        _restore_optimizer(model, optimizer, tensors, optimizers, path / TRAINING)
        _restore_random(_section(tensors, "random."))
        for broken in passed:
            aside = folder / f"broken-{broken.name}"
            shutil.rmtree(aside, ignore_errors=True)
            broken.rename(aside)
        point(folder, "last", path)
        complaints.extend(_restore_best(folder, progress))
        return progress, complaints
    if complaints:
        raise DataError(
            "no checkpoint can be used:\n  " + "\n  ".join(complaints),
            file=str(folder),
            remedy="start the run again with --overwrite",
        )
    return None, complaints


def point(folder: Path, name: str, target: Path) -> None:
    """Make `folder/name` a link to `target`, atomically."""
    link = folder / f".{name}.partial"
    with naming(folder / name):
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        os.replace(link, folder / name)


def newest(folder: Path) -> Progress | None:
    """The progress of a run's newest checkpoint, None if there is none; raises DataError if that is not whole."""
    found = steps(folder)
    return _read_state(found[-1])[0] if found else None


def _replace(final: Path, partial: Path) -> None:
    """Put `partial` in the place of `final`; `_finish_replacing` repairs a crash between the two renames."""
    old = final.with_name(f".{final.name}.old")
    if final.exists():
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
    partial.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def _finish_replacing(folder: Path) -> None:
    """Restore checkpoints whose replacement a crash interrupted, and delete partial ones."""
    for old in folder.glob(".step-*.old"):
        final = folder / old.name[1:].removesuffix(".old")
        if final.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(final)
    for unfinished in folder.glob(".step-*.partial"):
        shutil.rmtree(unfinished, ignore_errors=True)


def _restore_best(folder: Path, progress: Progress) -> list[str]:
    """Point `best` to the best checkpoint; if that is missing or damaged, forget it and report that."""
    best = folder / f"step-{progress.best_update}"
    try:
        check_files(best, (MODEL,))
        point(folder, "best", best)
        return []
    except DataError as error:
        got = error.got
    (folder / "best").unlink(missing_ok=True)
    if progress.best_update < 0:
        return []
    lost = f"{best}: the best checkpoint cannot be used ({got}); the next validation chooses a new one"
    progress.best_update, progress.best_figure, progress.validations_since_best = -1, float("nan"), 0
    progress.best_loss, progress.equal_validations = float("nan"), 0
    return [lost]


def _updated_by(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, list[str]]:
    """Which parameters each kind of optimiser updates, by the groups' `kind`."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return grouped((group["kind"], names[one]) for group in optimizer.param_groups for one in group["params"])


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    found: dict[str, Tensor] = {}
    for parameter, values in optimizer.state.items():
        for key, value in values.items():
            if not isinstance(value, (Tensor, int, float)) or "." in key:
                raise RunError(
                    f"training.optimizer keeps '{key}', a {type(value).__name__}, of '{names[parameter]}', "
                    "which no checkpoint can hold: keep tensors and numbers, under names without dots"
                )
            exact = torch.float64 if isinstance(value, float) else None
            found[f"optimizer.{key}.{names[parameter]}"] = torch.as_tensor(value, dtype=exact).cpu().contiguous()
    return found


def _restore_optimizer(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    tensors: dict[str, Tensor],
    optimizers: dict[str, list[str]],
    path: Path,
) -> None:
    parameters = dict(model.named_parameters())
    before = {name: kind for kind, names in optimizers.items() for name in names}
    for kind, names in _updated_by(model, optimizer).items():
        for name in names:
            if before.get(name, kind) != kind:
                raise DataError(
                    f"another optimizer updated '{name}': {before[name]}",
                    file=str(path),
                    expected=f"the state of {kind}, as this version assigns the parameters",
                    remedy="resume with the version that started the run, or start again with --overwrite",
                )
    for full_name, tensor in _section(tensors, "optimizer.").items():
        key, _, name = full_name.partition(".")
        parameter = parameters[name]
        if not parameter.requires_grad:  # `training.freeze` was changed
            continue
        optimizer.state[parameter][key] = tensor.to(parameter.device)


def _random_state() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _restore_random(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def _section(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read_state(path: Path) -> tuple[Progress, dict[str, list[str]]]:
    """Progress of a checkpoint, after checking its hashes, and its parameters by optimizer; raises DataError."""
    state = check_files(path, (MODEL, TRAINING))
    progress = {key: value for key, value in state.progress.items() if value is not None}
    place = {"expected": WRITTEN, "remedy": other_checkpoints(path)}
    return shaped(progress, Progress, path / STATE, **place), state.optimizers or _of_older(path / TRAINING)


def _of_older(path: Path) -> dict[str, list[str]]:
    """Parameters by optimizer, from the names of the optimizers' state, as in version 0.1.0."""
    kinds = {"exp_avg": "adamw", "momentum_buffer": "muon"}
    with safe_open(path, "pt") as file:
        parts = [one.removeprefix("optimizer.").partition(".") for one in file.keys()]  # noqa: SIM118
    return grouped((kinds[key], name) for key, _, name in parts if key in kinds)


def _prune(folder: Path, best_update: int, keep: int) -> None:
    for path in steps(folder)[:-keep]:
        if path.name != f"step-{best_update}":
            shutil.rmtree(path, ignore_errors=True)
