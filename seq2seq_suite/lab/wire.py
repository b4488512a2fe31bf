"""What crosses between the checking process and the one with the student's code: JSON and safetensors, never pickle.

A frame is two lengths, a JSON text and the bytes of its tensors. What the worker cannot send, such as an object of a
class of the student's, stays there; its number crosses, and comes back as an argument.
"""

from __future__ import annotations

import json
import struct
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from seq2seq_suite.lab.probes import Probe

LARGEST = 64 * 2**20  # bytes of a frame
_LENGTHS = struct.Struct(">II")


class WireError(Exception):
    """What came, or should go, is no frame."""


class Kept:
    """Something that the worker could not send."""

    def __init__(self, number: int, kind: str):
        self.number, self.kind = number, kind

    def __repr__(self) -> str:
        return f"<{self.kind}>"


class KeptTuple(tuple):
    """A tuple of a class of its own, with what it holds."""

    number: int


def pack(message: dict[str, Any], keep: Callable[[Any], int] | None = None) -> bytes:
    """A frame.

    Args:
        keep: gives the number under which something that cannot cross is kept; without it that raises WireError.
    """
    tensors: dict[str, Tensor] = {}
    body = json.dumps(_encoded(message, tensors, keep)).encode()
    size = len(body) + sum(tensor.nbytes for tensor in tensors.values())
    if size > LARGEST:
        raise WireError(f"{size:,} bytes, expected at most {LARGEST:,}")
    data = save(tensors) if tensors else b""
    return _LENGTHS.pack(len(body), len(data)) + body + data


def unpack(read: Callable[[int], bytes], kept: Callable[[int], Any] | None = None) -> dict[str, Any]:
    """The message of the next frame.

    Args:
        read: gives exactly so many bytes, or raises.
        kept: what was kept under a number; without it a `Kept` stands there.

    Raises:
        WireError: it is too large or no frame.
    """
    sizes = _LENGTHS.unpack(read(_LENGTHS.size))
    if sum(sizes) > LARGEST:
        raise WireError(f"{sum(sizes):,} bytes, expected at most {LARGEST:,}")
    body, data = (read(size) for size in sizes)
    try:
        message = _decoded(json.loads(body), load(data) if data else {}, kept)
    except Exception as error:  # whatever a hostile sender may have written
        raise WireError(f"unreadable: {type(error).__name__}") from None
    if not isinstance(message, dict):
        raise WireError("unreadable: no dictionary")
    return message


def _encoded(value: Any, tensors: dict[str, Tensor], keep: Callable[[Any], int] | None) -> Any:
    def each(values: Any) -> list[Any]:
        return [_encoded(one, tensors, keep) for one in values]

    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Tensor) and value.layout == torch.strided:
        tensors[str(len(tensors))] = value.detach().cpu().contiguous().clone()
        return {"tensor": len(tensors) - 1}
    if isinstance(value, Kept | KeptTuple):
        return {"kept": value.number}
    if isinstance(value, Probe):
        return {"probe": [value.kind, value.name], "parts": each(value.parts)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if type(value) is dict:
        return {"dict": [each(pair) for pair in value.items()]}
    if type(value) in (list, tuple, set):
        return {type(value).__name__: each(value)}
    if keep is None and isinstance(value, tuple) and (names := getattr(value, "_fields", None)) is not None:
        return {"named": [type(value).__name__, list(names)], "parts": each(value)}
    if keep is not None and (plain := getattr(value, "tolist", None)) is not None:
        return _encoded(plain(), tensors, keep)  # an array or a number of NumPy's
    if keep is None:
        raise WireError(f"a {type(value).__name__} cannot be sent")
    held = each(value) if isinstance(value, tuple) else None
    return {"kept": keep(value), "kind": type(value).__name__, "parts": held}


def _decoded(value: Any, tensors: dict[str, Tensor], kept: Callable[[int], Any] | None) -> Any:
    def each(values: Any) -> list[Any]:
        return [_decoded(one, tensors, kept) for one in values]

    if not isinstance(value, dict):
        return value
    match value:
        case {"tensor": number}:
            return tensors[str(number)]
        case {"kept": number, **rest}:
            if kept is not None:
                return kept(number)
            if rest.get("parts") is None:
                return Kept(int(number), str(rest.get("kind"))[:100])
            found = KeptTuple(each(rest["parts"]))
            found.number = int(number)
            return found
        case {"probe": [kind, name], "parts": parts}:
            return Probe(kind, *each(parts), name=name)
        case {"dtype": name} if isinstance(found := getattr(torch, name), torch.dtype):
            return found
        case {"dict": pairs}:
            return dict(each(pair) for pair in pairs)
        case {"named": [name, fields], "parts": parts}:
            return namedtuple(name, fields)(*each(parts))
        case {"list": values}:
            return each(values)
        case {"tuple": values}:
            return tuple(each(values))
        case {"set": values}:
            return set(each(values))
    raise ValueError(value)
