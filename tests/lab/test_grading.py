"""`lab submit`, `grade` and `pack`: every shape of submission, whatever is in it."""

import csv
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import seq2seq_suite
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import DataError
from seq2seq_suite.lab import apart, class_report, gradescope, grading, starting, submitting
from seq2seq_suite.lab.assignment import Broken
from seq2seq_suite.lab.assignments import ATTENTION
from seq2seq_suite.lab.checking import Verdict
from seq2seq_suite.lab.folder import Folder
from seq2seq_suite.lab.grades import Grade, Graded, from_plain, to_plain
from seq2seq_suite.lab.parts import Checked
from seq2seq_suite.lab.remote import FORKS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FORKS, reason="needs fork")]
TESTS_KEYS = {
    "number",
    "name",
    "score",
    "max_score",
    "status",
    "output",
    "output_format",
    "visibility",
    "tags",
    "extra_data",
}
TOP_KEYS = {
    "score",
    "execution_time",
    "output",
    "output_format",
    "stdout_visibility",
    "tests",
    "extra_data",
    "leaderboard",
}


def folder(path: Path, student: str, **files: str) -> Path:
    starting.start(ATTENTION, path, student=student, language="en")
    (path / "answers.yaml").unlink(missing_ok=True)  # what it costs is tested with the runs
    for name, text in files.items():
        (path / f"{name}.py").write_text(text)
    return path


def references(*names: str) -> dict[str, str]:
    return {name: ATTENTION.text(name) for name in names}


@pytest.mark.slow
def test_submissions_of_all_shapes_give_a_line_each_and_the_same_by_two_processes(tmp_path, capsys):
    handed, made = tmp_path / "in", tmp_path / "made"
    handed.mkdir()
    right = folder(made / "1", "b1", **references("masks", "heads"))
    submitting.submit(right, handed / "attention-b1.zip")
    small = folder(made / "2", "b2", masks=ATTENTION.text("masks"))
    shutil.copytree(small, handed / "b2")
    moodle = handed / "Ben_17_assignsubmission_file_"
    moodle.mkdir()
    submitting.submit(folder(made / "3", "b3", attend="import os\nos._exit(0)\n"), moodle / "mine.zip")
    with zipfile.ZipFile(handed / "inside.zip", "w") as archive:
        for file in sorted(small.iterdir()):
            if file.is_file():
                archive.write(file, f"attention/{file.name}")
    (handed / "broken.zip").write_bytes(b"PK\x03\x04 nonsense")
    (handed / "empty").mkdir()
    outputs = []
    for jobs in ("1", "2"):
        capsys.readouterr()
        code = cli.main(
            [
                "lab",
                "grade",
                str(handed),
                "--seed",
                "7",
                "--jobs",
                jobs,
                "--csv",
                str(tmp_path / "g.csv"),
                "--html",
                str(tmp_path / "g.html"),
                "--json",
                str(tmp_path / "g.json"),
            ]
        )
        outputs.append([(tmp_path / f"g.{kind}").read_bytes() for kind in ("csv", "html", "json")])
        assert code == 1
    assert outputs[0] == outputs[1]
    out = capsys.readouterr().out
    assert "6 submissions, 4 graded, 2 need you" in out
    with (tmp_path / "g.csv").open(newline="") as file:
        rows = {row["submission"]: row for row in csv.DictReader(file)}
    assert {name: float(row["points"]) for name, row in rows.items()} == {
        "attention-b1": 40,
        "b2": 10,
        "Ben_17_assignsubmission_file_": 0,
        "inside": 10,
        "broken": 0,
        "empty": 0,
    }
    assert rows["empty"]["problem"] == "no lab.yaml in it" and "BadZipFile" in rows["broken"]["problem"]
    assert float(rows["attention-b1"]["heads"]) == 30


