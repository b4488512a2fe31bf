"""Nothing is had for nothing: code that does not do the work gets no points, whatever it says of itself."""

import pytest
from daily import daily

from seq2seq_suite.lab import parts
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.checking import InProcess, judge, points
from seq2seq_suite.lab.parts import check_part
from seq2seq_suite.lab.starting import starter

PARTS = [(assignment, part) for assignment in ASSIGNMENTS for part in assignment.parts]
each_part = pytest.mark.parametrize(("assignment", "part"), PARTS, ids=[f"{a.name}.{p.name}" for a, p in PARTS])
ATTEND = next(one for one in ASSIGNMENTS if one.name == "attention")


LAZY = {
    "none": lambda *_: None,
    "identity": lambda *a: a[0],
    "zero": lambda *a: 0,
    "zeros": lambda *a: a[0] * 0,
    "empty": lambda *_: [],
}


@each_part
def test_lazy_functions_get_no_points(assignment, part):
    for name, lazy in LAZY.items():
        student = InProcess(dict.fromkeys(part.functions, lazy))
        verdicts = [judge(law, student, 5) for law in assignment.laws(part.name)]
        assert points(part, verdicts) == 0, (name, [verdict.law.name for verdict in verdicts if verdict.holds])


@pytest.mark.parametrize("assignment", daily(ASSIGNMENTS, ATTEND), ids=lambda one: one.name)
def test_a_starter_gets_nothing(assignment, workers):
    part = assignment.parts[0]
    checked = check_part(assignment, part, {f"{part.name}.py": starter(assignment.text(part.name))}, workers, 3)
    assert checked.points == 0 and not checked.begun


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("def attend(*_):\n    print('passed')\n    return True", marks=pytest.mark.slow),
        "def attend(query, *_):\n    query.__class__.__eq__ = lambda *_: True\n    return query",
        "import torch\ntorch.isclose = torch.equal = lambda *_, **__: torch.ones(1).bool()\n"
        "def attend(*a): return a[2]",
        pytest.param("from torch.nn.functional import scaled_dot_product_attention as attend", marks=pytest.mark.slow),
        pytest.param(
            "import torch\ndef attend(*a): return torch.nn.functional.scaled_dot_product_attention(*a)",
            marks=pytest.mark.slow,
        ),
        "from lab_given import attend",
        pytest.param("import gc\ndef attend(*_): return [o for o in gc.get_objects() if 0]", marks=pytest.mark.slow),
        "raise SystemExit",
    ],
)
def test_no_trick_gets_points(text, workers):
    checked = check_part(ATTEND, ATTEND.part("attend"), {"attend.py": text}, workers, 3)
    assert checked.points == 0, [verdict.law.name for verdict in checked.verdicts if verdict.holds]


MISCHIEF = {
    "endless": "while True: pass",
    "exit": "import os; os._exit(0)",
    "passed": "print('attend.blind passed'); return",
    "patched torch": "torch.equal = torch.isclose = torch.allclose = lambda *_, **__: torch.ones(1).bool(); "
    "return query * 0 + 1",
    "ten gigabytes": "return torch.zeros(2_500_000_000)[: query.numel()].view(query.shape)",
    "results.json": "open('results.json', 'w').write('{\"score\": 100}'); return",
}


def test_an_error_put_into_the_student_s_file_fails_the_part(workers):
    text = ATTEND.text("attend").replace("    # BEGIN SOLUTION", "    raise ValueError('mine')")
    checked = check_part(ATTEND, ATTEND.part("attend"), {"attend.py": text}, workers, 3)
    assert checked.points == 0 and "mine" in checked.verdicts[0].broken.message


@pytest.mark.parametrize("mischief", daily(MISCHIEF, "exit", "patched torch"))
def test_what_goes_wrong_in_one_law_costs_that_law_alone(mischief, workers, monkeypatch):
    monkeypatch.setattr(parts, "SECONDS", 1.0)
    text = ATTEND.text("attend").replace(
        "    # BEGIN SOLUTION",
        f"    if visible is not None and not visible.any(-1).all():\n        {MISCHIEF[mischief]}",
    )
    checked = check_part(ATTEND, ATTEND.part("attend"), {"attend.py": text}, workers, 3)
    assert [verdict.law.name for verdict in checked.verdicts if not verdict.holds] == ["attend.blind"]
    assert checked.points == pytest.approx(25 * (0.5 + 0.5 * 5 / 6))
