"""Reads the weights of runs and checkpoints, and checks that they are intact and fit the model."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import atomic_write_text
from seq2seq_suite.config.versions import FORMAT, check_format
from seq2seq_suite.runs.records import read_record
from seq2seq_suite.runs.tensors import CHANGES, is_finite, present_names, with_change, with_changes, with_present_names

MODEL, STATE = "model.safetensors", "state.json"
WRITTEN = "a file as this suite writes it"
_CONVOLUTION = re.compile(r"([\w.]+\.layers\.\d+)\.convolution(_norm)?\.")  # of a Transformer layer


class _Facts(BaseModel):
    bytes: int
    sha256: str


class State(BaseModel):
    """`state.json`; weights alone have no progress."""

    format: int = 0
    files: dict[str, _Facts]
    progress: dict[str, Any] = {}
    optimizers: dict[str, list[str]] = {}  # kind -> names of the parameters that it updates


def best(directory: Path) -> Path:
    """A run's best checkpoint, its last one if none was validated; raises DataError if there is none."""
    for name in ("best", "last"):
        path = directory / "checkpoints" / name
        if path.is_dir():
            return path
    raise DataError(
        "no checkpoint",
        file=str(directory / "checkpoints"),
        expected="best or last",
        remedy="continue the run up to its first validation, with `run ... --resume`"
        if directory.is_dir()
        else "train that run first, or name another directory",
    )


def load_best(directory: Path, model: nn.Module) -> None:
    """Load the weights of a run's best checkpoint, which a running run may replace meanwhile."""
    while True:
        path = best(directory).resolve()
        try:
            load_weights(path, model)
            return
        except DataError:
            if best(directory).resolve() == path:
                raise


def load_weights(path: Path, model: nn.Module, *, grown: bool = False) -> str:
    """Load `model.safetensors` of a checkpoint folder, if its hash is right.

    Hashing costs about a second per gigabyte.

    Args:
        path: the folder.
        model: to load into.
        grown: the model may have convolutions and low-rank changes that the file does not have; they add nothing.

    Returns:
        A message: how many parameters were loaded, and how many are new.

    Raises:
        DataError: the file is missing, damaged, or of another model.
    """
    _check_weights(path)
    return put_weights(path / MODEL, model, grown=grown)


def _check_weights(path: Path) -> None:
    """Raise DataError if there is a `state.json` that does not match the weights."""
    if os.path.lexists(path / STATE):
        check_files(path, (MODEL,))


def put_weights(path: Path, model: nn.Module, *, grown: bool) -> str:
    """`load_weights` from a file that is known to be intact."""
    stored, expected = Stored(path), unique(model.state_dict())
    changes = {name: tensor for name, tensor in expected.items() if name.endswith(CHANGES)}
    adds = grown or not changes
    shapes = {name: shape for name, shape in stored.shapes.items() if not (adds and name.endswith(CHANGES))}
    fresh = changes | _fresh(expected, shapes) if grown else {}
    missing, extra = sorted(expected.keys() - shapes.keys() - fresh.keys()), sorted(shapes.keys() - expected.keys())
    if missing or extra:
        first = f"no '{missing[0]}'" if missing else f"unexpected '{extra[0]}'"
        raise DataError(
            f"these weights are another model's: {first} ({len(missing)} missing, {len(extra)} unexpected)",
            file=str(path),
            expected="the weights that config.yaml describes",
            remedy="use the run directory that the checkpoint came from",
        )
    for name, shape in shapes.items():
        if shape != tuple(expected[name].shape):
            raise DataError(
                f"'{name}' has shape {shape}",
                file=str(path),
                expected=str(tuple(expected[name].shape)),
                remedy="use the run directory that the checkpoint came from",
            )
    stored.check()
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(fresh[name] if name in fresh else stored.summed(name) if adds else stored[name])
    return _counted(expected, fresh)


