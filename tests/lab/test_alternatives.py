"""Right solutions that look nothing like the references: no law refuses them, and none comes near a tolerance."""

import importlib
import types

import pytest
import torch

from seq2seq_suite.lab.assignments import ASSIGNMENTS
from tests.lab.course import broken, student

ALTERNATIVES = [(assignment, part.name, function, own) for assignment in ASSIGNMENTS
                for name, own in vars(importlib.import_module(f"tests.lab.alternatives.{assignment.name}")).items()
                if isinstance(own, types.FunctionType)
                for part in assignment.parts for function in part.functions if name.startswith(f"{function}_")
                and not any(name.startswith(f"{other}_") and len(other) > len(function)
                            for another in assignment.parts for other in another.functions)]


@pytest.fixture
def a_third_of_every_tolerance(monkeypatch):
    isclose = torch.isclose
    monkeypatch.setattr(torch, "isclose", lambda one, other, rtol=1e-5, atol=1e-8, equal_nan=False: isclose(
        one, other, rtol=rtol / 3, atol=atol / 3, equal_nan=equal_nan))


@pytest.mark.parametrize(("assignment", "part", "function", "own"), ALTERNATIVES, ids=lambda one: (
    one.__name__ if isinstance(one, types.FunctionType) else getattr(one, "name", one)))
def test_a_right_solution_obeys_every_law(assignment, part, function, own, a_third_of_every_tolerance):
    for seed in range(3):
        assert not broken(assignment.laws(part), student(assignment, part, **{function: own}), seed)


def test_every_function_is_written_in_two_other_ways_or_more():
    ways = [function for _, _, function, _ in ALTERNATIVES]
    single = {"start", "allowed", "advance", "decode_step", "fine_tuning_loss"}
    functions = {name for assignment in ASSIGNMENTS for part in assignment.parts for name in part.functions}
    assert {function for function in functions - single if ways.count(function) < 2} == set()
