"""`lab grade`: the laws, the runs and the answers of one submission, or of a class."""

from __future__ import annotations

import atexit
import csv as tables
import io
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import RunError, UserError
from seq2seq_suite.common.files import atomic_write_text, to_json
from seq2seq_suite.lab import apart, class_report, gradescope
from seq2seq_suite.lab.folder import Folder, overlooked, printable
from seq2seq_suite.lab.grades import Grade, Graded
from seq2seq_suite.lab.messages import relative_path
from seq2seq_suite.lab.parts import check_part
from seq2seq_suite.lab.remote import Workers
from seq2seq_suite.lab.starting import named
from seq2seq_suite.lab.submitting import Submission, submissions


def grade(path: Path, *, json: Path | None, csv: Path | None, html: Path | None, seed: int | None, jobs: int) -> int:
    """Grade what lies there and print and write what was found.

    Each submission's grade is kept beside the first file to be written, in a folder `FILE.graded`: called again, this
    grades those that are new or have changed.

    Returns:
        1 where a submission could not be graded, else 0.
    """
    kept = next((file.with_name(f"{file.name}.graded") for file in (csv, json, html) if file), None)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="lab-") as scratch:
        found = submissions(path, Path(scratch))
        single = found == [path]
        if single:
            kept = None
        elif seed is None:
            seed = apart.seed_of(kept)
        seed = secrets.randbelow(10**6) if seed is None else seed
        grades = []
        try:
            with apart.Graders(min(jobs, len(found)), seed, kept, json if single else None) as graders:
                for one in graders.each(found):
                    grades.append(one)
                    print(_line(one), flush=True)
        except KeyboardInterrupt:
            print(
                f"{len(grades)} of {len(found)} submissions are graded"
                + (f" and kept in {relative_path(kept)}: the same command goes on there" if kept else ""),
                flush=True,
            )
            raise
    pairs = class_report.pairs(grades) if len(grades) > 1 else []
    if single:
        _print_single(grades[0])
    else:
        _print_class(grades, pairs, time.perf_counter() - begun)
    if json is not None:
        whole = gradescope.results(grades[0]) if single else [plain(one) for one in grades]
        atomic_write_text(json, to_json(whole, indent=1))
    if csv is not None:
        _write_csv(csv, grades)
    if html is not None:
        atomic_write_text(html, class_report.page(grades, pairs, seed))
    print(f"seed {seed}: the same numbers again by --seed {seed}")
    return int(any(one.problem for one in grades))


def grade_one(
    submission: Submission, *, seed: int, tell: Callable[[Grade], None] | None = None, assignment: str = ""
) -> Grade:
    """Grade a submission.

    Args:
        tell: called with the results after each part, at first with none.
        assignment: that it must be of; by default the one that its lab.yaml names.
    """
    begun, found = time.perf_counter(), Grade(submission.name, seed, problem=submission.problem)
    if submission.folder is None or submission.problem:
        return found
    try:
        folder = Folder.read(submission.folder)
        row = named(folder.assignment)
        if assignment and row.name != named(assignment).name:
            return replace(found, problem=f"it is of the assignment {row.name}")
    except UserError as error:
        return replace(found, problem=printable(error.got))
    problem = overlooked(folder.path, folder.files, [part.name for part in row.parts])
    found = replace(
        found,
        assignment=row,
        id=folder.student,
        language=folder.language,
        problem=problem,
        marks=class_report.marks(folder, row),
    )
    workers = _workers()
    workers.start()
    found = replace(found, holds=tuple(workers.holds))
    for part in row.parts:
        if tell is not None:
            tell(found)
        checked = check_part(row, part, folder.files, workers, seed)
        found = replace(found, parts=(*found.parts, checked), seconds=time.perf_counter() - begun)
    if tell is not None:
        tell(found)
    questions, wrong = _questions(folder, seed)
    return replace(
        found,
        questions=questions,
        problem="; ".join(filter(None, (problem, wrong))),
        seconds=time.perf_counter() - begun,
    )