def load_parts(path: Path, model: nn.Module, parts: Sequence[str]) -> str:
    """Load the named parts (`frontend`, `encoder`, ...) of another run's checkpoint into a model.

    A language model's embedding and output become the source's: see `_as_source`. Layers may have a convolution that
    the other run does not have; it is initialised to add nothing.

    Returns:
        A message that says what was loaded.

    Raises:
        DataError: the file is missing or damaged, or a part is not there or of another shape.
    """
    _check_weights(path)
    tensors = with_changes(load_tensors(path / MODEL))
    own = {name: tensor for name, tensor in unique(model.state_dict()).items() if not name.endswith(CHANGES)}
    if not any(_part(name) == "frontend" for name in tensors):
        tensors = _as_source(tensors)
    loaded: dict[str, Tensor] = {}
    added: dict[str, Tensor] = {}
    for part in parts:
        wanted, found = (
            {name: tensor for name, tensor in some.items() if _part(name) == part} for some in (own, tensors)
        )
        fresh = _fresh(wanted, found)
        found |= fresh
        wrong = sorted(wanted.keys() ^ found.keys()) or sorted(
            name for name in wanted if own[name].shape != found[name].shape
        )
        if wrong or not wanted:
            raise DataError(
                f"the part '{part}' does not fit: {wrong[0] if wrong else 'it is missing'}",
                file=str(path / MODEL),
                expected="a run with the same backbone, front-end and task options",
                remedy="give both runs the same `backbone`, or name fewer parts under init_parts",
            )
        loaded |= found
        added |= fresh
    model.load_state_dict(loaded, strict=False)
    return f"{', '.join(parts)} start from {path}: {_counted(loaded, added)}"


def _part(name: str) -> str:
    """The part of a learner that a tensor belongs to, in the terms of `init_parts`.

    >>> _part("model.encoder.layers.0.norm.gain")
    'encoder'
    >>> _part("strategy.auxiliaries.ctc.head.linear.weight")
    'ctc'
    """
    return name.removeprefix("model.").removeprefix("strategy.auxiliaries.").partition(".")[0]


