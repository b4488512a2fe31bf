"""What the laws of several assignments draw and compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_suite.lab.assignment import Broken, Student


class Weights(NamedTuple):
    """Of multi-head attention, as students' files have them."""

    wq: Tensor
    bq: Tensor
    wk: Tensor
    bk: Tensor
    wv: Tensor
    bv: Tensor
    wo: Tensor
    bo: Tensor

    @staticmethod
    def drawn(width: int) -> Weights:
        """Matrices that keep the size of what they are given, and biases that matter."""
        return Weights(
            *(
                torch.randn(width, width) / math.sqrt(width) if kind == "w" else torch.randn(width) * 0.3
                for kind in "wbwbwbwb"
            )
        )


def real(lengths: Sequence[int]) -> Tensor:
    """(B,T) bool: True for the first `lengths` positions."""
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def unchanged(student: Student, function: str, names: str, *arguments: Any) -> Any:
    """What a call returns that writes into none of its first arguments' tensors and lists; `names` are theirs."""
    found = student.call(function, *arguments)
    for name, before, after in zip(names.split(), arguments, student.after, strict=False):
        same = torch.equal(before, after) if isinstance(before, Tensor) else before == after
        if not same:
            raise Broken(
                f"`{name}` was changed in place; the caller still needs it", f"`{name}` 被就地修改了，而调用者还要用它"
            )
    return found


def only(got: Any, expected: Any, message: str, message_zh: str) -> None:
    """Symbols, trees and truths: equal or not."""
    if plain(got) != plain(expected):
        raise Broken(
            f"{message}: got {repr_short(got)}, expected {repr_short(expected)}",
            f"{message_zh}：得到 {repr_short(got)}，应为 {repr_short(expected)}",
            got=repr_short(got),
            expected=repr_short(expected),
        )


def plain(value: Any) -> Any:
    """Lists for tuples and tensors, so that students may return any of them."""
    if isinstance(value, Tensor):
        return value.tolist()
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def repr_short(value: Any) -> str:
    """A value in at most 200 characters."""
    text = str(plain(value))
    return text if len(text) <= 200 else f"{text[:197]}..."
