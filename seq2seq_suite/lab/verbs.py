"""`lab check`: the laws tried on a folder's files, and again whenever one is saved."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.lab import failing
from seq2seq_suite.lab.assignment import Assignment, Part
from seq2seq_suite.lab.folder import Folder, digest
from seq2seq_suite.lab.launch import Launched
from seq2seq_suite.lab.messages import part_lines, score, title, word
from seq2seq_suite.lab.parts import Checked, check_part
from seq2seq_suite.lab.remote import Workers
from seq2seq_suite.lab.starting import hints, named
from seq2seq_suite.lab.twins import warm

_POLL = 0.25  # seconds between two looks at the files


def check(directory: Path, part: str | None, launched: Launched | None = None, *, seed: int | None, hint: bool) -> int:
    """Check a folder or one of its parts; parts that are finished are not tried again.

    Returns:
        0 where all laws hold, else 1.
    """
    with Workers(launched) as workers:
        folder = Folder.read(directory)
        return _check(folder, part, workers, seed=seed, hint=hint)


def _check(folder: Folder, part: str | None, workers: Workers, *, seed: int | None, hint: bool) -> int:
    begun, language, assignment = time.perf_counter(), folder.language, named(folder.assignment)
    parts = [one for one in assignment.parts if part in (None, one.name, f"{one.name}.py")]
    if not parts:
        raise ConfigError(
            f"there is no part '{part}' of {assignment.name}",
            file=COMMAND_LINE,
            expected=", ".join(one.name for one in assignment.parts),
        )
    numbers = folder.seed if seed is None else seed
    found, most, good = 0.0, 0.0, True
    print(f"{assignment.name}   {word(language, 'seed', numbers, folder.student or '-')}", flush=True)
    for one in parts:
        facts = folder.known(one.name) if part is None and seed is None else {}
        if facts.get("done"):
            points, done = one.points, True
            lines = [
                title(
                    f"{one.name}.py   {word(language, 'done')} ({facts['laws']})",
                    word(language, "of", score(points), points),
                )
            ]
        else:
            checked, lines = check_one(folder, assignment, one, workers, numbers, hint=hint)
            points, done = checked.points, checked.done
        print("\n".join(lines), flush=True)
        found, good = found + points, good and done
        most += 0 if one.bonus else one.points
    print(title(word(language, "sum", score(found), most), f"{time.perf_counter() - begun:.1f} s", indent=0))
    if workers.holds or not facts.get("done"):
        print(word(language, "sandbox", ", ".join(workers.holds)) if workers.holds else word(language, "bare"))
    return 0 if good else 1


def check_one(
    folder: Folder, assignment: Assignment, part: Part, workers: Workers, seed: int, *, hint: bool
) -> tuple[Checked, list[str]]:
    """Check one part, keep what was found and leave scripts of what fails."""
    checked = check_part(assignment, part, folder.files, workers, seed)
    folder.keep(
        part.name,
        {
            "done": checked.done,
            "points": checked.points,
            "laws": len(checked.verdicts),
            "begun": checked.begun,
            "failing": [verdict.law.name for verdict in checked.verdicts if not verdict.holds],
        },
    )
    scripts = failing.write(folder.path, assignment, list(checked.verdicts), folder.language) if checked.begun else {}
    return checked, part_lines(
        checked, folder.language, scripts, hints=(lambda law: hints(assignment, law, folder.language)) if hint else None
    )


def watch(directory: Path, part: str | None, launched: Launched | None = None, *, seed: int | None, hint: bool) -> int:
    """Check whenever a file of the folder changes, until Ctrl-C or until `q` is entered.

    Returns:
        As `check` of the last time.
    """
    with Workers(launched) as workers:
        folder = Folder.read(directory)
        code = _check(folder, part, workers, seed=seed, hint=hint)
        keys = _Keys()
        _waiting(folder)
        warm(named(folder.assignment), folder.seed if seed is None else seed)
        seen = {one.name: digest(folder.files, one.name) for one in named(folder.assignment).parts}
        while True:
            key = keys.pressed(_POLL)
            if key == "q":
                return code
            folder = Folder.read(directory)
            now = {one.name: digest(folder.files, one.name) for one in named(folder.assignment).parts}
            changed = [name for name in now if now[name] != seen[name] and part in (None, name, f"{name}.py")]
            if key in ("", "h", "n") or changed:
                if sys.stdout.isatty():
                    print("\x1b[2J\x1b[H", end="")
                if key is None and len(changed) == 1:
                    code = _check(folder, changed[0], workers, seed=seed, hint=hint)
                else:
                    code = _check(folder, part, workers, seed=seed, hint=hint or key == "h")
                if key == "n":
                    from seq2seq_suite.lab.overview import print_next

                    print_next([directory])
                _waiting(folder)
            seen = now


def _waiting(folder: Folder) -> None:
    print(
        "\n存盘后会再次检查。Enter 全部再查，h 提示，n 下一步，q 退出"
        if folder.language == "zh"
        else "\nsave a file to check it again; Enter: all again, h: hint, n: what is next, q: leave",
        flush=True,
    )


class _Keys:
    """Lines that are entered while watching; a letter and Enter."""

    def __init__(self) -> None:
        import threading

        self._lines: list[str] = []
        if sys.stdin is not None and sys.stdin.isatty():
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._lines.append(line.strip().lower()[:1])

    def pressed(self, seconds: float) -> str | None:
        """The next line after so many seconds, or None."""
        time.sleep(seconds)
        return self._lines.pop(0) if self._lines else None
