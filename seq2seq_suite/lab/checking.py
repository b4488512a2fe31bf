"""Whether laws hold for someone's functions."""

from __future__ import annotations

import random
import traceback
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from seq2seq_suite.lab.assignment import EDGE, VALUE, Broken, Failed, Law, Part, Student
from seq2seq_suite.lab.calling import answer


class InProcess:
    """Functions of this process as a student: for references, faults and tests."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]] | types.ModuleType):
        self._functions = vars(functions) if isinstance(functions, types.ModuleType) else functions
        self.after: Sequence[Any] = ()
        self.calls: Sequence[tuple[str, tuple[Any, ...]]] = ()

    def call(self, name: str, *arguments: Any, gradient: Sequence[int] = (), cotangent: Tensor | None = None) -> Any:
        """As `Student.call`."""
        if name not in self._functions:
            raise Failed("AttributeError", f"there is no function `{name}`")
        try:
            with seeded(0):
                found, self.after, self.calls = answer(self._functions[name], arguments, gradient, cotangent)
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1].lineno or 0
            raise Failed(type(error).__name__, str(error), line=line) from None
        return found

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments, **options: self.call(name, *arguments, **options)


@dataclass(frozen=True)
class Asked:
    """A call that a law made."""

    name: str
    arguments: Sequence[Any]
    gradient: Sequence[int] = ()
    cotangent: Tensor | None = None


class Recorded:
    """A student whose answers are kept, to be compared with those of others."""

    def __init__(self, student: Student):
        self._student, self.after, self.calls = student, student.after, student.calls
        self.answers: list[Any] = []
        self.asked: Asked | None = None  # last

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """As `Student.call`."""
        self.asked = Asked(name, arguments, **options)
        try:
            found = self._student.call(name, *arguments, **options)
        except Failed as failed:
            self.answers.append(failed)
            raise
        finally:
            self.after, self.calls = self._student.after, self._student.calls
        self.answers.append((found, self.after))
        return found

    __getattr__ = InProcess.__getattr__


@dataclass(frozen=True)
class Verdict:
    """What a law said; what it last asked, and all that the student answered."""

    law: Law
    broken: Broken | None = None
    answers: list[Any] = field(default_factory=list, repr=False)
    asked: Asked | None = field(default=None, repr=False)

    @property
    def holds(self) -> bool:
        return self.broken is None


@contextmanager
def seeded(seed: int) -> Any:
    """Draw from torch's and Python's global generators as if afresh, and leave them as they were."""
    state = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed looks at every kind of device
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)


def judge(law: Law, student: Student, seed: int) -> Verdict:
    """Try a law with the inputs that belong to the seed."""
    recorded = Recorded(student)
    with seeded(crc32(f"{seed} {law.name}".encode())):
        try:
            law(recorded)
        except Broken as broken:
            return Verdict(law, broken, recorded.answers, recorded.asked)
        except Exception as error:  # an answer of a form that the law does not expect, such as None for a pair
            said = f"{type(error).__name__}: {error}"
            return Verdict(
                law,
                Broken(
                    f"your answer has another form than the docstring says ({said})",
                    f"返回值的形式与说明不符（{said}）",
                ),
                recorded.answers,
                recorded.asked,
            )
    return Verdict(law, None, recorded.answers, recorded.asked)


def points(part: Part, verdicts: Iterable[Verdict]) -> float:
    """Half of the part's points are shared by its value laws; the rest by its edge laws, once all values hold."""
    verdicts = list(verdicts)
    values, edges = ([verdict.holds for verdict in verdicts if verdict.law.kind == kind] for kind in (VALUE, EDGE))
    if not values:
        return 0.0
    share = 0.5 if edges else 1.0
    found = share * sum(values) / len(values) + (share * sum(edges) / len(edges) if edges and all(values) else 0.0)
    return part.points * found
