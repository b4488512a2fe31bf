"""Laws: the references obey them, and say of themselves what is true."""

import ast
import doctest
import types

import torch

from seq2seq_suite.lab.assignment import EDGE, VALUE, load
from tests.lab.course import broken, each_assignment, each_part, reference, student


@each_part
def test_the_reference_obeys_every_law(assignment, part):
    for seed in range(3):
        assert not broken(assignment.laws(part), student(assignment, part), seed)


@each_part
def test_every_part_has_value_laws_and_edge_laws_of_its_own_name(assignment, part):
    laws = assignment.laws(part)
    assert {law.kind for law in laws} == {VALUE, EDGE}
    assert all(law.name.partition(".")[0] == part for law in laws)


@each_assignment
def test_laws_are_of_known_parts_and_say_what_holds_in_both_languages(assignment):
    laws = assignment.laws()
    assert {law.part for law in laws} == {part.name for part in assignment.parts}
    assert len({law.name for law in laws}) == len(laws)
    assert all(law.note in assignment.notes and law.says and law.says_zh for law in laws), [law.name for law in laws]


@each_part
def test_the_examples_of_a_reference_are_true(assignment, part):
    module = load(assignment.text(part), part)
    runner, finder = doctest.DocTestRunner(verbose=False), doctest.DocTestFinder(recurse=False)
    for name in next(one for one in assignment.parts if one.name == part).functions:
        for test in finder.find(getattr(module, name), name, globs=dict(vars(module))):
            runner.run(test)
    assert not runner.failures


@each_part
def test_a_reference_defines_its_functions_and_uses_nothing_forbidden(assignment, part):
    row = assignment.part(part)
    defined = reference(assignment, part)
    assert all(isinstance(defined[name], types.FunctionType) and defined[name].__doc__ for name in row.functions)
    used = {node.attr for node in ast.walk(ast.parse(assignment.text(part))) if isinstance(node, ast.Attribute)}
    assert not used & {name.rpartition(".")[2] for name in row.forbidden}


@each_part
def test_a_starter_says_what_to_write_and_holds_none_of_it(assignment, part):
    text = assignment.text(part)
    row = assignment.part(part)
    assert text.count("# BEGIN SOLUTION") == text.count("# END SOLUTION") == len(row.functions)
    assert len(row.forbidden) == len(set(row.forbidden))
    for name in row.forbidden:
        owner = torch
        for step in name.split(".")[1:]:
            owner = getattr(owner, step)
