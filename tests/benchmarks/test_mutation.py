"""Mutants: a rule makes one change and no other, names outlive edits elsewhere, and the campaign tells who survives."""

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from benchmarks import mutation
from benchmarks.mutants import Mutant, draw, files_of, mutants_of, mutated

ROOT = Path(__file__).parents[2]


@cache
def mutants_in(file: str) -> list[Mutant]:
    """All mutants of a file of the package, which several tests look at."""
    return mutants_of(file, (ROOT / file).read_text(encoding="utf-8"))


def variants(source: str) -> list[tuple[str, str]]:
    return [(mutant.rule, mutated(mutant, source)) for mutant in mutants_of("a.py", source)]


@pytest.mark.parametrize(
    ("rule", "source", "changed"),
    [
        ("comparison", "y = a < b <= c", ["y = a <= b <= c", "y = a < b < c"]),
        ("comparison", "y = a == b", ["y = a != b"]),
        ("comparison", "y = a is not b", ["y = a is b"]),
        ("comparison", "y = a in b", ["y = a not in b"]),
        ("arithmetic", "y = (a + b) * c", ["y = (a + b) / c", "y = (a - b) * c"]),
        ("arithmetic", "y = c * a * b", ["y = c * a / b", "y = c / a * b"]),
        ("arithmetic", "y = a - b * c", ["y = a + b * c", "y = a - b / c"]),
        ("arithmetic", "y -= a % b", ["y += a % b", "y -= a // b"]),
        ("arithmetic", "y = -a", ["y = a"]),
        ("arithmetic", "y = -(a + b) * c", ["y = -(a + b) / c", "y = (a + b) * c", "y = -(a - b) * c"]),
        ("arithmetic", "y = 'a' + b, f'{a}' + b, [a] + b, a % 'b', a | None, folder / 'b'", []),
        ("constant+1", "y = x[0], -1, 0.5", ["y = x[1], -1, 0.5", "y = x[0], 0, 0.5", "y = x[0], -1, 1.5"]),
        ("constant-1", "y = x[0], -1, 3", ["y = x[-1], -1, 3", "y = x[0], -2, 3", "y = x[0], -1, 2"]),
        ("constant-1", "y = a - 0", ["y = a - -1"]),
        ("truth", "f(x, flag=True)", ["f(x, flag=False)"]),
        ("truth", "for a, b in zip(x, y, strict=True): print(a, b, flush=True)", []),
        ("and-or", "y = a and b or c", ["y = (a and b) and c", "y = (a or b) or c"]),
        ("not", "y = not (a or b) and c", ["y = (a or b) and c"]),
        ("swap", "y = f(a, b.c, d, e=e)", ["y = f(b.c, a, d, e=e)", "y = f(a, d, b.c, e=e)"]),
        ("swap", "y = max(a, b), f(a, a), f(a, b + c), isinstance(a, b)", []),
        ("call", "f(a, b)", ["pass"]),
        ("call", "y = f(g(a + b)) * c", ["y = g(a + b) * c", "y = f(a + b) * c"]),
        (
            "call",
            "import m\ny = m.exp(a), b.at(c), self.norm(d)",
            ["import m\ny = a, b.at(c), self.norm(d)", "import m\ny = m.exp(a), b.at(c), d"],
        ),
        ("call", "y = a.strip(), b.masked_fill(c, 0)", ["y = a, b.masked_fill(c, 0)", "y = a.strip(), b"]),
        ("call", "y = Path(a), list(b), len(c), f('d'), f(*e)", []),
        (
            "axis",
            "y = a.sum(1), b.softmax(dim=-1)",
            ["y = a.sum(0), b.softmax(dim=-1)", "y = a.sum(1), b.softmax(dim=-2)"],
        ),
        ("axis", "y = a.transpose(1, 2)", ["y = a.transpose(0, 2)", "y = a.transpose(1, 1)"]),
        ("axis", "y = len(f(a, 1))", []),
    ],
)
def test_a_rule_makes_its_changes_and_no_others(rule, source, changed):
    assert [new for found, new in variants(source) if found == rule] == changed