@cache
def _workers() -> Workers:
    """For all submissions that this process grades: no code of theirs runs but in forks of it."""
    workers = Workers()
    atexit.register(workers.close)
    return workers


def _questions(folder: Folder, seed: int) -> tuple[Sequence[Graded], str]:
    """Runs and answers; nothing where neither is there."""
    if not (folder.path / "answers.yaml").is_file() and not (folder.path / "runs").is_dir():
        return (), ""
    found: Sequence[Graded] = ()
    try:
        from seq2seq_suite.lab import answers

        found = answers.grade(folder.path, seed)
        answers.read_answers(folder.path / answers.ANSWERS)  # raises what the teacher is to read
    except (UserError, RunError) as error:
        return found, printable(f"answers: {getattr(error, 'got', error)}")
    except Exception as error:  # a submission may hold anything; the others go on
        return found, printable(f"runs and answers: {type(error).__name__}: {error}")
    return found, ""


def plain(one: Grade) -> dict[str, Any]:
    """As JSON and CSV have it."""
    return {
        "submission": one.name,
        "student": one.student,
        "assignment": one.assignment.name if one.assignment else "",
        "points": one.points,
        **{part.part.name: round(part.points, 2) for part in one.parts},
        "experiment": round(sum(each.points for each in one.questions if each.question.startswith("runs.")), 2),
        "questions": round(sum(each.points for each in one.questions if not each.question.startswith("runs.")), 2),
        "faults": " ".join(fault.id for fault in one.faults),
        "problem": one.problem,
        "seed": one.seed,
    }


def _write_csv(path: Path, grades: Sequence[Grade]) -> None:
    rows = [plain(one) for one in grades]
    last = ("experiment", "questions", "faults", "problem", "seed")
    names = list(dict.fromkeys(name for row in rows for name in row if name not in last)) + list(last)
    file = io.StringIO()
    writer = tables.DictWriter(file, names, restval="")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    atomic_write_text(path, file.getvalue())


def _harmless(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula, on one line."""
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.lstrip()[:1] in tuple("=+-@＝＋－＠") else printable(value)


def _line(one: Grade) -> str:
    if one.assignment is None:
        return f"{one.student:<16} not graded: {one.problem}"
    parts = "  ".join(f"{part.part.name} {part.points:.3g}/{part.part.points:g}" for part in one.parts)
    asked = sum(each.points for each in one.questions)
    return f"{one.student:<16} {one.points:>5g}  {parts}  runs and answers {asked:.3g}" + (
        f"  {one.problem}" if one.problem else ""
    )


def _print_single(one: Grade) -> None:
    if one.assignment is None:
        return
    for part in one.parts:
        if not part.begun:
            print(f"  {part.part.name}.py: not begun")
        for law, said in gradescope.failures(part) if part.begun else ():
            print(f"  {law}: {said}")
    for each in one.questions:
        print(
            f"  {each.question}: {each.points:g} of {each.most:g}  {each.verdict}"
            + (f"  got {each.got}, expected {each.expected}" if each.points < each.most and each.got else "")
        )
    print(f"{one.points:g} of {one.assignment.points:g} points; sandbox: {', '.join(one.holds) or 'time limit alone'}")


def _print_class(grades: Sequence[Grade], pairs: Sequence[str], seconds: float) -> None:
    open_ = [one for one in grades if one.problem]
    print(
        f"\n{len(grades)} submissions, {len(grades) - len(open_)} graded"
        + (f", {len(open_)} need you" if open_ else "")
        + f", {seconds:.0f} s"
    )
    holds = next((one.holds for one in grades if one.assignment is not None), ())
    print(f"sandbox: {', '.join(holds) or 'time limit alone'}")
    for line in pairs:
        print(f"  {line}")
    faults = class_report.frequencies(grades)
    if faults:
        print("most frequent faults   " + "   ".join(f"{name} {count}" for name, count in faults[:6]))
