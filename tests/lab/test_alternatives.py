"""Right solutions that look nothing like the references: no law refuses them, and none comes near a tolerance."""

import importlib
import random
import types

import pytest
import torch

from seq2seq_suite.lab.assignments import ASSIGNMENTS
from tests.lab.course import broken, student

ALTERNATIVES = [
    (assignment, part.name, function, own)
    for assignment in ASSIGNMENTS
    for name, own in vars(importlib.import_module(f"tests.lab.alternatives.{assignment.name}")).items()
    if isinstance(own, types.FunctionType)
    for part in assignment.parts
    for function in part.functions
    if name.startswith(f"{function}_")
    and not any(
        name.startswith(f"{other}_") and len(other) > len(function)
        for another in assignment.parts
        for other in another.functions
    )
]


@pytest.fixture
def a_third_of_every_tolerance(monkeypatch):
    isclose = torch.isclose
    monkeypatch.setattr(
        torch,
        "isclose",
        lambda one, other, rtol=1e-5, atol=1e-8, equal_nan=False: isclose(
            one, other, rtol=rtol / 3, atol=atol / 3, equal_nan=equal_nan
        ),
    )


@pytest.mark.parametrize(
    ("assignment", "part", "function", "own"),
    ALTERNATIVES,
    ids=lambda one: one.__name__ if isinstance(one, types.FunctionType) else getattr(one, "name", one),
)
def test_a_right_solution_obeys_every_law(assignment, part, function, own, a_third_of_every_tolerance):
    for seed in range(3):
        assert not broken(assignment.laws(part), student(assignment, part, **{function: own}), seed)


def test_every_function_is_written_in_two_other_ways_or_more():
    ways = [function for _, _, function, _ in ALTERNATIVES]
    single = {
        "start",
        "allowed",
        "advance",
        "decode_step",
        "fine_tuning_loss",
        "own_examples",
        "write_answer",
        "read_answer",
        "score_answers",
    }
    functions = {name for assignment in ASSIGNMENTS for part in assignment.parts for name in part.functions}
    assert {function for function in functions - single if ways.count(function) < 2} == set()


class Dates:
    """A task whose answers are tuples."""

    def own_examples(self, seed):
        days = [
            (year, month, day)
            for day in range(4, 14)
            for month in ("May", "June", "July")
            for year in range(1980, 2000)
        ]
        return [
            (f"the {day}th of {month} {year}", (year, month, day))
            for year, month, day in random.Random(seed).sample(days, 40)
        ]

    def write_answer(self, answer):
        return tuple(map(str, answer))

    def read_answer(self, symbols):
        try:
            year, month, day = symbols
            return int(year), month, int(day)
        except ValueError:
            return None

    def score_answers(self, gold, predicted):
        return (
            100.0
            * sum(
                found is not None and tuple(found) == tuple(right) for right, found in zip(gold, predicted, strict=True)
            )
            / len(gold)
        )


class Formulas:
    """A task whose answers are nested lists."""

    def own_examples(self, seed):
        torch.manual_seed(seed)
        numbers = {(one, other): 0 for one, other in torch.randint(2, 40, (60, 2)).tolist()}
        return [[f"{one} plus {other} times two", ["+", str(one), ["*", str(other), "2"]]] for one, other in numbers]

    def write_answer(self, answer):
        return [answer] if isinstance(answer, str) else [one for part in answer for one in self.write_answer(part)]

    def read_answer(self, symbols):
        def one(rest):
            first, *rest = rest
            if first not in "+*":
                return first, rest
            left, rest = one(rest)
            right, rest = one(rest)
            return [first, left, right], rest

        try:
            answer, rest = one(symbols)
        except ValueError:
            return None
        return None if rest else answer

    def score_answers(self, gold, predicted):
        return torch.tensor([float(right == found) for right, found in zip(gold, predicted, strict=True)]).mean() * 100


@pytest.mark.parametrize("task", [Dates(), Formulas()], ids=["dates", "formulas"])
def test_a_task_of_one_s_own_obeys_every_law(task):
    assignment = next(one for one in ASSIGNMENTS if one.name == "structures")
    own = {name: getattr(task, name) for name in assignment.part("task").functions}
    for seed in range(5):
        assert not broken(assignment.laws("task"), student(assignment, "task", **own), seed)
