"""Which planted bugs do what a student's code does: a mistake is named by the bug that gives the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.lab import wire
from seq2seq_suite.lab.assignment import Assignment, Failed, Fault, Law, load
from seq2seq_suite.lab.checking import InProcess, Verdict, judge
from seq2seq_suite.lab.probes import Probe

TOLERANCE = 1e-4
_ROUNDED = {torch.bfloat16: 5e-2, torch.float16: 1e-2}  # two right ways to compute differ by as much


def twins(assignment: Assignment, part: str, verdicts: Sequence[Verdict], seed: int) -> list[Fault]:
    """The faults that answer as the student does on every law that they break.

    Where one of them breaks more laws than another, the other is left out.
    """
    given = {verdict.law.name: verdict for verdict in verdicts}
    # The laws that fail come first: most bugs answer otherwise on the first of them.
    laws = sorted((verdict.law for verdict in verdicts), key=lambda law: given[law.name].holds)
    found: list[tuple[Fault, frozenset[str]]] = []
    for fault in assignment.faults(part):
        broken = set()
        for law in laws:
            trace = _trace(assignment, fault, law, seed)
            if trace.holds:
                continue
            if given[law.name].holds or not same(given[law.name].answers, trace.answers):
                break
            broken.add(law.name)
        else:
            if broken:
                found.append((fault, frozenset(broken)))
    return [fault for fault, broken in found if not any(broken < other for _, other in found)]


def warm(assignment: Assignment, seed: int) -> None:
    """Import and compute beforehand what the first mistake would otherwise wait for."""
    for part in assignment.parts:
        laws, reference = assignment.laws(part.name), InProcess(load(assignment.text(part.name), part.name))
        for law in laws:
            judge(law, reference, seed)
        for fault in assignment.faults(part.name) if laws else ():
            _trace(assignment, fault, laws[0], seed)


@lru_cache(maxsize=5000)
def _trace(assignment: Assignment, fault: Fault, law: Law, seed: int) -> Verdict:
    return judge(law, _student(assignment, fault), seed)


@lru_cache(maxsize=1000)
def _student(assignment: Assignment, fault: Fault) -> InProcess:
    return InProcess(load(fault.text(assignment.text(fault.part)), fault.part))


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal, numbers within the tolerance.

    >>> same([torch.tensor(1.0), (2,)], [torch.tensor(1.00001), [2]]), same(None, 0)
    (True, False)
    """
    if isinstance(one, wire.Kept) or isinstance(other, wire.Kept):  # of a class of the student's
        return not any(isinstance(each, Tensor | int | float) for each in (one, other))  # else seen where it is used
    if isinstance(one, Probe) or isinstance(other, Probe):
        return True  # the law's own, handed back as it was
    if isinstance(one, Failed) or isinstance(other, Failed):
        return (
            isinstance(one, Failed) and isinstance(other, Failed) and (one.error, one.text) == (other.error, other.text)
        )
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        tolerance = _ROUNDED.get(one.dtype, TOLERANCE)
        return (
            one.shape == other.shape
            and (one.dtype == torch.bool) == (other.dtype == torch.bool)
            and torch.allclose(
                one.to(torch.complex128), other.to(torch.complex128), rtol=tolerance, atol=tolerance, equal_nan=True
            )
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float) or isinstance(other, float):
        return _number(one) and _number(other) and same(torch.tensor(one), torch.tensor(other))
    return type(one) is type(other) and one == other


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
