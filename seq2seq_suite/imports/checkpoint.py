"""A folder as Hugging Face's programs write it: configuration, weights and card. Nothing in it is executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
import yaml
from safetensors import SafetensorError, safe_open
from torch import Tensor

from seq2seq_suite.common.errors import DataError, repr_short, truncate
from seq2seq_suite.common.files import read_json, read_text
from seq2seq_suite.export.hub import HUB, fetched
from seq2seq_suite.runs.tensors import is_finite
from seq2seq_suite.runs.weights import hash_of

_CONFIG = "config.json"
_WHOLE = "download the folder again, as a whole"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first that is there is read, whole or in shards
_ELSEWHERE = (
    "*.h5",
    "*.msgpack",
    "*.ot",
    "*.onnx",
    "*.tflite",
    "onnx/*",
    "openvino/*",
)  # the weights of other programs


class Checkpoint:
    """A model's folder.

    Args:
        folder: with config.json, weights and the files of a tokenizer.
        name: where it came from.

    Raises:
        DataError: it has no configuration or no weights, or one that cannot be read.
    """

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name
        self.config = self.read(_CONFIG)
        self.weights = Weights(folder)
        self.asked: dict[str, str] = {}  # the task and the language of a model that has several; families take them out

    @classmethod
    def of(cls, source: str) -> Checkpoint:
        """The model in a folder, or one of the Hub; raises DataError if there is none."""
        folder = Path(source)
        if not folder.exists() and re.fullmatch(r"(hf://)?[\w.-]+/[\w.-]+(@[\w./-]+)?", source):
            name = HUB + source.removeprefix(HUB)
            folder = fetched(name, without=(*_ELSEWHERE, "*.bin"))
            if not any(folder.glob("*.safetensors")):
                folder = fetched(name, without=_ELSEWHERE)
            return cls(folder, source.removeprefix(HUB).partition("@")[0])
        if not (folder / _CONFIG).is_file():
            ours = (folder / "config.yaml").is_file()
            raise DataError(
                "this is a run of the suite" if ours else f"no model: it has no {_CONFIG}",
                file=source,
                expected="a folder as Hugging Face's programs write it, or owner/name on the Hub",
                remedy="name it to predict, evaluate or init_from as it is" if ours else "correct the path",
            )
        return cls(folder, folder.resolve().name)

    def read(self, name: str, *, optional: bool = False) -> dict[str, Any]:
        """An object in a JSON file of the folder.

        Args:
            name: the file's.
            optional: an empty object stands for a file that is not there.

        Raises:
            DataError: it is missing, or no such object.
        """
        path = self.folder / name
        if optional and not path.exists():
            return {}
        found = read_json(path, expected="an object in JSON", remedy=_WHOLE)
        if not isinstance(found, dict):
            raise DataError(repr_short(found), file=str(path), expected="an object in JSON", remedy=_WHOLE)
        return found

    def bytes(self, name: str) -> bytes:
        """A file of the folder; raises DataError if it is missing."""
        path = self.folder / name
        if not path.is_file():
            raise DataError(f"the tokenizer's file {name} is missing", file=str(self.folder), remedy=_WHOLE)
        return path.read_bytes()

    def value(self, key: str, kind: type | tuple[type, ...] = int) -> Any:
        """A value of config.json; raises DataError if it is missing or of another type."""
        found = self.config.get(key)
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is int):
            expected = kind.__name__ if isinstance(kind, type) else " or ".join(one.__name__ for one in kind)
            raise self.refusal(f"{key} is {repr_short(found)}", f"a value of type {expected}")
        return found

    def refusal(self, got: str, expected: str, *, file: str = _CONFIG) -> DataError:
        """The error for what the suite cannot take in."""
        return DataError(
            got,
            file=str(self.folder / file),
            expected=expected,
            remedy="import another model, or another version of it",
        )

    def facts(self) -> dict[str, str]:
        """What provenance.json keeps: name, licence, languages and revision, and a hash of each file of weights."""
        head = self._card()
        found = {"name": self.name, "revision": self._revision()}
        for key, name in (("license", "licence"), ("language", "languages")):
            said = head.get(key, "")
            found[name] = ", ".join(map(str, said)) if isinstance(said, list) else str(said)
        return found | {f"sha256 of {path.name}": hash_of(path) for path in self.weights.files}

    def _card(self) -> Mapping[str, Any]:
        """The head of the model card; empty without one."""
        path = self.folder / "README.md"
        found = re.match(r"---\s*\n(.*?)\n---", read_text(path), re.DOTALL) if path.is_file() else None
        try:
            head = yaml.safe_load(found[1]) if found else {}
        except yaml.YAMLError:
            return {}
        return head if isinstance(head, dict) else {}

    def _revision(self) -> str:
        """The commit on the Hub, by the name of its folder in the Hub's cache, or by what the Hub's client noted."""
        noted = self.folder / ".cache" / "huggingface" / "download" / f"{_CONFIG}.metadata"
        said = read_text(noted).split("\n")[0] if noted.is_file() else self.folder.resolve().name
        return said if re.fullmatch(r"[0-9a-f]{40}", said) else ""


class Weights:
    """A checkpoint's tensors by their names; each is read when it is taken, and freed with what was made of it.

    Args:
        folder: with model.safetensors, with pytorch_model.bin, or with shards of one of both and their index.

    Raises:
        DataError: there are none, or a file is missing, cut short, or holds something else.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.files, self.types, self._taken = _files(folder), set[torch.dtype](), set[str]()
        self._readers: dict[str, Callable[[], Tensor]] = {}
        self._alive = WeakValueDictionary[str, Tensor]()  # one that is taken twice is in memory once
        for path in self.files:
            self._readers |= _readers(path)

    def __contains__(self, name: str) -> bool:
        """Whether a tensor has this name."""
        return name in self._readers

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A tensor in float32, which must have this shape; raises DataError if it is missing or otherwise."""
        if name not in self:
            raise self._refusal(f"there is no weight {name}", f"one of shape {shape}, as {_CONFIG} says")
        alive = self._alive.get(name)
        tensor = self._readers[name]() if alive is None else alive
        self._taken.add(name)
        if tuple(tensor.shape) != shape:
            raise self._refusal(f"{name} has shape {tuple(tensor.shape)}", f"{shape}, as {_CONFIG} says")
        if not tensor.is_floating_point() or not is_finite(tensor):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise self._refusal(f"{name} has numbers of type {kind}, or some that are not finite", "weights")
        if alive is None:
            self.types.add(tensor.dtype)
        self._alive[name] = found = tensor.float()
        return found

    def take_copy(self, name: str, *tied: Tensor) -> None:
        """Take a tensor, if it is there, that repeats one of those that it is `tied` to; raises DataError if not."""
        if name in self and not any(torch.equal(self.take(name, tuple(tied[0].shape)), one) for one in tied):
            raise self._refusal(f"{name} is not the matrix that it is tied to", f"its copy, as {_CONFIG} says")

    def check_all_taken(self) -> None:
        """Raise DataError if a weight is left that nothing in the suite's model corresponds to."""
        if left := sorted(self._readers.keys() - self._taken):
            raise self._refusal(
                f"the weight {left[0]}" + (f" and {len(left) - 1} more" if left[1:] else "") + " would not be used",
                f"the weights of the architecture that {_CONFIG} names",
            )

    def _refusal(self, got: str, expected: str) -> DataError:
        return DataError(got, file=str(self.folder), expected=expected, remedy=f"{_WHOLE}, or import another model")


