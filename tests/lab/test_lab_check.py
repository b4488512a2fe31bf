"""`lab start`, `check`, `next` and the scripts of what fails, as a student meets them."""

import inspect
import re
import runpy
import subprocess
import sys
from unittest.mock import patch

import pytest

from seq2seq_suite.cli import app as cli
from seq2seq_suite.lab import cli as lab_cli
from seq2seq_suite.lab import failing, starting, verbs
from seq2seq_suite.lab.assignment import load
from seq2seq_suite.lab.assignments import ASSIGNMENTS, ATTENTION
from seq2seq_suite.lab.checking import InProcess, judge
from seq2seq_suite.lab.folder import Folder, digest, refusals
from seq2seq_suite.lab.remote import FORKS
from seq2seq_suite.lab.twins import twins

pytestmark = pytest.mark.skipif(not FORKS, reason="needs fork")
REFERENCE = ATTENTION.text("attend")


@pytest.fixture
def folder(tmp_path):
    starting.start(ATTENTION, tmp_path / "attention", student="b1", language="en")
    return tmp_path / "attention"


def check(folder, workers, capsys, part="attend", **options):
    code = verbs._check(Folder.read(folder), part, workers, **{"seed": None, "hint": False, **options})
    return code, capsys.readouterr().out


def test_a_starter_has_no_points_and_says_where_to_begin(folder, workers, capsys):
    code, out = check(folder, workers, capsys)
    assert code == 1 and "not begun: write attend" in out and "0 of 25" in out
    assert cli.main(["lab", "next", str(folder)]) == 1
    place, law, again = capsys.readouterr().out.splitlines()
    number = int(place.rpartition(":")[2])
    assert "raise NotImplementedError" in (folder / "attend.py").read_text().splitlines()[number - 1]
    assert law.startswith("  attend.parity: ") and again.endswith(" attend")


def test_a_right_part_has_all_points_and_is_not_tried_again(folder, workers, capsys, monkeypatch):
    (folder / "attend.py").write_text(REFERENCE)
    code, out = check(folder, workers, capsys)
    assert code == 0 and "25 of 25" in out and not (folder / "failing").exists()
    assert Folder.read(folder).known("attend")["done"]
    (folder / "attend.py").write_text(REFERENCE + "\n# a remark\n")
    assert not Folder.read(folder).known("attend")


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_mistake_is_named_and_its_script_shows_the_same_number(folder, workers, capsys, language):
    fault = next(one for one in ATTENTION.faults("attend") if one.id == "att-scale-d")
    (folder / "attend.py").write_text(fault.text(REFERENCE))
    yaml = folder / "lab.yaml"
    yaml.write_text(yaml.read_text().replace("language: en", f"language: {language}"))
    code, out = check(folder, workers, capsys)
    says = fault.says_zh if language == "zh" else fault.says
    assert code == 1 and says in out.replace("\n          ", "")
    got = re.search(r"attend\.parity .*?([-\d.]+)(, expected|，应为)", out)[1]
    script = folder / "failing" / failing.file_name("attend.parity")
    shown = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
    assert got in shown and f"{float(re.search('got ([-0-9.]+)', shown)[1]):.4g}" == got
    (folder / "attend.py").write_text(REFERENCE)
    assert check(folder, workers, capsys)[0] == 0 and not script.exists()


def test_what_is_printed_is_shown_cut(folder, workers, capsys):
    (folder / "attend.py").write_text("def attend(*a):\n    print('x' * 9000)\n    return None\n")
    _, out = check(folder, workers, capsys)
    assert 1000 < out.count("x") < 2100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def attend(:\n", "attend.py:1 no Python: invalid syntax"),
        ("import math\nimport seq2seq_suite.lab\n", "attend.py:2 `seq2seq_suite.lab` is not allowed here"),
        ("x = 1\n", "attend.py defines no `attend`"),
        ("import nothing_of_that_name\n", "attend.py:1 ModuleNotFoundError"),
        ("def attend(*a):\n    import os\n    os._exit(0)\n", "your code ended the process in attend.py:3"),
    ],
)
def test_why_a_part_is_not_run_is_reported_with_its_line(folder, workers, capsys, text, said):
    (folder / "attend.py").write_text(text)
    code, out = check(folder, workers, capsys)
    assert code == 1 and said in out


def test_other_parts_are_given_so_that_no_mistake_is_inherited(folder, workers, capsys):
    (folder / "heads.py").write_text(ATTENTION.text("heads"))
    code, out = check(folder, workers, capsys, part="heads")
    assert code == 0 and "30 of 30" in out
    (folder / "attend.py").write_text("from lab_given import attend\n")
    assert "cannot import name 'attend'" in check(folder, workers, capsys)[1]


def test_files_of_the_student_may_import_one_another(folder, workers, capsys):
    (folder / "attend.py").write_text("from mine import attend\n")
    (folder / "mine.py").write_text(REFERENCE)
    assert check(folder, workers, capsys)[0] == 0
    before = digest(Folder.read(folder).files, "attend")
    (folder / "mine.py").write_text(REFERENCE + "\n")
    (folder / "masks.py").write_text("")
    assert digest(Folder.read(folder).files, "attend") != before
    (folder / "mine.py").write_text("import importlib\n")
    assert refusals(Folder.read(folder).files, "attend")[0].file == "mine.py"


