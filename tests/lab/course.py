"""What the tests of laws, faults and alternatives share: the parts of the course, and students made of references."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from seq2seq_suite.lab.assignment import Assignment, Law, load
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.checking import InProcess, judge

PARTS = [(assignment, part.name) for assignment in ASSIGNMENTS for part in assignment.parts]
each_part = pytest.mark.parametrize(("assignment", "part"), PARTS, ids=[f"{one.name}.{part}" for one, part in PARTS])
each_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=[one.name for one in ASSIGNMENTS])


@cache
def reference(assignment: Assignment, part: str) -> dict[str, Any]:
    """The names that a part's reference defines."""
    return vars(load(assignment.text(part), part))


def student(assignment: Assignment, part: str, **own: Callable[..., Any]) -> InProcess:
    """One who writes the reference, but for these functions."""
    return InProcess({**reference(assignment, part), **own})


def broken(laws: list[Law], who: InProcess, seed: int) -> dict[str, str]:
    """What each law that does not hold says."""
    return {law.name: verdict.broken.message for law in laws if not (verdict := judge(law, who, seed)).holds}