def test_one_submission_gives_gradescopes_json_and_its_scores_add_up(tmp_path, capsys):
    fault = next(one for one in ATTENTION.faults("attend") if one.id == "att-scale-d")
    one = folder(tmp_path / "b1", "b1", attend=fault.text(ATTENTION.text("attend")), masks="def f(:\n")
    assert cli.main(["lab", "grade", str(one), "--seed", "7", "--json", str(tmp_path / "r.json")]) == 0
    found = json.loads((tmp_path / "r.json").read_text())
    assert set(found) == TOP_KEYS
    for test in found["tests"]:
        assert set(test) <= TESTS_KEYS and test["status"] in ("passed", "failed")
        assert 0 <= test["score"] <= test["max_score"] and isinstance(test["output"], str) and test["output"]
    assert abs(sum(test["score"] for test in found["tests"]) - found["score"]) < 0.5
    assert abs(sum(test["max_score"] for test in found["tests"]) - 65) < 0.01
    failed = next(test for test in found["tests"] if test["status"] == "failed")
    assert failed["tags"] == ["att-scale-d"] and fault.says in failed["output"]
    assert "masks.py:1 no Python" in next(test["output"] for test in found["tests"] if "masks" in test["name"])


def test_a_submission_of_another_assignment_or_of_none_gets_nothing_and_says_so(tmp_path):
    one = submitting.Submission("b1", folder(tmp_path / "b1", "b1", **references("attend")))
    found = grading.grade_one(one, seed=1, assignment="losses")
    assert (found.points, found.problem) == (0, "it is of the assignment attention")
    (one.folder / "lab.yaml").write_text("assignment: nothing\n")
    assert "there is no assignment" in grading.grade_one(one, seed=1).problem
    (one.folder / "lab.yaml").write_text("student: b1\n")
    assert grading.grade_one(one, seed=1).problem == "no assignment is named"
    shown = gradescope.results(Grade("b1", 1, assignment=ATTENTION))
    assert shown["score"] == 0 and {test["score"] for test in shown["tests"]} == {0.0}
    assert sum(test["max_score"] for test in shown["tests"]) == pytest.approx(65, abs=0.01)


def test_the_leaderboard_has_the_figures_of_accepted_runs():
    rows = [
        Graded("runs.heads4", 10, "24.10", "20.0 to 30.0", "", 10),
        Graded("runs.heads1", 0, "99.00", "20.0 to 30.0", "figures", 10),
        Graded("four", 3, "24.1", "24.1", "right", 3),
    ]
    found = gradescope.results(Grade("b1", 1, assignment=ATTENTION, questions=rows))
    assert found["leaderboard"] == [{"name": "heads4", "value": 24.1}]


def test_a_class_page_counts_faults_and_what_no_bug_explains():
    part, law, fault = ATTENTION.part("attend"), ATTENTION.laws("attend")[0], ATTENTION.faults("attend")[0]
    wrong, right = Verdict(law, Broken("x"), [1]), Verdict(law, None, [1])

    def of(student, verdicts, *faults):
        return Grade(student, 1, assignment=ATTENTION, parts=[Checked(part, 1, verdicts, faults=faults)])

    grades = [of("b1", [wrong], fault), of("b2", [wrong], fault), of("b3", [wrong]), of("b4", [right]), of("b5", [])]
    assert class_report.frequencies(grades) == [(fault.id, 2), ("unknown", 1)]
    page = class_report.page(grades, ["b1, b2 share <a run>"], 7)
    points = [one.points for one in grades]
    assert points[:3] == [0, 0, 0] and points[3] > points[4] == 0
    assert f"5 submissions, mean {sum(points) / 5:.1f}, median 0, from 0 to {points[3]:g} points; seed 7" in page
    assert f"<td>{fault.id}<td class='n'>2" in page and "<td>unknown<td class='n'>1" in page
    assert f"<td>{law.name}<td class='n'>3" in page and "share &lt;a run&gt;" in page
    assert [page.index(f"<td>b{n}<td") for n in range(1, 6)] == sorted(page.index(f"<td>b{n}<td") for n in range(1, 6))