def test_an_axis_is_no_other_constant():
    assert {rule for rule, _ in variants("y = a.sum(-1)")} == {"axis"}


@pytest.mark.parametrize(
    "source",
    [
        '"""Docstring of 3 > 2."""',
        "def f(a: Literal[1] = None) -> Annotated[int, 1 + 1]: ...",
        "x: Annotated[int, 1 < 2]",
        "__all__ = [f(a)]",
        "raise ValueError(f(a) + str(1))",
        "assert a > 1",
        "if TYPE_CHECKING:\n    import a\n    f(1)",
        "if __name__ == '__main__':\n    main(1)",
        "y = DataError(f'{a + 1}', line=1)",
        "y = dict(problem=ConfigError(a, b))",
    ],
)
def test_what_changes_no_behaviour_is_left_alone(source):
    assert variants(source) == []


def test_the_text_of_a_message_is_left_alone_but_not_the_call_that_prints_it():
    assert variants("print(f'{a + 1}')") == [("call", "pass")]


def test_places_inside_texts_are_found():
    assert variants('y = f"{a + b:.2f}", "ä" , c * d')[0][1] in (
        'y = f"{a - b:.2f}", "ä" , c * d',
        "y = f'{a - b:.2f}', \"ä\" , c * d",
    )
    assert variants('y = "ä", c * d') == [("arithmetic", 'y = "ä", c / d')]


@pytest.mark.slow
@pytest.mark.parametrize("file", files_of(ROOT, "seq2seq_suite", "seq2seq_suite/report/*"))
def test_mutants_of_the_package_differ_from_it_in_one_place(file):
    source = (ROOT / file).read_text(encoding="utf-8")
    found, before = mutants_in(file), ast.dump(ast.parse(source))
    assert len({mutant.name for mutant in found}) == len(found)
    for mutant in found[::40]:
        new = mutated(mutant, source)
        assert ast.dump(ast.parse(new)) != before
        assert new.splitlines()[: mutant.lines[0] - 1] == source.splitlines()[: mutant.lines[0] - 1]


def test_word_lists_are_left_out():
    files = files_of(ROOT, "seq2seq_suite")
    assert not any("lexicon" in file for file in files)
    assert any("miniworld" in file for file in files)


SOURCE = "class A:\n    def f(self, x):\n        return x > 1\n\n\ndef g(x, y):\n    return h(x, y) - 2\n"


def test_names_outlive_lines_and_functions_put_in_elsewhere():
    names = [mutant.name for mutant in mutants_of("a.py", SOURCE)]
    assert names[0] == "a.py::A.f::comparison::1"
    grown = SOURCE.replace("class A", "import os\n\n\ndef before(x):\n    return x == 3\n\n\nclass A").replace(
        "        return", "        # why\n        return"
    )
    assert [mutant.name for mutant in mutants_of("a.py", grown) if "before" not in mutant.name] == names


def test_a_draw_is_seeded_and_hardly_changed_by_edits():
    mutants = [
        mutant for file in files_of(ROOT, "seq2seq_suite", "seq2seq_suite/report/*") for mutant in mutants_in(file)
    ]
    first = [mutant.name for mutant in draw(mutants, 30, seed=1)]
    assert first == [mutant.name for mutant in draw(mutants[::-1], 30, seed=1)]
    assert first != [mutant.name for mutant in draw(mutants, 30, seed=2)]
    more = mutants + mutants_of("seq2seq_suite/report/new.py", SOURCE)
    assert len(set(first) & {mutant.name for mutant in draw(more, 30, seed=1)}) >= 22


def test_a_draw_goes_through_packages_and_rules():
    mutants = [mutant for file in files_of(ROOT, "seq2seq_suite", "*s/[a-l]*") for mutant in mutants_in(file)]
    drawn = list(draw(mutants, 150, seed=3))
    assert {mutant.package for mutant in drawn} == {mutant.package for mutant in mutants}
    assert {mutant.rule for mutant in drawn} == {mutant.rule for mutant in mutants}
    assert len({mutant.name for mutant in drawn}) == 150
    assert len(list(draw(mutants_of("pkg/a.py", SOURCE), 100, seed=1))) == len(mutants_of("pkg/a.py", SOURCE))


