"""Checkpoints: all that a run needs to go on bit for bit, written so that no moment of a crash can hurt them.

`checkpoints/step-N/` holds `model.safetensors` (the weights to use: averaged ones where averaging is on),
`training.safetensors` (weights in training, optimiser, random state) and `state.json` (place in the data, best
figure, time, and size and hash of the two files). `last` and `best` point to such folders.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from seq2seq_suite.training.optimizer import MovingAverage
from seq2seq_suite.types import DataError

MODEL, TRAINING, STATE = "model.safetensors", "training.safetensors", "state.json"
_CONVOLUTION = re.compile(r"(\w+\.layers\.\d+)\.convolution(_residual)?\.")  # of a Transformer layer


@dataclass
class Progress:
    """How far a run has come. Steps and seconds are totals over all its sessions.

    Args:
        update: updates done.
        epoch, position: place in the data: whole epochs, and batches of the present one.
        seconds: time spent training and validating.
        tokens: source and target symbols trained on.
        best_update, best_figure: of the best validation; -1 and NaN before the first.
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
    validations_since_best: int = 0
    validated_update: int = -1
    finished: bool = False
    figures: dict[str, float] = field(default_factory=dict)
    since_logged: dict[str, float] = field(default_factory=dict)
    gradient_norms: dict[str, float] = field(default_factory=dict)


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage | None,
         progress: Progress, *, keep: int) -> Path:
    """Write `folder/step-N` in one atomic rename, point `last` (and `best`) to it and drop old ones.

    Args:
        folder: the run's `checkpoints`.
        keep: how many of the newest stay, beside the best.

    Returns:
        The new checkpoint's folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{progress.update}"
    partial = folder / f".step-{progress.update}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    weights = {name: tensor.contiguous() for name, tensor in _unique(model.state_dict()).items()}
    used = {**weights, **average.weights} if average is not None else weights
    used = {name: tensor for name, tensor in used.items() if name in weights}
    save_file(used, partial / MODEL)
    training = {f"model.{name}": tensor for name, tensor in weights.items()}
    training |= _optimizer_tensors(model, optimizer)
    training |= {f"random.{name}": tensor for name, tensor in _random_state().items()}
    save_file(training, partial / TRAINING)
    files = {name: {"bytes": (partial / name).stat().st_size, "sha256": _hash(partial / name)}
             for name in (MODEL, TRAINING)}
    state = {**asdict(progress), "best_figure": None if progress.best_update < 0 else progress.best_figure}
    (partial / STATE).write_text(json.dumps({"progress": state, "files": files}, indent=1))
    for path in partial.iterdir():
        _sync(path)
    _replace(final, partial)
    _sync(folder)
    point(folder, "last", final)
    if progress.best_update == progress.update:
        point(folder, "best", final)
    _prune(folder, progress.best_update, keep)
    return final


def export(folder: Path, model: nn.Module) -> None:
    """Write a model's weights alone as `folder/best`: to be decoded with or begun with, not to be resumed."""
    final = folder / "best"
    final.mkdir(parents=True, exist_ok=True)
    partial = final / f".{MODEL}.partial"
    save_file({name: tensor.contiguous() for name, tensor in _unique(model.state_dict()).items()}, partial)
    _sync(partial)
    partial.replace(final / MODEL)


def load_newest(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage | None
                ) -> tuple[Progress | None, list[str]]:
    """Restore the newest checkpoint that is whole.

    Broken ones that are newer are renamed to `broken-step-N`, so that they do not count among those to keep.

    Returns:
        Its progress, None if there is none; and a line for each checkpoint that had to be passed over.

    Raises:
        DataError: there are checkpoints, but none can be used.
    """
    _finish_replacing(folder)
    complaints: list[str] = []
    passed: list[Path] = []
    for path in reversed(steps(folder)):
        try:
            progress = _read_state(path)
            tensors = _load_tensors(path / TRAINING)
            load_weights(path, model)
        except DataError as error:
            complaints.append(f"{error.file or path}: {error.got}; passed over")
            passed.append(path)
            continue
        if average is not None:
            parameters = dict(model.named_parameters())
            average.weights = {name: parameters[name].detach().clone() for name in average.weights}
        model.load_state_dict(_section(tensors, "model."), strict=False)
        _restore_optimizer(model, optimizer, tensors)
        _restore_random(_section(tensors, "random."))
        for broken in passed:
            aside = folder / f"broken-{broken.name}"
            shutil.rmtree(aside, ignore_errors=True)
            broken.rename(aside)
        point(folder, "last", path)
        complaints.extend(_restore_best(folder, progress))
        return progress, complaints
    if complaints:
        raise DataError("no checkpoint can be used:\n  " + "\n  ".join(complaints), file=str(folder),
                        remedy="start the run anew with --overwrite")
    return None, complaints