def test_a_twin_is_the_bug_that_answers_alike_on_all_that_it_breaks():
    for fault in ATTENTION.faults("attend"):
        student = InProcess(load(fault.text(REFERENCE), "attend"))
        verdicts = [judge(law, student, 3) for law in ATTENTION.laws("attend")]
        assert fault.id in {one.id for one in twins(ATTENTION, "attend", verdicts, 3)}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_start_makes_a_page_of_the_handout_that_loads_nothing(tmp_path, language, capsys):
    assert cli.main(["lab", "start", "2", str(tmp_path / "a"), "--language", language, "--html"]) == 0
    page = (tmp_path / "a" / "README.html").read_text(encoding="utf-8")
    assert "README.html" in capsys.readouterr().out and page.startswith(f"<!doctype html><html lang='{language}'>")
    assert "<code>attend.parity</code>" in page and "<details " in page and "$" not in page
    assert not re.search(r"<script|<link|src=|url\(", page)


@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=lambda one: one.name)
def test_what_start_writes_is_python_without_solutions(assignment, tmp_path, monkeypatch):
    files = starting.start(assignment, tmp_path / "new", student="", language="zh")
    assert {f"{part.name}.py" for part in assignment.parts} | {"lab.yaml"} <= set(files)
    for part in assignment.parts:
        text = (tmp_path / "new" / f"{part.name}.py").read_text()
        compile(text, part.name, "exec")
        assert "SOLUTION" not in text and text.count("NotImplementedError") >= len(part.functions)
    given = tmp_path / "new" / "lab_given.py"
    if given.exists():
        monkeypatch.syspath_prepend(given.parent)
        with patch.dict(sys.modules):
            runpy.run_path(str(given))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "nowhere"], "no folder"),
        (["start", "nothing", "x"], "there is no assignment 'nothing'"),
        (["start", "2", "."], "not empty"),
        (["start", "2", "x", "--language", "fr"], "--language fr"),
        (["start", "2", "x", "--student", "a/b"], "--student a/b"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "something").touch()
    assert cli.main(["lab", *arguments]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "who has paid for its share?"), pytest.param("zh", "从谁那里拿走的？", marks=pytest.mark.slow)],
)
def test_a_hint_is_what_the_handout_says_of_the_law_that_fails_and_comes_when_asked(
    language, said, folder, workers, capsys
):
    (folder / "lab.yaml").write_text(f"assignment: attention\nstudent: b1\nlanguage: {language}\n")
    late = next(one for one in ATTENTION.faults("attend") if one.id == "att-mask-after")
    (folder / "attend.py").write_text(late.text(REFERENCE))
    assert said in check(folder, workers, capsys, hint=True)[1].replace("\n          ", " ").replace(" \n", "")
    assert said not in check(folder, workers, capsys)[1].replace("\n          ", " ")


def test_nothing_is_hinted_or_watched_unless_asked_for():
    said = inspect.signature(lab_cli.check).parameters
    assert [said[name].default for name in ("hint", "watch", "seed", "part")] == [False, False, None, None]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import importlib", "importlib"),
        ("import torch._C as c", "torch._C"),
        ("from torch import ops", "torch.ops"),
        ("import torch\ny = torch.ops.aten", "torch.ops"),
        ("from seq2seq_suite import lab", "seq2seq_suite.lab"),
        ("x = __import__('os')", "__import__"),
        ("import importlib.util", "importlib.util"),
        ("import torch", ""),
        ("import torch\ny = torch.optim", ""),
        ("from torch.nn import functional", ""),
        ("import seq2seq_suites", ""),
    ],
)
def test_what_a_file_may_not_name_is_reported_with_its_line(text, said):
    found = refusals({"attend.py": f"{text}\n"}, "attend")
    assert [(one.line, one.message) for one in found] == (
        [(text.count("\n") + 1, f"`{said}` is not allowed here")] if said else []
    )


def test_next_leads_from_the_parts_to_the_runs_the_answers_and_the_zip(folder, capsys):
    def next_of(code):
        assert cli.main(["lab", "next", str(folder)]) == code
        return capsys.readouterr().out.splitlines()

    facts = {"points": 1, "laws": 1, "begun": True, "failing": []}
    Folder.read(folder).keep("attend", {**facts, "done": True})
    assert "masks.py:" in next_of(1)[0]
    for name in ("masks", "heads"):
        Folder.read(folder).keep(name, {**facts, "done": True})
    assert next_of(1) == [f"python -m seq2seq_suite lab run {folder}"]
    (folder / "runs" / "heads4").mkdir(parents=True)
    (folder / "runs" / "heads4" / "lab.json").write_text("{}")
    assert next_of(1)[0].endswith("answers.yaml: four, one, sure, entropy, slip")
    file = folder / "answers.yaml"
    file.write_text(re.sub(r"(?m)^(\w+):$", r"\1: 0", file.read_text()).replace("slip: 0", "slip:"))
    assert next_of(1)[0].endswith("answers.yaml: slip")
    file.write_text(file.read_text().replace("slip:", "slip: sum"))
    assert next_of(1) == [f"python -m seq2seq_suite lab submit {folder}"]
    (folder.parent / "attention-b1.zip").touch()
    assert next_of(0) == ["all is done"]


def test_the_list_says_how_far_one_is(folder, workers, capsys):
    (folder / "attend.py").write_text(REFERENCE)
    check(folder, workers, capsys)
    assert cli.main(["lab", "list", str(folder.parent)]) == 0
    out = capsys.readouterr().out
    assert "you have 1 of 3 files, 25 points" in out and max(map(len, out.splitlines())) <= 80