MODULE = """def clipped(value, most):
    if value > most:
        return most
    return value + 1


def unseen(a):
    return -a


def endless(value):
    while value > 0:
        value -= 3
    return value
"""
TESTS = """from pkg.part.sums import clipped, endless


def test_clipped():
    assert clipped(3, 2) == 2
    assert clipped(0, 2) == 1


def test_endless():
    assert endless(3) == 0
"""


@pytest.fixture
def small_project(tmp_path, monkeypatch):
    """A project of one module and one test file, and the arguments for it."""
    pytest.importorskip("coverage", reason="comes with the extra `test`")
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(variable, "1")
    root = tmp_path / "project"
    (root / "pkg" / "part").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "pkg" / "__init__.py").touch()
    (root / "pkg" / "part" / "__init__.py").touch()
    (root / "pkg" / "part" / "sums.py").write_text(MODULE)
    (root / "tests" / "test_sums.py").write_text(TESTS)
    return root, ["--root", str(root), "--package", "pkg", "--cache", str(tmp_path / "cache")]


@pytest.mark.slow
def test_a_campaign_names_survivors_and_goes_on_where_it_was(small_project, tmp_path, capsys, monkeypatch):
    root, given = small_project
    table = tmp_path / "table.md"
    monkeypatch.setattr("benchmarks.mutation_tests._LEAST_LIMIT", 1)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    mutation.main([*given, "--output", str(table)])
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    rows = {
        row["name"].removeprefix("pkg/part/sums.py::"): row
        for row in map(json.loads, (tmp_path / "cache" / "results.jsonl").read_text().splitlines())
    }
    outcomes = {name: row["outcome"] for name, row in rows.items()}
    assert outcomes["clipped::comparison::1"] == "survived"
    assert outcomes["unseen::arithmetic::1"] == "survived" and not rows["unseen::arithmetic::1"]["reaching"]
    assert outcomes["clipped::arithmetic::1"] == "caught"
    assert rows["clipped::arithmetic::1"]["test"] == "tests/test_sums.py::test_clipped"
    assert outcomes["endless::arithmetic::1"] == "timed out"
    text = table.read_text(encoding="utf-8")
    assert "-    if value > most:\n+    if value >= most:\n" in text and "no test does" in text
    capsys.readouterr()

    (root / "tests" / "test_sums.py").write_text(TESTS.replace("(3, 2) == 2", "(2, 2) == 2"))
    (root / "pkg" / "part" / "sums.py").write_text(MODULE.replace(">", ">=", 1))
    excused = {"pkg/part/sums.py::unseen::arithmetic::1": ("-a -> a", "nobody calls it")}
    monkeypatch.setattr(mutation, "EQUIVALENT", excused)
    mutation.main([*given, "--resume"])
    reported = capsys.readouterr()
    assert "caught pkg/part/sums.py::clipped::comparison::1: value >= most -> value > most" in reported.err
    assert "endless::arithmetic::1" not in reported.err  # its result stands
    assert "| nobody calls it |" in reported.out


def test_one_mutant_is_repeated_by_its_name(small_project, capsys):
    _, given = small_project
    mutation.main([*given, "--only", "pkg/part/sums.py::clipped::arithmetic::1"])
    reported = capsys.readouterr()
    assert "caught" in reported.err and "-    return value + 1\n+    return value - 1\n" in reported.out
    assert "assert clipped(0, 2) == 1" in reported.out  # what the test said
    with pytest.raises(SystemExit, match="no such mutant"):
        mutation.main([*given, "--only", "pkg/part/sums.py::clipped::arithmetic::9"])


def test_a_list_runs_nothing(small_project, capsys, tmp_path):
    _, given = small_project
    mutation.main([*given, "--list", "--mutants", "3"])
    assert len(capsys.readouterr().out.splitlines()) == 3 and not (tmp_path / "cache").exists()
