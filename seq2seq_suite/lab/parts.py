"""One part of a student, checked: its laws tried in the worker, its mistakes named, its points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seq2seq_suite.lab.assignment import Assignment, Broken, Failed, Fault, Part
from seq2seq_suite.lab.checking import Verdict, judge, points
from seq2seq_suite.lab.folder import GIVEN, Refused, imported, needed, refusals
from seq2seq_suite.lab.given import sources
from seq2seq_suite.lab.remote import SECONDS, Workers
from seq2seq_suite.lab.twins import twins

_HURRY = 1.0  # seconds of a law once two have had no answer


@dataclass(frozen=True)
class Checked:
    """What was found of a part.

    Args:
        refused: why it was not run at all.
        faults: the planted bugs that do what the student's code does.
        said: what the code printed under the first law that fails, or under the last.
    """

    part: Part
    seed: int
    verdicts: Sequence[Verdict] = ()
    refused: Sequence[Refused] = ()
    faults: Sequence[Fault] = ()
    said: str = field(default="", repr=False)

    @property
    def points(self) -> float:
        return points(self.part, self.verdicts)

    @property
    def done(self) -> bool:
        """Whether every law holds."""
        return bool(self.verdicts) and all(verdict.holds for verdict in self.verdicts)

    @property
    def begun(self) -> bool:
        """Whether any function was written."""
        answers = [answer for verdict in self.verdicts for answer in verdict.answers]
        return bool(self.refused) or any(not isinstance(one, Failed) or one.begun for one in answers)


def check_part(assignment: Assignment, part: Part, files: Mapping[str, str], workers: Workers, seed: int) -> Checked:
    """Try every law of a part, each in a process of its own."""
    refused = refusals(files, part.name)
    if refused:
        return Checked(part, seed, refused=refused)
    asked = job(assignment, part, files)
    verdicts: list[Verdict] = []
    said, late = "", 0
    for law in assignment.laws(part.name):
        with workers.student(_HURRY if late > 1 else SECONDS) as student:
            try:
                defined = student.begin(asked)
            except Failed as failed:
                if failed.error in ("time", "end"):
                    verdict = Verdict(law, failed)
                else:  # nothing can be called
                    said = said or student.said()
                    return Checked(
                        part,
                        seed,
                        said=said,
                        refused=[
                            Refused(
                                failed.file or f"{part.name}.py",
                                failed.line,
                                f"{failed.error}: {failed.text}",
                                f"{failed.error}：{failed.text}",
                            )
                        ],
                    )
            else:
                missing = [name for name in part.functions if name not in defined]
                verdict = judge(law, student, seed)
                if missing and isinstance(verdict.broken, Failed) and verdict.broken.error == "AttributeError":
                    verdict = replace(
                        verdict,
                        broken=Broken(
                            f"{part.name}.py defines no `{missing[0]}`", f"{part.name}.py 里没有定义 `{missing[0]}`"
                        ),
                    )
            if not verdict.holds and not any(not one.holds for one in verdicts):
                said = student.said()
        late += isinstance(verdict.broken, Failed) and verdict.broken.error == "time"
        verdicts.append(verdict)
    found = Checked(part, seed, verdicts, said=said)
    return (
        found if found.done or not found.begun else replace(found, faults=twins(assignment, part.name, verdicts, seed))
    )


def job(assignment: Assignment, part: Part, files: Mapping[str, str]) -> dict[str, Any]:
    """The message that sets up a part in a worker, before its functions can be called."""
    files = {name: files[name] for name in needed(files, part.name)}
    return {
        "files": files,
        "given": given(assignment, part, files),
        "part": part.name,
        "forbidden": list(part.forbidden),
    }


def given(assignment: Assignment, part: Part, files: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The references that a part's files import, with all that these import: of other parts than this.

    Returns:
        Name of a function -> name of the file that defines it, and its text.
    """
    own = set(part.functions)
    known = sources()
    open_, found = list(files.values()), {}
    while open_:
        for module, names, _ in imported(open_.pop()):
            for name in names if module == GIVEN else ():
                if name in known and name not in own and name not in found:
                    path = known[name]
                    text = path.read_text(encoding="utf-8")
                    found[name] = f"{path.parent.name}/{path.name}", text
                    open_.append(text)
    return found