def test_points_are_summed_to_halves_and_no_cell_is_a_formula():
    def total(*points):
        return Grade("b1", 1, questions=[Graded("q", one, "", "", "", 5) for one in points]).points

    assert [total(1.2), total(1.3), total(1.1, 1.1), total(0.2)] == [1.0, 1.5, 2.0, 0.0]
    assert [grading._harmless(one) for one in ("=1+1", "+1", "-1", "@a", "b1", 3, "", " =1", "\uff1d1", "a\r=1")] == [
        "'=1+1",
        "'+1",
        "'-1",
        "'@a",
        "b1",
        3,
        "",
        "' =1",
        "'\uff1d1",
        "a\\r=1",
    ]


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil", "a/../../b"])
def test_a_zip_reaches_nothing_outside(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(DataError, match="outside"):
        submitting.unpack(tmp_path / "x.zip", tmp_path / "into")
    assert [file.name for file in tmp_path.iterdir()] in (["x.zip", "into"], ["into", "x.zip"])


def test_links_and_bombs_in_a_zip_are_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lab.yaml", bytes(70 * 2**20))
    for name, said in (("link", "a link"), ("bomb", "too large")):
        with pytest.raises(DataError, match=said):
            submitting.unpack(tmp_path / f"{name}.zip", tmp_path / "deep" / name)


def test_shared_runs_and_equal_syntax_trees_are_reported_and_cost_nothing(tmp_path):
    long = "def multi_head(a, b):\n" + "".join(f"    a = a @ b + {n} * b[{n}]\n" for n in range(12)) + "    return a\n"
    other = long.replace("a", "x").replace("b", "y").replace("dexf", "def").replace("multi_hexd", "multi_head")
    grades = []
    for student, text in (("b1", long), ("b2", other), ("b3", long.replace("+", "-"))):
        path = folder(tmp_path / student, student, heads=text)
        (path / "runs" / "one").mkdir(parents=True)
        (path / "runs" / "one" / "lab.json").write_text(json.dumps({"losses": [1.5, 1.25 + (student == "b1")]}))
        grades.append(Grade(student, 1, assignment=ATTENTION, marks=class_report.marks(Folder.read(path), ATTENTION)))
    assert class_report.pairs(grades) == ["b1, b2 have the same syntax tree of multi_head", "b2, b3 share a run"]


def test_a_submission_leaves_out_what_is_not_graded(tmp_path, capsys):
    path = folder(tmp_path / "a", "b1", **references("attend"))
    run = path / "runs" / "heads4" / "checkpoints"
    run.mkdir(parents=True)
    for name in ("model.safetensors", "training.safetensors"):
        (run / name).write_bytes(b"x")
    (run.parent / "lab.json").write_text("{}")
    (path / "link.py").symlink_to(__file__)
    assert cli.main(["lab", "submit", str(path)]) == 0
    with zipfile.ZipFile(tmp_path / "attention-b1.zip") as archive:
        names = set(archive.namelist())
    assert "runs/heads4/checkpoints/model.safetensors" in names and "lab.yaml" in names
    assert not names & {"runs/heads4/checkpoints/training.safetensors", "lab_given.py", "link.py"}
    assert "not all laws hold" in (out := capsys.readouterr().out) or "not checked: attend.py" in out


@pytest.mark.parametrize(("name", "speaks"), [("attention", False), ("speech", True)])
def test_a_pack_installs_what_its_assignment_needs(name, speaks, tmp_path):
    gradescope.pack(name, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        project = tomllib.loads(archive.read("suite/pyproject.toml").decode())["project"]
        setup = archive.read("setup.sh").decode()
    needed = {re.match(r"[\w-]+", one)[0] for one in project["dependencies"]}
    assert {"torch", "typer"} <= needed and ("espeakng-loader" in needed) == ("torchaudio" in setup) == speaks


def test_gradescope_runs_the_pack_and_finds_results(tmp_path):
    """The zip unpacked as that platform does; `run_autograder` called there."""
    assert cli.main(["lab", "pack", "attention", "--output", str(tmp_path / "a.zip")]) == 0
    root = tmp_path / "autograder"
    source = root / "source"
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extractall(source)
        assert {
            "setup.sh",
            "run_autograder",
            "suite/pyproject.toml",
            "suite/seq2seq_suite/lab/worker.py",
            "suite/seq2seq_suite/lab/solutions/attention/attend.py",
        } <= set(archive.namelist())
    shutil.copy(source / "run_autograder", root / "run_autograder")
    folder(root / "submission", "b1", **references("attend", "masks"))
    (root / "submission" / "lab.yaml").unlink()  # single files uploaded
    (root / "submission_metadata.json").write_text(json.dumps({"id": 123456, "users": [{"name": "A"}]}))
    done = subprocess.run(
        ["bash", str(root / "run_autograder")],
        capture_output=True,
        text=True,
        env={**os.environ, "AUTOGRADER": str(root), "PYTHON": sys.executable, "PYTHONPATH": str(source / "suite")},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((root / "results" / "results.json").read_text())
    assert found["score"] == 35 and found["extra_data"]["seed"] == 123456 and set(found) == TOP_KEYS
    assert found["extra_data"]["suite"] == seq2seq_suite.__version__


def graded(handed, tmp_path, *more):
    """The rows of a class, and what was said on the terminal's lines."""
    cli.main(["lab", "grade", str(handed), "--seed", "7", "--csv", str(tmp_path / "g.csv"), *more])
    with (tmp_path / "g.csv").open(newline="", encoding="utf-8") as file:
        return {row["submission"]: row for row in csv.DictReader(file)}


@pytest.mark.slow
def test_no_submission_hides_that_it_failed_or_keeps_others_from_their_points(tmp_path, capsys):
    handed, masks = tmp_path / "in", ATTENTION.text("masks")
    for name in ("b1", "deep", "declared", "latin", "notebook", "Wrong", "copy", "link", "pipe", "id", "answers", "z"):
        folder(handed / name, "b1" if name == "b1" else f"c{name}", masks=masks)
    (handed / "deep" / "masks.py").write_text(f"x = {'-' * 60_000}1\n")
    for name, head in (("declared", "# -*- coding: latin-1 -*-\n"), ("latin", "")):
        (handed / name / "masks.py").write_bytes(f"{head}# caf\xe9\n{masks}".encode("latin-1"))
    (handed / "notebook" / "masks.py").rename(handed / "notebook" / "masks.ipynb")
    (handed / "Wrong" / "masks.py").rename(handed / "Wrong" / "Masks.py")
    (handed / "copy" / "masks.py").rename(handed / "copy" / "masks (1).py")
    (handed / "link" / "masks.py").unlink()
    (handed / "link" / "masks.py").symlink_to(handed / "b1" / "masks.py")
    os.mkfifo(handed / "pipe" / "fifo")
    (handed / "id" / "lab.yaml").write_text('assignment: attention\nstudent: "b2\\n\\e[1A\\u202ex"\n')
    lists = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (handed / "answers" / "answers.yaml").write_text("\n".join(["a0: &a0 [x]", *lists, "slip: *a11", "four: [[]"]))
    (handed / "z" / "readme.txt").write_text("stray")
    (handed / "z" / "attention").mkdir()
    for file in (handed / "z").glob("*.*"):
        if file.suffix != ".txt":
            file.rename(handed / "z" / "attention" / file.name)
    with zipfile.ZipFile(handed / "outer.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.zip", b"")
        archive.writestr("big", bytes(70 * 2**20))
    rows = graded(handed, tmp_path, "--html", str(tmp_path / "g.html"))
    assert {name for name, row in rows.items() if float(row["points"]) == 10} == {"b1", "declared", "answers", "z"}
    assert len(rows) == 13 and not rows["b1"]["problem"] and not rows["declared"]["problem"]
    for name, said in (
        ("latin", "masks.py: neither UTF-8"),
        ("notebook", "no masks.py; but masks.ipynb"),
        ("Wrong", "no masks.py; but Masks.py"),
        ("copy", "but masks (1).py"),
        ("link", "a link or a device"),
        ("pipe", "a link or a device"),
        ("outer", "too large"),
        ("id", "student: b2\\n\\x1b[1A\\u202ex"),
        ("answers", "no YAML"),
    ):
        assert said in rows[name]["problem"], (name, rows[name])
    out = capsys.readouterr().out
    assert "13 submissions, 4 graded, 9 need you" in out and not set("\x1b\u202e") & set(out)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(3)", "raise RecursionError('\\x1b')"])
def test_a_submission_that_ends_the_grading_process_costs_its_own_grade(tmp_path, monkeypatch, end):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(f"""if True:
        import os
        from seq2seq_suite.lab import grading
        whole = grading.grade_one
        def grade_one(submission, **more):
            if submission.name == "b2":
                {end}
            return whole(submission, **more)
        grading.grade_one = grade_one
    """)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=os.pathsep)
    for name in ("b1", "b2", "b3"):
        folder(tmp_path / "in" / name, name, **references("masks"))
    rows = graded(tmp_path / "in", tmp_path, "--jobs", "2")
    assert [float(row["points"]) for row in rows.values()] == [10, 0, 10]
    assert rows["b2"]["problem"].startswith("its grading ") and rows["b2"]["problem"].isprintable()


def test_a_submission_without_an_answer_in_time_costs_its_own_grade(tmp_path, monkeypatch):
    monkeypatch.setattr(apart, "SECONDS", 0.01)
    with apart.Graders(1, 1) as graders:
        (found,) = graders.each([folder(tmp_path / "b1", "b1", **references("masks"))])
    assert (found.points, found.problem) == (0, "no answer in 0.01 s")


@pytest.mark.slow
def test_called_again_a_class_is_graded_where_something_is_new(tmp_path, capsys):
    for name in ("b1", "b2"):
        folder(tmp_path / "in" / name, name, **references("masks"))
    first = graded(tmp_path / "in", tmp_path)
    kept = tmp_path / "g.csv.graded"
    before = {file.name: file.stat().st_mtime_ns for file in kept.iterdir()}
    (tmp_path / "in" / "b2" / "masks.py").write_text("def f(:\n")
    folder(tmp_path / "in" / "b3", "b3", **references("masks"))
    (kept / "damaged.json").write_text("{")
    again = graded(tmp_path / "in", tmp_path)
    after = {file.name: file.stat().st_mtime_ns for file in kept.iterdir()}
    assert [name[:2] for name in before if after[name] == before[name]] == ["b1"] and len(after) == 4
    assert again["b1"] == first["b1"] and [float(row["points"]) for row in again.values()] == [10, 0, 10]
    cli.main(["lab", "grade", str(tmp_path / "in"), "--csv", str(tmp_path / "g.csv")])
    assert "seed 7: " in capsys.readouterr().out and after == {
        file.name: file.stat().st_mtime_ns for file in kept.iterdir()
    }


def test_a_grade_is_the_same_again_from_its_json(tmp_path):
    fault = next(one for one in ATTENTION.faults("attend") if one.id == "att-scale-d")
    texts = {"attend": fault.text(ATTENTION.text("attend")), "heads": "def f(:\n", "masks": ATTENTION.text("masks")}
    found = grading.grade_one(submitting.Submission("b1", folder(tmp_path / "b1", "b1", **texts)), seed=1)
    found = replace(found, questions=[Graded("four", 1.5, "1", "2", "wrong", 3)])
    again = from_plain(json.loads(json.dumps(to_plain(found))))
    assert gradescope.results(again) == gradescope.results(found) and grading.plain(again) == grading.plain(found)
    assert class_report.page([again], [], 1) == class_report.page([found], [], 1) and again.marks == found.marks


def test_copies_are_found_whatever_id_they_carry(tmp_path):
    def of(name, student, heads):
        path = folder(tmp_path / name, student, heads=heads)
        return Grade(name, 1, assignment=ATTENTION, id=student, marks=class_report.marks(Folder.read(path), ATTENTION))

    text = ATTENTION.text("heads")
    one, same, other = of("one", "b1", text), of("two", "b1", text), of("three", "b3", text.replace("    ", "\t"))
    assert class_report.pairs([one, same, other]) == [
        "one, three, two hand in the same heads.py",
        "one, two carry one id, b1",
    ]
    assert not class_report.pairs([one, of("four", "b4", starting.starter(text))])
