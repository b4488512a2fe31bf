"""Tensors of files: written one by one, under the names of this version, and with their low-rank changes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from pathlib import Path

import torch
from torch import Tensor

CHANGES = (".lora_a", ".lora_b", ".lora_scale")  # of a matrix, whose name ends in .weight: `training.lora`


def with_change(weight: Tensor, a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    """W0 + s B A (V,D) of W0 (V,D), A (r,D), B (V,r) and s (); Hu et al. 2021, eq. 3."""
    return weight + scale * (b @ a)


def with_changes(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights whose low-rank changes, if there are any, are added to their matrices.

    >>> names = ("weight", *(name[1:] for name in CHANGES))
    >>> values = (torch.eye(2), torch.ones(1, 2), torch.ones(2, 1), torch.tensor(0.5))
    >>> with_changes({f"query.{name}": value for name, value in zip(names, values)})
    {'query.weight': tensor([[1.5000, 0.5000],
            [0.5000, 1.5000]])}
    """
    found = {name: tensor for name, tensor in tensors.items() if not name.endswith(CHANGES)}
    for name in tensors:
        if name.endswith(CHANGES[0]):
            layer = name.removesuffix(CHANGES[0])
            parts = [tensors[f"{layer}{change}"] for change in CHANGES]
            found[f"{layer}.weight"] = with_change(tensors[f"{layer}.weight"], *parts)
    return found


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite; needs no memory for an answer to each.

    >>> is_finite(torch.tensor([1.0, -2.0])), is_finite(torch.tensor([1.0, math.nan])), is_finite(torch.zeros(0))
    (True, False, True)
    """
    return not tensor.numel() or all(math.isfinite(float(bound)) for bound in tensor.aminmax())


def save_each(
    path: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Iterable[tuple[str, Tensor]], dtype: str
) -> None:
    """Write a file of safetensors from tensors that come one by one, each of which may be freed before the next.

    Args:
        path: of the file.
        shapes: of all tensors by their names.
        tensors: name and value, in any order; all of those that have a shape.
        dtype: float32 or bfloat16, to which floats are rounded.
    """
    kind, code = getattr(torch, dtype), {"float32": "F32", "bfloat16": "BF16"}[dtype]
    ends = [*accumulate((math.prod(shape) * kind.itemsize for shape in shapes.values()), initial=0)]
    places = dict(zip(shapes, pairwise(ends), strict=True))
    head = {name: {"dtype": code, "shape": shape, "data_offsets": places[name]} for name, shape in shapes.items()}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, tensor in tensors:
            file.seek(8 + len(text) + places[name][0])
            file.write(tensor.detach().to(kind).contiguous().flatten().view(torch.uint8).numpy().data)
            del tensor
        file.truncate(8 + len(text) + ends[-1])


def with_present_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights, averages and states of optimisers under the names of this version.

    Until 0.1.0 queries, keys and values were one matrix, and a norm was in a part with its residual connection.

    >>> list(with_present_names({"encoder.layers.0.attention.query_key_value.bias": torch.zeros(6)}))[1]
    'encoder.layers.0.attention.key.bias'
    """
    found = {}
    for old, tensor in tensors.items():
        names = present_names(old)
        parts = tensor.chunk(3) if tensor.dim() else [tensor] * 3  # a number is the count of an optimiser's steps
        found |= (
            {name: part.clone() for name, part in zip(names, parts, strict=True)} if names[1:] else {names[0]: tensor}
        )
    return found


def present_names(old: str) -> list[str]:
    """The name that a tensor has in this version, or three for a matrix that was divided since.

    >>> present_names("encoder.layers.0.attention_residual.norm.gain")
    ['encoder.layers.0.attention_norm.gain']
    """
    name = re.sub(r"\.(attention|convolution|cross|feed_forward)_residual\.norm\.", r".\1_norm.", old)
    name = re.sub(r"\.residuals\.(\d+)\.norm\.", r".norms.\1.", name)
    if ".query_key_value." not in name:
        return [name]
    return [name.replace(".query_key_value.", f".{part}.") for part in ("query", "key", "value")]