def best(directory: Path) -> Path:
    """A run's best checkpoint, its last one if none was validated; raises DataError if there is none."""
    for name in ("best", "last"):
        path = directory / "checkpoints" / name
        if path.is_dir():
            return path
    raise DataError("no checkpoint", file=str(directory / "checkpoints"), expected="best or last",
                    remedy="let the run reach its first validation, or `run ... --resume` it")


def load_weights(path: Path, model: nn.Module, *, grown: bool = False) -> str:
    """Load `model.safetensors` of a checkpoint folder.

    Args:
        path: the folder.
        model: to load into.
        grown: the model may have convolutions that the file has not; they begin by adding nothing.

    Returns:
        A line that says how many numbers were taken, and how many are new.

    Raises:
        DataError: the file is missing, truncated, or of another model.
    """
    tensors = _load_tensors(path / MODEL)
    expected = _unique(model.state_dict())
    fresh = _fresh(expected, tensors) if grown else {}
    tensors |= fresh
    missing, extra = sorted(expected.keys() - tensors.keys()), sorted(tensors.keys() - expected.keys())
    if missing or extra:
        first = f"no '{missing[0]}'" if missing else f"'{extra[0]}' too many"
        raise DataError(f"these weights are another model's: {first} ({len(missing)} missing, {len(extra)} too many)",
                        file=str(path / MODEL), expected="the weights that config.yaml describes",
                        remedy="use the run directory that the checkpoint came from")
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise DataError(f"'{name}' has shape {tuple(tensor.shape)}", file=str(path / MODEL),
                            expected=str(tuple(expected[name].shape)),
                            remedy="use the run directory that the checkpoint came from")
    model.load_state_dict(tensors, strict=False)
    return _counted(tensors, fresh)


def load_parts(path: Path, model: nn.Module, parts: Sequence[str]) -> str:
    """Load the named parts (`frontend`, `encoder`, ...) of another run's checkpoint into a model.

    What a language model has learned of its texts' symbols becomes that of the source's: see `_as_source`. Layers may
    have a convolution that they had not in the other run; it begins by adding nothing.

    Returns:
        A line that says what was taken.

    Raises:
        DataError: the file is missing or truncated, or a part is not there or of another shape.
    """
    tensors = _load_tensors(path / MODEL)
    own = _unique(model.state_dict())
    if not any(name.startswith("frontend.") for name in tensors):
        tensors = _as_source(tensors)
    taken: dict[str, Tensor] = {}
    added: dict[str, Tensor] = {}
    for part in parts:
        wanted = {name: tensor for name, tensor in own.items() if name.partition(".")[0] == part}
        found = {name: tensor for name, tensor in tensors.items() if name.partition(".")[0] == part}
        fresh = _fresh(wanted, found)
        found |= fresh
        wrong = sorted(wanted.keys() ^ found.keys()) or sorted(
            name for name in wanted if own[name].shape != found[name].shape)
        if wrong or not wanted:
            raise DataError(f"the part '{part}' does not fit: {wrong[0] if wrong else 'there is none'}",
                            file=str(path / MODEL), expected="a run with the same backbone, front-end and task options",
                            remedy="give both runs the same `backbone`, or name fewer parts under init_parts")
        taken |= found
        added |= fresh
    model.load_state_dict(taken, strict=False)
    return f"{', '.join(parts)} begin as in {path}: {_counted(taken, added)}"


