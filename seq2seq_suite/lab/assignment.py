"""What an assignment is made of: parts that students write, laws that these obey, faults that are planted to test both.

A part is one file of the student; its reference is `solutions/<assignment>/<part>.py`, where the lines between
`# BEGIN SOLUTION` and `# END SOLUTION` are left out of the starter. Laws are the functions that `law` marks in
`laws/<assignment>.py`; faults stand in the list `FAULTS` of `faults/<assignment>.py`.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import torch
from torch import Tensor

SOLUTIONS = Path(__file__).parent / "solutions"
PACKAGE = "seq2seq_suite.lab"
VALUE, EDGE = "value", "edge"


@dataclass(frozen=True)
class Part:
    """One file that a student writes.

    Args:
        name: of the file, without `.py`.
        functions: that the file must define.
        points: for all laws of the part.
        forbidden: functions of torch that do the part's work, such as "torch.nn.functional.cross_entropy"; they raise.
        bonus: the points come on top of the assignment's 100.
    """

    name: str
    functions: tuple[str, ...]
    points: float
    forbidden: tuple[str, ...] = ()
    bonus: bool = False


@dataclass(frozen=True)
class Assignment:
    """A row of the course.

    Args:
        number: from 1, in the order of the course.
        name: of the assignment, its laws, its faults and its folder of solutions.
        experiment: points for the runs; `questions` for the answers.
        notes: the lecture notes that it follows, such as ("003", "004").
        extra: of the package, that its experiment needs, such as "speech".
    """

    number: int
    name: str
    title: str
    title_zh: str
    parts: tuple[Part, ...]
    experiment: float = 0
    questions: float = 0
    notes: tuple[str, ...] = ()
    extra: str = ""

    @property
    def points(self) -> float:
        """The sum of all points, without bonus."""
        return sum(part.points for part in self.parts if not part.bonus) + self.experiment + self.questions

    def part(self, name: str) -> Part:
        """Raises StopIteration where there is none of that name."""
        return next(part for part in self.parts if part.name == name)

    def text(self, part: str) -> str:
        """The reference of a part."""
        return (SOLUTIONS / self.name / f"{part}.py").read_text(encoding="utf-8")

    def laws(self, part: str = "") -> list[Law]:
        """In the order in which they are written: those of one part, or all."""
        module = importlib.import_module(f"{PACKAGE}.laws.{self.name}")
        return [law for law in vars(module).values() if isinstance(law, Law) and part in ("", law.part)]

    def faults(self, part: str = "") -> list[Fault]:
        """Those of one part, or all."""
        module = importlib.import_module(f"{PACKAGE}.faults.{self.name}")
        return [fault for fault in module.FAULTS if part in ("", fault.part)]


class Student(Protocol):
    """Someone's functions, called in this process or in another. `student.attend(q)` is `student.call("attend", q)`."""

    after: Sequence[Any]  # the arguments of the last call as they were when it returned
    calls: Sequence[tuple[str, tuple[Any, ...]]]  # in the last call: which probe was called, and with what

    def call(self, name: str, *arguments: Any, gradient: Sequence[int] = (), cotangent: Tensor | None = None) -> Any:
        """What the function returns, detached.

        Args:
            gradient: arguments to differentiate with respect to, by number; then the answer is a pair of the output
                and a list of gradients (None where nothing reaches the argument).
            cotangent: of the output, or of its first floating-point tensor; by default ones.

        Raises:
            Broken: the function raised, or gave no answer; its subclass `Failed` says how.
        """


class Broken(Exception):
    """A law does not hold.

    Args:
        where: the index of the first element that is wrong.
    """

    def __init__(
        self,
        message: str,
        message_zh: str = "",
        *,
        where: tuple[int, ...] | None = None,
        got: Any = None,
        expected: Any = None,
    ):
        super().__init__(message)
        self.message, self.message_zh = message, message_zh or message
        self.where, self.got, self.expected = where, got, expected

    def __str__(self) -> str:
        return self.message


class Failed(Broken):
    """The function gave no answer.

    Args:
        error: the name of the exception's class, "time" (no answer in time), "end" (the process is gone).
        text: of the exception.
        line: where it happened in the student's file, 0 if unknown.
    """

    def __init__(
        self, error: str, text: str = "", *, file: str = "", line: int = 0, message: str = "", message_zh: str = ""
    ):
        place = f"{file}:{line} " if file and line else ""
        super().__init__(message or f"{place}raises {error}: {text}", message_zh or f"{place}抛出 {error}：{text}")
        self.error, self.text, self.file, self.line = error, text, file, line

    @property
    def begun(self) -> bool:
        """Whether anything was written in place of the starter's line."""
        return self.error != "NotImplementedError"


