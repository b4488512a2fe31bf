"""A class on one page: points, which faults how often, and submissions that share runs or code."""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from statistics import mean, median
from typing import TYPE_CHECKING

from seq2seq_suite.lab.assignment import Assignment
from seq2seq_suite.lab.folder import Folder, parsed
from seq2seq_suite.lab.parts import Checked
from seq2seq_suite.lab.starting import starter

if TYPE_CHECKING:
    from seq2seq_suite.lab.grades import Grade

RUN = "runs/"
LONG = 90  # nodes of a function's syntax tree; shorter ones are equal by chance
WORDS = 12  # that a file has more than the starter, for the same reason


def frequencies(grades: Sequence[Grade]) -> list[tuple[str, int]]:
    """Fault -> submissions with it, most frequent first; `unknown` are parts with mistakes that no bug explains."""
    count = Counter(fault.id for one in grades for fault in one.faults)
    unknown = sum(unexplained(part) for one in grades for part in one.parts)
    return count.most_common() + ([("unknown", unknown)] if unknown else [])


def unexplained(part: Checked) -> bool:
    """Whether a part that was written fails for no reason that is known."""
    return bool(part.verdicts) and part.begun and not part.done and not part.faults


def marks(folder: Folder, assignment: Assignment) -> dict[str, str]:
    """By what a submission is known again, whoever's name it carries: hash -> what it is of."""
    found = {}
    for file in sorted(folder.path.glob("runs/*/lab.json")):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            if losses := json.loads(file.read_text(encoding="utf-8"))["losses"]:
                found[_hash(json.dumps(losses))] = RUN
    known = {shape for part in assignment.parts for shape, _ in functions(assignment.text(part.name))}
    for part in assignment.parts:
        text = folder.files.get(f"{part.name}.py", "")
        found |= {_hash(shape): name for shape, name in functions(text) if shape not in known}
        words = text.split()
        if len(words) - len(starter(assignment.text(part.name)).split()) >= WORDS:
            found[_hash(" ".join(words))] = f"{part.name}.py"
    return found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def pairs(grades: Sequence[Grade]) -> list[str]:
    """What different submissions have in common, for the teacher to look at; it has no influence on points."""
    who: dict[str, list[str]] = defaultdict(list)
    what: dict[str, str] = {}
    carried: dict[str, list[str]] = defaultdict(list)
    for one in grades:
        if one.id:
            carried[one.id].append(one.name)
        for mark, name in one.marks.items():
            who[mark].append(one.name)
            what[mark] = name
    found = [
        f"{', '.join(sorted(names))} carry one id, {student}" for student, names in carried.items() if len(names) > 1
    ]
    together: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for mark, names in who.items():
        if len(names) > 1:
            together[tuple(sorted(names))].add(what[mark])
    for names, things in together.items():
        files = {name for name in things if name.endswith(".py")}
        lead = ", ".join(names[:9]) + (f" and {len(names) - 9} more" if len(names) > 9 else "")
        found += [f"{lead} share a run"] if RUN in things else []
        found += [f"{lead} hand in the same {', '.join(sorted(files))}"] if files else []
        trees = things - files - {RUN}
        found += [f"{lead} have the same syntax tree of {', '.join(sorted(trees))}"] if trees and not files else []
    return sorted(found)


def functions(text: str) -> list[tuple[str, str]]:
    """The long functions of a text, as trees without names, numbers and texts, and what they are called."""
    try:
        tree = parsed(text)
    except SyntaxError:
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            kinds = [type(inner).__name__ for line in body for inner in ast.walk(line)]
            if len(kinds) >= LONG:
                found.append((" ".join(kinds), node.name))
    return found


_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}.bar{background:#4a7;height:.7em;display:inline-block}
.warn{color:#a40}"""


def page(grades: Sequence[Grade], together: Sequence[str], seed: int) -> str:
    """The page; it loads nothing and runs no script."""
    graded = [one for one in grades if one.assignment is not None]
    points = [one.points for one in graded]
    names = sorted({one.assignment.name for one in grades if one.assignment is not None})
    parts = list(dict.fromkeys(part.part.name for one in graded for part in one.parts))
    lines = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{escape(', '.join(names))}</title><style>{_STYLE}</style>",
        f"<h1>{escape(', '.join(names)) or 'no submission'}</h1>",
    ]
    if points:
        lines.append(
            f"<p>{len(grades)} submissions, mean {mean(points):.1f}, median {median(points):g}, "
            f"from {min(points):g} to {max(points):g} points; seed {seed}</p>"
        )
    frequent = frequencies(grades)
    if frequent:
        says = {fault.id: fault.says for one in graded for fault in one.faults}
        most = max(count for _, count in frequent)
        lines += [
            "<h2>Faults</h2><table><tr><th>fault<th>students<th><th>what it is</tr>",
            *(
                f"<tr><td>{escape(name)}<td class='n'>{count}<td><span class='bar' "
                f"style='width:{8 * count / most:.1f}em'></span>"
                f"<td>{escape(says.get(name, 'no planted bug does the same'))}</tr>"
                for name, count in frequent
            ),
            "</table>",
        ]
    laws = Counter(
        verdict.law.name
        for one in graded
        for part in one.parts
        for verdict in part.verdicts
        if not verdict.holds and part.begun
    )
    if laws:
        lines += [
            "<h2>Laws that failed most</h2><table>",
            *(f"<tr><td>{escape(name)}<td class='n'>{count}</tr>" for name, count in laws.most_common(10)),
            "</table>",
        ]
    if together:
        lines += ["<h2>To look at</h2><ul class='warn'>", *(f"<li>{escape(one)}</li>" for one in together), "</ul>"]
    lines += [
        "<h2>Students</h2><table><tr><th>student<th>points",
        *(f"<th>{escape(name)}" for name in parts),
        "<th>runs and answers<th>remark</tr>",
    ]
    for one in sorted(grades, key=lambda grade: grade.student):
        found = {part.part.name: part for part in one.parts}
        cells = [f"{found[name].points:.3g}" if name in found else "-" for name in parts]
        asked = sum(each.points for each in one.questions)
        remark = one.problem or ", ".join(fault.id for fault in one.faults)
        lines.append(
            f"<tr><td>{escape(one.student)}<td class='n'>{one.points:g}"
            + "".join(f"<td class='n'>{cell}" for cell in cells)
            + f"<td class='n'>{asked:.3g}<td>{escape(remark)}</tr>"
        )
    return "\n".join([*lines, "</table></html>", ""])