def _files(folder: Path) -> list[Path]:
    for name in _WEIGHTS:
        if (folder / name).is_file():
            return [folder / name]
        index = folder / f"{name}.index.json"
        if index.is_file():
            found = read_json(index, remedy=_WHOLE)
            shards = found.get("weight_map") if isinstance(found, dict) else None
            if not isinstance(shards, dict) or not shards or any(Path(str(one)).name != one for one in shards.values()):
                raise DataError("no index of shards", file=str(index), expected="weight_map: names of files")
            return [folder / shard for shard in sorted(set(shards.values()))]
    raise DataError(
        "the folder has no weights that can be read",
        file=str(folder),
        expected=" or ".join((*_WEIGHTS, f"shards with {_WEIGHTS[0]}.index.json")),
        remedy=_WHOLE,
    )


def _readers(path: Path) -> dict[str, Callable[[], Tensor]]:
    """A file's tensors by their names, read when they are called for."""
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as file:
                return {name: partial(_mapped, path, name) for name in file.keys()}  # noqa: SIM118  no dictionary
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(tensors, dict) and all(isinstance(one, Tensor) for one in tensors.values()):
            return {str(name): tensor.clone for name, tensor in tensors.items()}
        reason = "it holds something else than tensors by their names"
    except FileNotFoundError:
        reason = "there is no such file"
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, LookupError) as problem:
        reason = str(problem).strip().partition("\n")[0]
    except Exception as problem:  # of pickle: cut short, or code, which is not run
        reason = str(problem).strip().partition(".")[0]
    raise DataError(
        f"no weights: {truncate(reason, 200)}", file=str(path), expected="a whole file of weights", remedy=_WHOLE
    )


def _mapped(path: Path, name: str) -> Tensor:
    """A tensor of a file, which is mapped as long as it is used: pages of a file that stays open would stay, too."""
    with safe_open(path, "pt") as file:
        return file.get_tensor(name)
