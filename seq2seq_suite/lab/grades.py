"""What was found of a submission, and as JSON: so it leaves the process that graded it, and is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from seq2seq_suite.lab.assignment import Assignment, Broken, Fault
from seq2seq_suite.lab.checking import Verdict
from seq2seq_suite.lab.folder import Refused
from seq2seq_suite.lab.messages import message
from seq2seq_suite.lab.parts import Checked
from seq2seq_suite.lab.starting import named


class Graded(NamedTuple):
    """One question, or one run (`runs.NAME`), with what was got and what was expected."""

    question: str
    points: float
    got: str
    expected: str
    verdict: str
    most: float


@dataclass(frozen=True)
class Grade:
    """What was found of a submission.

    Args:
        name: of the file or folder handed in, as it can be printed.
        id: of the student, as his lab.yaml has it.
        parts: those checked so far, in the assignment's order.
        questions: runs and answers, as `answers.grade` gives them.
        problem: why the teacher must look at it; empty where he need not.
        marks: by which copies are found, see `class_report.marks`.
    """

    name: str
    seed: int
    assignment: Assignment | None = None
    id: str = ""
    language: str = "en"
    parts: Sequence[Checked] = ()
    questions: Sequence[Graded] = ()
    problem: str = ""
    seconds: float = 0.0
    holds: Sequence[str] = ()
    marks: Mapping[str, str] = field(default_factory=dict)

    @property
    def student(self) -> str:
        return self.id or self.name

    @property
    def points(self) -> float:
        """The sum, rounded to halves."""
        return round(2 * (sum(part.points for part in self.parts) + sum(one.points for one in self.questions))) / 2

    @property
    def faults(self) -> list[Fault]:
        return [fault for part in self.parts for fault in part.faults[:1]]


def to_plain(grade: Grade) -> dict[str, Any]:
    """As JSON has it: of laws what was said, of answers and inputs nothing."""
    parts = [
        {
            "part": one.part.name,
            "seed": one.seed,
            "begun": one.begun,
            "refused": [vars(why) for why in one.refused],
            "faults": [fault.id for fault in one.faults],
            "laws": [
                [verdict.law.name, *(message(verdict.broken, each) if verdict.broken else "" for each in ("en", "zh"))]
                for verdict in one.verdicts
            ],
        }
        for one in grade.parts
    ]
    return {
        **vars(grade),
        "assignment": grade.assignment.name if grade.assignment else "",
        "parts": parts,
        "questions": [one._asdict() for one in grade.questions],
    }


def from_plain(found: Mapping[str, Any]) -> Grade:
    """The same again. Raises KeyError, TypeError or another UserError where the JSON is not of `to_plain`."""
    assignment = named(found["assignment"]) if found["assignment"] else None
    parts = []
    for one in found["parts"]:
        assert assignment is not None
        part = assignment.part(one["part"])
        laws = {law.name: law for law in assignment.laws(part.name)}
        faults = {fault.id: fault for fault in assignment.faults(part.name)}
        verdicts = [
            Verdict(laws[name], Broken(said, said_zh) if said else None, [None] * one["begun"])
            for name, said, said_zh in one["laws"]
        ]
        parts.append(
            Checked(
                part,
                one["seed"],
                verdicts,
                [Refused(**why) for why in one["refused"]],
                [faults[name] for name in one["faults"]],
            )
        )
    return Grade(
        **{
            **found,
            "assignment": assignment,
            "parts": parts,
            "questions": [Graded(**one) for one in found["questions"]],
        }
    )
