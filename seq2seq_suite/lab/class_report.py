"""A class on one page: points, which faults how often, and submissions that share runs or code."""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from html import escape
from statistics import mean, median
from typing import TYPE_CHECKING

from seq2seq_suite.lab.parts import Checked

if TYPE_CHECKING:
    from seq2seq_suite.lab.grading import Grade

LONG = 90  # nodes of a function's syntax tree; shorter ones are equal by chance


def frequencies(grades: Sequence[Grade]) -> list[tuple[str, int]]:
    """Fault -> submissions with it, most frequent first; `unknown` are parts with mistakes that no bug explains."""
    count = Counter(fault.id for one in grades for fault in one.faults)
    unknown = sum(unexplained(part) for one in grades for part in one.parts)
    return count.most_common() + ([("unknown", unknown)] if unknown else [])


def unexplained(part: Checked) -> bool:
    """Whether a part that was written fails for no reason that is known."""
    return bool(part.verdicts) and part.begun and not part.done and not part.faults


def pairs(grades: Sequence[Grade]) -> list[str]:
    """What different students have in common, for the teacher to look at; it has no influence on points."""
    runs: dict[str, set[str]] = defaultdict(set)
    code: dict[str, set[str]] = defaultdict(set)
    where: dict[str, str] = {}
    for one in grades:
        if one.folder is None or one.assignment is None:
            continue
        for file in sorted(one.folder.path.glob("runs/*/lab.json")):
            try:
                losses = json.loads(file.read_text(encoding="utf-8"))["losses"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if losses:
                runs[json.dumps(losses)].add(one.student)
        known = {shape for part in one.assignment.parts for shape, _ in functions(one.assignment.text(part.name))}
        for part in one.assignment.parts:
            for shape, name in functions(one.folder.files.get(f"{part.name}.py", "")):
                if shape not in known:
                    code[shape].add(one.student)
                    where[shape] = name
    found = [f"{', '.join(sorted(who))} share a run" for who in runs.values() if len(who) > 1]
    together: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for shape, who in code.items():
        if len(who) > 1:
            together[tuple(sorted(who))].add(where[shape])
    found += [f"{', '.join(who)} have the same syntax tree of {', '.join(sorted(names))}"
              for who, names in together.items()]
    return sorted(set(found))


def functions(text: str) -> list[tuple[str, str]]:
    """The long functions of a text, as trees without names, numbers and texts, and what they are called."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
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
    names = sorted({one.assignment.name for one in graded})
    parts = list(dict.fromkeys(part.part.name for one in graded for part in one.parts))
    lines = ["<!doctype html><html lang='en'><meta charset='utf-8'>",
             f"<title>{escape(', '.join(names))}</title><style>{_STYLE}</style>",
             f"<h1>{escape(', '.join(names)) or 'no submission'}</h1>"]
    if points:
        lines.append(f"<p>{len(grades)} submissions, mean {mean(points):.1f}, median {median(points):g}, "
                     f"from {min(points):g} to {max(points):g} points; seed {seed}</p>")
    frequent = frequencies(grades)
    if frequent:
        says = {fault.id: fault.says for one in graded for fault in one.faults}
        most = max(count for _, count in frequent)
        lines += ["<h2>Faults</h2><table><tr><th>fault<th>students<th><th>what it is</tr>"]
        lines += [f"<tr><td>{escape(name)}<td class='n'>{count}<td><span class='bar' style='width:"
                  f"{8 * count / most:.1f}em'></span><td>{escape(says.get(name, 'no planted bug does the same'))}</tr>"
                  for name, count in frequent]
        lines.append("</table>")
    laws = Counter(verdict.law.name for one in graded for part in one.parts for verdict in part.verdicts
                   if not verdict.holds and part.begun)
    if laws:
        lines += ["<h2>Laws that failed most</h2><table>"]
        lines += [f"<tr><td>{escape(name)}<td class='n'>{count}</tr>" for name, count in laws.most_common(10)]
        lines.append("</table>")
    if together:
        lines += ["<h2>To look at</h2><ul class='warn'>", *(f"<li>{escape(one)}</li>" for one in together), "</ul>"]
    lines += ["<h2>Students</h2><table><tr><th>student<th>points", *(f"<th>{escape(name)}" for name in parts),
              "<th>runs and answers<th>remark</tr>"]
    for one in sorted(grades, key=lambda grade: grade.student):
        found = {part.part.name: part for part in one.parts}
        cells = [f"{found[name].points:.3g}" if name in found else "-" for name in parts]
        asked = sum(each.points for each in one.questions)
        remark = one.problem or ", ".join(fault.id for fault in one.faults)
        lines.append(f"<tr><td>{escape(one.student)}<td class='n'>{one.points:g}"
                     + "".join(f"<td class='n'>{cell}" for cell in cells)
                     + f"<td class='n'>{asked:.3g}<td>{escape(remark)}</tr>")
    return "\n".join([*lines, "</table></html>", ""])