def _counted(tensors: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> str:
    """How many parameters were loaded, and how many are `fresh`."""
    count, new = (sum(tensor.numel() for tensor in some.values()) for some in (tensors, fresh))
    return f"{count - new:,} parameters" + (f", and {new:,} new ones that add nothing" if new else "")


def _fresh(wanted: Mapping[str, Tensor], given: Collection[str]) -> dict[str, Tensor]:
    """The convolutions that a model has but the weights do not, initialised to add nothing to their layers."""
    layers = {found[1] for name in given if (found := _CONVOLUTION.match(name))}
    missing = {
        name: tensor
        for name, tensor in wanted.items()
        if (found := _CONVOLUTION.match(name)) and found[1] not in layers
    }
    return {
        name: torch.zeros_like(tensor) if ".convolution.outer." in name else tensor for name, tensor in missing.items()
    }


def _as_source(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """A language model's tensors renamed to those of a model that reads the texts as its source."""
    names = {
        "model.embedding.": "model.frontend.embedding.",
        "model.positions.": "model.frontend.positions.",
        "model.output.": "strategy.auxiliaries.language.head.",
    }
    return {
        next((new + name.removeprefix(old) for old, new in names.items() if name.startswith(old)), name): tensor
        for name, tensor in tensors.items()
    }


def check_files(path: Path, names: Sequence[str]) -> State:
    """`state.json` of a folder, after checking these files against it; raises DataError."""
    state = read_record(path / STATE, State, expected=WRITTEN, remedy=other_checkpoints(path))
    check_format(state.format, file=str(path / STATE))
    for name in names:
        file, facts = path / name, state.files.get(name)
        try:
            size = file.stat().st_size
            if facts is None:
                got = f"{STATE} does not name it"
            elif size != facts.bytes:
                got = f"truncated: {size} of {facts.bytes} bytes"
            elif hash_of(file) != facts.sha256:
                got = "its contents do not match its hash"
            else:
                continue
        except OSError as error:
            got = f"cannot be read: {error.strerror}"
        raise DataError(got, file=str(file), expected=WRITTEN, remedy=other_checkpoints(path))
    return state


def other_checkpoints(path: Path) -> str:
    """The remedy for a damaged checkpoint."""
    own = Path(os.path.realpath(path))  # `Path.resolve` fails on cyclic links
    others = [other.name for other in steps(own.parent) if other != own]
    return (
        f"other checkpoints here: {', '.join(others)}; run ... --resume uses them" if others else "train the run again"
    )


class Stored(Mapping[str, Tensor]):
    """The tensors of a file by the names of this version. Each is mapped when it is asked for, and no longer than it is
    used, so that they are never in memory together.

    Args:
        path: of a file of safetensors.

    Raises:
        DataError: it is missing or not whole.
    """

    def __init__(self, path: Path):
        self.path, self._places = path, dict[str, tuple[str, int | None]]()
        self.shapes: dict[str, tuple[int, ...]] = {}
        with whole(path), safe_open(path, "pt") as file:
            for old in file.keys():  # noqa: SIM118  it is no dictionary
                shape, names = tuple(file.get_slice(old).get_shape()), present_names(old)
                for piece, name in enumerate(names):
                    self._places[name] = old, piece if names[1:] else None
                    self.shapes[name] = (shape[0] // 3, *shape[1:]) if names[1:] else shape

    def __getitem__(self, name: str) -> Tensor:
        """A tensor, to be read only."""
        old, piece = self._places[name]
        with whole(self.path), safe_open(self.path, "pt") as file:  # a running run may delete it meanwhile
            found = file.get_tensor(old)
        return found if piece is None else found.chunk(3)[piece]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def summed(self, name: str) -> Tensor:
        """A tensor with its low-rank change, if it has one; see `with_change`."""
        layer = name.removesuffix(".weight")
        if f"{layer}{CHANGES[0]}" not in self:
            return self[name]
        return with_change(self[name], *(self[f"{layer}{change}"] for change in CHANGES))

    def check(self) -> None:
        """Raise DataError if numbers are not finite."""
        refuse_infinite(self, self.path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file; raises DataError if it is damaged, or weights are not finite."""
    with whole(path):
        found = with_present_names(load_file(path))
    if path.name == MODEL:
        refuse_infinite(found, path)
    return found


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Raises a DataError where a file of tensors, which is read within, is missing or damaged."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        got = "no such file" if not path.exists() else f"not a whole safetensors file ({error})"
        raise DataError(got, file=str(path), expected=WRITTEN, remedy=other_checkpoints(path.parent)) from error


def refuse_infinite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise a DataError that names the file if some tensors have numbers that are not finite."""
    broken = [name for name in tensors if not is_finite(tensors[name])]
    if broken:
        raise DataError(
            f"{len(broken)} of {len(tensors)} tensors have numbers that are not finite, such as {broken[0]}",
            file=str(path),
            expected="weights",
            remedy=other_checkpoints(path.parent),
        )


def write_weights(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Write a checkpoint of weights alone into a folder that is there."""
    save_file(tensors, folder / MODEL)
    facts = {MODEL: {"bytes": (folder / MODEL).stat().st_size, "sha256": hash_of(folder / MODEL)}}
    atomic_write_text(folder / STATE, json.dumps({"format": FORMAT, "files": facts}, indent=1))


def steps(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    found = [path for path in folder.glob("step-*") if path.is_dir() and path.name[5:].isdigit()]
    return sorted(found, key=lambda path: int(path.name[5:]))


def unique(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors without the second names of tied ones."""
    first: dict[Any, tuple[str, Tensor]] = {}
    for name, tensor in state.items():
        first.setdefault((tensor.data_ptr(), tensor.shape) if tensor.numel() else name, (name, tensor))
    return dict(first.values())


def hash_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