def _counted(tensors: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> str:
    """How many numbers come from a file, and how many are `fresh` among them."""
    count, new = (sum(tensor.numel() for tensor in some.values()) for some in (tensors, fresh))
    return f"{count - new:,} numbers" + (f", and {new:,} of new convolutions" if new else "")


def _fresh(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The convolutions that a model has and given weights have not, as new ones that add nothing to their layers."""
    layers = {found[1] for name in given if (found := _CONVOLUTION.match(name))}
    missing = {name: tensor for name, tensor in wanted.items()
               if (found := _CONVOLUTION.match(name)) and found[1] not in layers}
    return {name: torch.zeros_like(tensor) if ".convolution.outer." in name else tensor
            for name, tensor in missing.items()}


def _as_source(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """A language model's tensors under the names that they have where its texts are the source."""
    names = {"embedding.": "frontend.embedding.", "positions.": "frontend.positions.", "output.": "language."}
    return {next((new + name.removeprefix(old) for old, new in names.items() if name.startswith(old)), name): tensor
            for name, tensor in tensors.items()}


def steps(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    found = [path for path in folder.glob("step-*") if path.is_dir() and path.name[5:].isdigit()]
    return sorted(found, key=lambda path: int(path.name[5:]))


def point(folder: Path, name: str, target: Path) -> None:
    """Make `folder/name` a link to `target`, atomically."""
    link = folder / f".{name}.partial"
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)
    os.replace(link, folder / name)


def _replace(final: Path, partial: Path) -> None:
    """Put `partial` in the place of `final`; `_finish_replacing` mends a crash between the two renames."""
    old = final.with_name(f".{final.name}.old")
    if final.exists():
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
    partial.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def _finish_replacing(folder: Path) -> None:
    """Bring back checkpoints whose replacement a crash cut short, and clear away what was half written."""
    for old in folder.glob(".step-*.old"):
        final = folder / old.name[1:].removesuffix(".old")
        if final.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(final)
    for partial in folder.glob(".step-*.partial"):
        shutil.rmtree(partial, ignore_errors=True)


def _restore_best(folder: Path, progress: Progress) -> list[str]:
    """Point `best` to the best checkpoint; where that one is gone, forget it and say so."""
    best = folder / f"step-{progress.best_update}"
    if best.is_dir():
        point(folder, "best", best)
        return []
    (folder / "best").unlink(missing_ok=True)
    if progress.best_update < 0:
        return []
    lost = f"{best}: the best checkpoint is gone; the next validation decides anew"
    progress.best_update, progress.best_figure, progress.validations_since_best = -1, float("nan"), 0
    return [lost]


def _unique(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors without the second names of tied ones."""
    seen: set[tuple[int, tuple[int, ...]]] = set()
    kept = {}
    for name, tensor in state.items():
        key = (tensor.data_ptr(), tuple(tensor.shape))
        if tensor.numel() and key in seen:
            continue
        seen.add(key)
        kept[name] = tensor
    return kept


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {f"optimizer.{key}.{names[parameter]}": torch.as_tensor(value).contiguous()
            for parameter, values in optimizer.state.items() for key, value in values.items()}


def _restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for full_name, tensor in _section(tensors, "optimizer.").items():
        key, _, name = full_name.partition(".")
        parameter = parameters[name]
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
    return {name[len(prefix):]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read_state(path: Path) -> Progress:
    try:
        state = json.loads((path / STATE).read_text())
        for name, facts in state["files"].items():
            size = (path / name).stat().st_size
            if size != facts["bytes"]:
                raise DataError(f"truncated: {size} of {facts['bytes']} bytes", file=str(path / name))
            if _hash(path / name) != facts["sha256"]:
                raise DataError("its contents are not what was written", file=str(path / name))
        progress = Progress(**state["progress"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"not a checkpoint of this suite ({error})", file=str(path)) from error
    if progress.best_figure is None:
        progress.best_figure = float("nan")
    return progress


def _load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        got = "no such file" if not path.exists() else f"not a whole safetensors file ({error})"
        others = [other.name for other in steps(path.parent.resolve().parent) if other != path.parent.resolve()]
        raise DataError(got, file=str(path), expected="weights written by this suite",
                        remedy=f"other checkpoints here: {', '.join(others)}" if others else "train the run again"
                        ) from error


def _prune(folder: Path, best_update: int, keep: int) -> None:
    for path in steps(folder)[:-keep]:
        if path.name != f"step-{best_update}":
            shutil.rmtree(path, ignore_errors=True)


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
