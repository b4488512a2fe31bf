"""The same laws hold in the worker: each reference gets all points there, and each law's verdict is that in process."""

import pytest
from daily import daily

from seq2seq_suite.lab.assignment import load
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.checking import InProcess, judge
from seq2seq_suite.lab.parts import check_part
from seq2seq_suite.lab.remote import FORKS

pytestmark = pytest.mark.skipif(not FORKS, reason="needs fork")
PARTS = [(assignment, part) for assignment in ASSIGNMENTS for part in assignment.parts]
DAILY = ("attention.attend", "structures.task", "speech.log_mel", "gpt.layout")
FIRST = [(one, one.parts[0]) for one in ASSIGNMENTS]


@pytest.mark.parametrize(
    ("assignment", "part"),
    daily(PARTS, *((a, p) for a, p in PARTS if f"{a.name}.{p.name}" in DAILY)),
    ids=[f"{a.name}.{p.name}" for a, p in PARTS],
)
def test_a_reference_gets_all_points(assignment, part, workers):
    checked = check_part(assignment, part, {f"{part.name}.py": assignment.text(part.name)}, workers, 11)
    assert not checked.refused and checked.points == part.points, (
        checked.refused,
        [verdict.broken.message for verdict in checked.verdicts if verdict.broken],
    )


@pytest.mark.parametrize(
    ("assignment", "part"),
    daily(FIRST, *(one for one in FIRST if one[0].name in ("attention", "structures"))),
    ids=[one.name for one in ASSIGNMENTS],
)
def test_a_planted_bug_breaks_the_same_laws_as_in_process_and_is_named(assignment, part, workers):
    fault = assignment.faults(part.name)[0]
    text = fault.text(assignment.text(part.name))
    checked = check_part(assignment, part, {f"{part.name}.py": text}, workers, 11)
    student = InProcess(load(text, part.name))
    assert [verdict.holds for verdict in checked.verdicts] == [
        judge(law, student, 11).holds for law in assignment.laws(part.name)
    ]
    assert fault.id in {one.id for one in checked.faults}
