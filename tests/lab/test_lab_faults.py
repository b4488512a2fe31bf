"""Planted bugs: each is caught by the law of its row, and each says in two languages what is wrong."""

import re

import pytest

from seq2seq_suite.lab.assignment import load
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.checking import InProcess, judge
from seq2seq_suite.lab.twins import twins
from tests.lab.course import PARTS, broken, each_part


@each_part
def test_every_fault_is_caught_by_the_law_of_its_row(assignment, part):
    laws, text = {law.name: law for law in assignment.laws(part)}, assignment.text(part)
    for fault in assignment.faults(part):
        assert broken([laws[fault.law]], InProcess(load(fault.text(text), part)), seed=1), fault.id


@each_part
def test_every_part_has_at_least_three_faults(assignment, part):
    assert len(assignment.faults(part)) >= 3


def test_faults_have_names_of_their_own_and_speak_both_languages():
    faults = [fault for assignment in ASSIGNMENTS for fault in assignment.faults()]
    assert len({fault.id for fault in faults}) == len(faults)
    for fault in faults:
        assert re.search(r"[\u4e00-\u9fff]", fault.says_zh) and not re.search(r"[\u4e00-\u9fff]", fault.says), fault.id
        assert not fault.says.endswith(".") and not fault.says_zh.endswith("。"), fault.id


@pytest.mark.parametrize("part", ["attend", "residual", "greedy", "bootstrap"])
def test_every_fault_is_named_by_itself_and_by_few_others(part):
    assignment = next(one for one, name in PARTS if name == part)
    text, laws = assignment.text(part), assignment.laws(part)
    for fault in assignment.faults(part):
        who = InProcess(load(fault.text(text), part))
        named = [twin.id for twin in twins(assignment, part, [judge(law, who, 1) for law in laws], 1)]
        assert fault.id in named and len(named) <= 3, (fault.id, named)