@dataclass(frozen=True)
class Law:
    """What every right solution of a part obeys.

    Args:
        name: the part's function and the law, such as "attend.leak".
        holds: raises Broken where it does not hold. Draws its inputs from torch's global generator, or from `random`.
        kind: "value" or "edge"; edges count once all values of the part hold.
        note: the lecture note that explains it, such as "004".
        says: the law in one line.
    """

    name: str
    part: str
    kind: str
    note: str
    says: str
    says_zh: str
    holds: Callable[[Student], None]

    def __call__(self, student: Student) -> None:
        self.holds(student)

    def __reduce__(self) -> tuple[Any, ...]:
        """To another process goes where it stands: its function has given its name to the law."""
        return _standing_at, (self.holds.__module__, self.holds.__name__)


def _standing_at(module: str, name: str) -> Law:
    return getattr(importlib.import_module(module), name)


def law(
    name: str, *, part: str, kind: str = VALUE, note: str = "", says: str = "", says_zh: str = ""
) -> Callable[[Callable[[Student], None]], Law]:
    """Make a law of a function of a student."""
    if kind not in (VALUE, EDGE):
        raise ValueError(f"{name}: kind {kind!r}, expected {VALUE} or {EDGE}")
    return lambda holds: Law(name, part, kind, note, says, says_zh or says, holds)


@dataclass(frozen=True)
class Fault:
    """A planted bug: one edit of a part's reference.

    Args:
        find: what stands once in the reference; `replace` takes its place.
        law: the name of a law that catches it.
        says: what is wrong, to the student whose function does the same.
    """

    id: str
    part: str
    find: str
    replace: str
    law: str
    says: str
    says_zh: str

    def text(self, reference: str) -> str:
        """The reference with the bug in it."""
        count = reference.count(self.find)
        assert count == 1, f"{self.id}: its text stands {count} times in the reference"
        return reference.replace(self.find, self.replace)


def load(text: str, name: str) -> types.ModuleType:
    """A module made of a text, which may import from `lab_given`."""
    from seq2seq_suite.lab.given import GIVEN

    module = types.ModuleType(name)
    with patch.dict(sys.modules, lab_given=GIVEN):
        exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def near(got: Any, expected: Any, what: str = "", what_zh: str = "", *, tolerance: float = 1e-5) -> None:
    """Compare numbers or tensors: |got - expected| <= tolerance (1 + |expected|), element by element.

    Raises:
        Broken: they differ, in type, shape or value; NaN equals nothing but NaN.
    """
    what, what_zh = (f"{what}: " if what else ""), (f"{what_zh or what}：" if what_zh or what else "")
    expected = torch.as_tensor(expected)
    if not isinstance(got, Tensor | int | float | list | tuple):
        raise Broken(
            f"{what}got {_kind(got)}, expected {_kind(expected)}",
            f"{what_zh}得到 {_kind(got)}，应为 {_kind(expected)}",
            got=got,
            expected=expected,
        )
    try:
        got = torch.as_tensor(got)
    except (ValueError, TypeError, RuntimeError):
        raise Broken(
            f"{what}got {_kind(got)} of other things than numbers", f"{what_zh}得到的 {_kind(got)} 里不全是数字"
        ) from None
    if got.shape != expected.shape:
        raise Broken(
            f"{what}got shape {list(got.shape)}, expected {list(expected.shape)}",
            f"{what_zh}形状为 {list(got.shape)}，应为 {list(expected.shape)}",
            got=list(got.shape),
            expected=list(expected.shape),
        )
    double = [value.to(torch.complex128 if value.is_complex() else torch.float64) for value in (got, expected)]
    close = torch.isclose(*double, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not close.all():
        where = tuple((~close).nonzero()[0].tolist())
        one, other = (value[where].item() for value in (got, expected))
        digits = next((digits for digits in (4, 6, 9) if number(one, digits) != number(other, digits)), 17)
        shown, right = number(one, digits), number(other, digits)
        raise Broken(
            f"{what}at {list(where)} got {shown}, expected {right}"
            if where
            else f"{what}got {shown}, expected {right}",
            f"{what_zh}在 {list(where)} 得到 {shown}，应为 {right}"
            if where
            else f"{what_zh}得到 {shown}，应为 {right}",
            where=where,
            got=one,
            expected=other,
        )


def number(value: Any, digits: int = 4) -> str:
    """A number as messages show it.

    >>> number(0.123456), number(0.123456, 6), number(3), number(True)
    ('0.1235', '0.123456', '3', 'True')
    """
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}" if value.dim() else "a number"
    return "None" if value is None else f"a {type(value).__name__}"
