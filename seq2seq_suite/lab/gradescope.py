"""Gradescope: the results that it reads, and the zip that it runs.

Source: gradescope-autograders.readthedocs.io, "Autograder specifications".
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import seq2seq_suite
from seq2seq_suite.lab.assignment import EDGE, VALUE, Assignment, Part
from seq2seq_suite.lab.checking import Verdict
from seq2seq_suite.lab.folder import printable
from seq2seq_suite.lab.messages import message, relative_path, says, word
from seq2seq_suite.lab.starting import named
from seq2seq_suite.lab.submitting import Submission

if TYPE_CHECKING:
    from seq2seq_suite.lab.grades import Grade
    from seq2seq_suite.lab.parts import Checked

_LONGEST = 4000  # characters of a test's output


def results(grade: Grade) -> dict[str, Any]:
    """`results.json`; parts that are not checked yet stand there with 0."""
    tests: list[dict[str, Any]] = []
    checked = {part.part.name: part for part in grade.parts}
    language = grade.language
    number = 1
    if (assignment := grade.assignment) is not None:
        for number, part in enumerate(assignment.parts, 1):
            tests += _tests(assignment, part, checked.get(part.name), number, language, grade.seed)
        number = len(assignment.parts) + 1
    for place, one in enumerate(grade.questions, 1):
        said = one.verdict + (f": got {one.got}" if one.got else "")
        tests.append(_test(f"{number}.{place}", one.question, one.points, one.most, said))
    sum_of = f"{grade.points:g} of {grade.assignment.points:g}" if grade.assignment else "not graded"
    name = grade.assignment.name if grade.assignment else grade.name
    output = f"{name}: {sum_of}. The laws are those of `lab check`, with other numbers."
    return {
        "score": grade.points,
        "execution_time": round(grade.seconds, 1),
        "output": output + (f" {grade.problem}" if grade.problem else ""),
        "output_format": "md",
        "stdout_visibility": "hidden",
        "tests": tests,
        "leaderboard": _leaderboard(grade),
        "extra_data": {
            "suite": seq2seq_suite.__version__,
            "assignment": name,
            "seed": grade.seed,
            "sandbox": list(grade.holds),
        },
    }


def _leaderboard(grade: Grade) -> list[dict[str, Any]]:
    """The figure of each run that was accepted."""
    return [
        {"name": one.question.removeprefix("runs."), "value": float(one.got)}
        for one in grade.questions
        if one.question.startswith("runs.") and one.points and one.got
    ]


def _tests(
    assignment: Assignment, part: Part, checked: Checked | None, number: int, language: str, seed: int
) -> Iterator[dict[str, Any]]:
    laws = assignment.laws(part.name)
    verdicts = {verdict.law.name: verdict for verdict in checked.verdicts} if checked else {}
    values = all(verdicts[law.name].holds if law.name in verdicts else False for law in laws if law.kind == VALUE)
    first = True
    for place, law in enumerate(laws, 1):
        most = share(part, [one.kind for one in laws], law.kind)
        verdict = verdicts.get(law.name)
        good = verdict is not None and verdict.holds
        counts = good and (law.kind == VALUE or values)
        said, tags = _said(checked, verdict, language), []
        if good and not counts:
            said = (
                "成立；同一文件的其他规则都成立后才计分"
                if language == "zh"
                else ("holds; it counts once the value laws of this file hold")
            )
        if checked is not None and not good and first:
            first, tags = False, [fault.id for fault in checked.faults]
            for fault in checked.faults[:2]:
                said += "\n" + word(language, "twin", says(fault, language))
        yield _test(
            f"{number}.{place}",
            law.name,
            most if counts else 0.0,
            most,
            said or says(law, language),
            tags=tags,
            extra_data={"seed": seed, "law": law.name},
            passed=counts,
        )


def share(part: Part, kinds: list[str], kind: str) -> float:
    """The points of one law of a part."""
    half = 0.5 if EDGE in kinds and VALUE in kinds else 1.0
    return part.points * half / kinds.count(kind)


def _said(checked: Checked | None, verdict: Verdict | None, language: str) -> str:
    if checked is None:
        return "not checked: the time was over" if language == "en" else "没有检查：时间不够"
    if verdict is not None:
        return message(verdict.broken, language) if verdict.broken else ""
    return "; ".join(
        f"{one.file}:{one.line} {one.message_zh if language == 'zh' else one.message}" for one in checked.refused
    )


def _test(
    number: str, name: str, score: float, most: float, output: str, *, passed: bool | None = None, **more: Any
) -> dict[str, Any]:
    good = score >= most if passed is None else passed
    return {
        "number": number,
        "name": name,
        "score": round(score, 4),
        "max_score": round(most, 4),
        "status": "passed" if good else "failed",
        "output": output[:_LONGEST],
        "output_format": "text",
        "visibility": "visible",
        **more,
    }


def failures(checked: Checked, language: str = "en") -> list[tuple[str, str]]:
    """Name and reason of what fails in a part."""
    if checked.refused:
        return [(f"{checked.part.name}.py", _said(checked, None, language))]
    found = [(verdict.law.name, message(verdict.broken, language)) for verdict in checked.verdicts if verdict.broken]
    return found + [(fault.id, says(fault, language)) for fault in checked.faults[:2]]


_SETUP = """#!/usr/bin/env bash
set -e
apt-get update -q && apt-get install -yq python3 python3-pip python3-venv
python3 -m venv /opt/lab
/opt/lab/bin/pip install -q {torch} --index-url https://download.pytorch.org/whl/cpu
cd /autograder/source && /opt/lab/bin/pip install -q ./suite
"""
_RUN = """#!/usr/bin/env bash
# AUTOGRADER and PYTHON are other than these where this is tried outside of Gradescope.
root=${{AUTOGRADER:-/autograder}}
chmod 700 "$root/source" "$root/results" 2>/dev/null
cd / && exec "${{PYTHON:-/opt/lab/bin/python}}" -m seq2seq_suite.lab.gradescope {name} "$root"
"""


def pack(name: str, output: Path) -> None:
    """Write the autograder's zip: `setup.sh`, `run_autograder` and the suite itself."""
    assignment = named(name)
    source = Path(seq2seq_suite.__file__).parent
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        torch = "torch torchaudio" if assignment.extra == "speech" else "torch"
        for file, text in (
            ("setup.sh", _SETUP.format(torch=torch)),
            ("run_autograder", _RUN.format(name=assignment.name)),
            ("suite/pyproject.toml", _project(assignment.extra)),
        ):
            entry = zipfile.ZipInfo(file)
            entry.external_attr = (0o755 if file != "suite/pyproject.toml" else 0o644) << 16
            archive.writestr(entry, text)
        for path in sorted(source.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, Path("suite") / source.name / path.relative_to(source))
    print(
        f"{relative_path(output)}: {assignment.name}, {output.stat().st_size / 2**20:.1f} MB\n"
        "at Gradescope: Configure Autograder, zip file upload; ask for 1.5 GB of memory"
    )


