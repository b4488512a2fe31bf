"""A class of which one hands in something odd: the others get their points, and the teacher reads of the odd one."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from pathlib import Path
from random import Random

from benchmarks.faults.campaign import Case, Kind
from benchmarks.faults.commands import faults
from seq2seq_suite.lab import remote, starting
from seq2seq_suite.lab.assignments import ATTENTION

_PART, _POINTS = "masks", 10  # what the others have solved, and what it is worth
_DEEP = {
    "minus": "x = " + "-" * 60_000 + "1\n",
    "brackets": "(" * 20_000 + ")" * 20_000,
    "lists": "[" * 90_000,
    "ifs": "".join(" " * depth + "if 1:\n" for depth in range(99)) + " " * 99 + "pass\n",
    "sum": "x = " + "1 + " * 50_000 + "1\n",
    "calls": "f(" * 5000 + ")" * 5000,
}
_CODE = {
    "exit": "import os\nos._exit(0)\n",
    "SystemExit": "raise SystemExit('done')\n",
    "loop": "while True: pass\n",
    "fork": "import os, time\nif os.fork() == 0:\n    time.sleep(60)\n",
    "memory": "x = bytearray(1 << 40)\n",
    "recursion": "def f(): f()\nf()\n",
    "signals": "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)\n",
    "noise": "print('x' * 10_000_000)\n",
    "closed": "import os\nos.close(1)\nos.close(2)\n",
    "escape": "print('\\x1b[2J\\x1b[1A')\n",
    "no syntax": "def f(:\n",
    "NUL": "x = 1\0\n",
    "KeyboardInterrupt": "raise KeyboardInterrupt\n",
}
_YAML = {
    "aliases": "\n".join(
        [f"a0: &a0 [{', '.join(['x'] * 9)}]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))]
    ),
    "deep": "[" * 9000,
    "list": "- 1\n- 2\n",
    "number": "3",
    "tag": "a: !!python/object/apply:os.system ['true']\n",
    "long": "a: " + "x" * 9_000_000,
    "nested": "figure: {a: {b: [1, 2]}}\n",
    "date": "figure: 2024-01-01\n",
    "NaN": "figure: .nan\n",
    "NUL": "a: \0\n",
}


def _names(text: str, random: Random) -> bytes:
    """A part in an encoding that its author's editor may have."""
    return ("# café\n" + text).encode(random.choice(("latin-1", "utf-16", "utf-8-sig", "utf-32")))


def _zip(entries: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _odd(case: Case, folder: Path) -> str:
    """Spoil a submission; a word on how."""
    random, part = case.random, folder / f"{_PART}.py"
    way = random.choice(
        (
            "deep",
            "code",
            "code",
            "yaml",
            "yaml",
            "encoding",
            "name",
            "notebook",
            "link",
            "id",
            "random",
            "folder",
            "zip",
            "lab.yaml",
        )
    )
    match way:
        case "deep" | "code":
            name = random.choice(list(_DEEP if way == "deep" else _CODE))
            part.write_text((_DEEP | _CODE)[name], encoding="utf-8")
            return f"{way} {name}"
        case "yaml" | "lab.yaml":
            name = random.choice(list(_YAML))
            (folder / ("answers.yaml" if way == "yaml" else way)).write_text(_YAML[name], encoding="utf-8")
            return f"{way} {name}"
        case "encoding":
            part.write_bytes(_names(ATTENTION.text(_PART), random))
        case "name":
            part.rename(folder / random.choice(("Masks.py", "masks (1).py", "masks.py.txt", "mask.py", "masks.PY")))
        case "notebook":
            part.rename(folder / "masks.ipynb").write_text(json.dumps({"cells": []}))
        case "link":
            part.unlink()
            part.symlink_to(random.choice((f"../b1/{_PART}.py", "/etc/passwd", f"{_PART}.py", "/dev/zero")))
        case "id":
            name = random.choice(("b1", "b2\\nb9,100", "\\e[1A\\e[2K", "=1+1", "x" * 5000, "", "../b1", "<b>x</b>"))
            text = (folder / "lab.yaml").read_text(encoding="utf-8")
            (folder / "lab.yaml").write_text(text.replace("student: b2", f'student: "{name}"'), encoding="utf-8")
        case "random":
            part.write_bytes(random.randbytes(3000))
        case "folder":
            part.unlink()
            part.mkdir()
        case "zip":
            for path in sorted(folder.iterdir()):
                path.unlink()
            folder.rmdir()
            inner = _zip({"x.zip": _zip({}), "big": bytes(random.choice((9, 70_000_000)))})
            folder.with_suffix(".zip").write_bytes(
                random.choice((inner, b"PK\x03\x04", _zip({"../x": b""}), inner[:-9]))
            )
    return way


def try_class(case: Case) -> None:
    """Grade three submissions, the middle one odd."""
    place = case.folder / "class"
    place.mkdir()
    for student in ("b1", "b2", "b3"):
        starting.start(ATTENTION, place / student, student=student, language="en")
        (place / student / "answers.yaml").unlink()
        (place / student / f"{_PART}.py").write_text(ATTENTION.text(_PART), encoding="utf-8")
    what = _odd(case, place / "b2")
    case.counts[what.partition(" ")[0]] += 1
    end = case.start("lab", "grade", "class", "--csv", "grades.csv", "--seed", "7", limit=240.0).wait()
    case.called.append(end)
    case.complaints += [
        f"{what}: {fault}: {end.command}" for fault in faults(end, (0, 1)) if not fault.endswith("without a word")
    ]  # who needs the teacher stands in the table
    if not (case.folder / "grades.csv").exists():
        case.expect(False, f"{what}: no grades were written: {end.err.strip()[-200:]!r}")
        return
    with (case.folder / "grades.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["submission"]: row for row in csv.DictReader(file)}
    case.expect(len(rows) == 3, f"{what}: {len(rows)} lines for 3 submissions")
    for student in ("b1", "b3"):
        points = rows.get(student, {}).get("points", "")
        case.expect(points and float(points) == _POINTS, f"{what}: {student} has {points or 'no'} points")
    case.expect("\x1b" not in end.out, f"{what}: an escape sequence reaches the terminal")


def why_not() -> str:
    """Why no class can be graded here."""
    return "" if remote.FORKS and hasattr(os, "fork") else "needs fork"


KINDS = (Kind("classes", "a class of three, one with something odd", try_class, 60, share=2.0, why_not=why_not),)