def _project(extra: str) -> str:
    """What pip needs to install the suite as it is here, with an extra or none."""
    from importlib import metadata

    try:
        requirements = [re.split(r";\s*extra == ", one) for one in metadata.requires("seq2seq-suite") or ()]
        needed = [one[0] for one in requirements if len(one) == 1 or one[1].strip("\"' ") == extra]
    except metadata.PackageNotFoundError:
        import tomllib

        file = Path(seq2seq_suite.__file__).parents[1] / "pyproject.toml"
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        needed = project["dependencies"] + project["optional-dependencies"].get(extra, [])
    return (
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n\n'
        f'[project]\nname = "seq2seq-suite"\nversion = "{seq2seq_suite.__version__}"\n'
        f"dependencies = {json.dumps(needed)}\n\n[tool.setuptools.packages.find]\n"
        'include = ["seq2seq_suite*"]\n\n[tool.setuptools.package-data]\n"*" = ["**/*"]\n'
    )


def autograde(name: str, root: Path) -> int:
    """What `run_autograder` does: grade the one submission there, and write results.json even if time runs out."""
    from seq2seq_suite.lab import grading

    target = root / "results" / "results.json"
    target.parent.mkdir(parents=True, exist_ok=True)

    def write(grade: Grade) -> None:
        beside = target.with_suffix(".new")
        beside.write_text(json.dumps(results(grade), indent=1), encoding="utf-8")
        os.replace(beside, target)

    assignment = named(name)
    seed, users = 1, []
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        upload = json.loads((root / "submission_metadata.json").read_text(encoding="utf-8"))
        seed, users = int(upload["id"]) % 10**6, [str(user.get("email") or user["name"]) for user in upload["users"]]
    with tempfile.TemporaryDirectory(prefix="lab-") as scratch:
        folder = Path(scratch) / "submission"
        shutil.copytree(
            root / "submission",
            folder,
            symlinks=True,
            ignore=lambda where, names: [one for one in names if os.path.islink(os.path.join(where, one))],
        )
        submission = _as_handed_in(folder, Path(scratch) / "opened", assignment.name)
        found = grading.Grade(submission.name, seed, assignment=assignment)
        write(found)
        try:
            found = grading.grade_one(submission, seed=seed, tell=write, assignment=assignment.name)
        except Exception as error:  # a submission may hold anything
            found = replace(found, problem=printable(f"its grading failed: {type(error).__name__}: {error}"))
        write(found)
    print(
        f"{found.student}: {found.points:g}; handed in by {printable(', '.join(users)) or 'nobody known'}"
        + (f"; {found.problem}" if found.problem else "")
    )
    return 0


def _as_handed_in(folder: Path, scratch: Path, name: str) -> Submission:
    """Gradescope unpacks zips; whoever uploads single files sends no lab.yaml."""
    from seq2seq_suite.lab.submitting import opened

    if not list(folder.glob("**/lab.yaml")) and list(folder.glob("*.py")):
        (folder / "lab.yaml").write_text(f"assignment: {name}\nstudent: ''\n", encoding="utf-8")
    return opened(folder, "submission", scratch)


if __name__ == "__main__":
    sys.exit(autograde(sys.argv[1], Path(sys.argv[2])))
