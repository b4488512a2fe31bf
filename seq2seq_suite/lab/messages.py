"""What a check says on the terminal, in the student's language."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len

from seq2seq_suite.lab.assignment import EDGE, VALUE, Broken, Fault, Law
from seq2seq_suite.lab.checking import Verdict
from seq2seq_suite.lab.folder import Refused
from seq2seq_suite.lab.parts import Checked

_WORDS = {
    "en": {
        "ok": "ok",
        "fail": "FAIL",
        "of": "{0} of {1:g}",
        "done": "all laws hold",
        "seed": "seed {0} of {1}",
        "begun": "not begun: write {0}",
        "edges": "edge laws (they count once the laws above hold)",
        "twin": "your code does what this one does: {0}",
        "twins": "your code does what one of these does:",
        "note": "read: note {0}",
        "again": "to see it alone: {0}",
        "said": "your code printed:",
        "refused": "not run",
        "sandbox": "your code runs in a process of its own: {0}",
        "bare": "your code runs in a process of its own, with a time limit and no other protection here",
        "sum": "{0} of {1:g} points of the laws. Grading tries the same laws with other numbers.",
        "bonus": "bonus",
        "hint": "hint: {0}",
    },
    "zh": {
        "ok": "通过",
        "fail": "未过",
        "of": "{0} / {1:g}",
        "done": "所有规则都成立",
        "seed": "{1} 的种子 {0}",
        "begun": "尚未开始：请写 {0}",
        "edges": "边界规则（上面的规则都成立后才计分）",
        "twin": "你的代码等同于：{0}",
        "twins": "你的代码等同于下面之一：",
        "note": "参考：笔记 {0}",
        "again": "单独重现：{0}",
        "said": "你的代码输出了：",
        "refused": "没有运行",
        "sandbox": "你的代码在单独的进程里运行：{0}",
        "bare": "你的代码在单独的进程里运行，这里只有时间限制",
        "sum": "规则部分 {0} / {1:g} 分。评分时用同样的规则和别的随机数。",
        "bonus": "加分",
        "hint": "提示：{0}",
    },
}
_COLOURS = {"ok": "32", "FAIL": "31", "通过": "32", "未过": "31"}


def word(language: str, key: str, *values: object) -> str:
    """A phrase."""
    return _WORDS[language][key].format(*values)


def score(points: float) -> str:
    """Points of laws as they are shown; grades are rounded to halves.

    >>> score(25 / 6), score(25.0)
    ('4.2', '25')
    """
    return f"{round(points, 1):g}"


def coloured(text: str, colour: str) -> str:
    """The text in a colour, where the terminal wants that."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR")
    return text if plain or not colour else f"\x1b[{colour}m{text}\x1b[0m"


def says(one: Law | Fault, language: str) -> str:
    """A law in one line, or what is wrong in a bug."""
    return one.says_zh if language == "zh" else one.says


def message(broken: Broken | Refused, language: str) -> str:
    """What is wrong."""
    return broken.message_zh if language == "zh" else broken.message


def title(text: str, points: str, *, indent: int = 2) -> str:
    """A line whose points stand on the right."""
    gap = max(2, _width() - indent - cell_len(text) - cell_len(points))
    return f"{' ' * indent}{text}{' ' * gap}{points}"


def part_lines(
    checked: Checked, language: str, scripts: Mapping[str, Path], *, hints: Callable[[str], Sequence[str]] | None = None
) -> list[str]:
    """A part's lines: its points, the laws that hold in one line, those that fail with what is wrong.

    Args:
        hints: what the handout says of a law, where the student asks for it.
    """
    part = checked.part
    bonus = f" ({word(language, 'bonus')})" if part.bonus else ""
    points = word(language, "of", score(checked.points), part.points) + bonus
    head = title(f"{part.name}.py", points)
    if checked.refused:
        lines = [head]
        for one in checked.refused:
            place = f"{one.file}:{one.line}" if one.line else one.file
            lines += _law_line(word(language, "fail"), word(language, "refused"), f"{place} {message(one, language)}")
        return lines + _said(checked, language)
    if not checked.begun:
        lines = [title(f"{part.name}.py   {word(language, 'begun', ', '.join(part.functions))}", points)]
        for hint in (
            dict.fromkeys(hint for verdict in checked.verdicts for hint in hints(verdict.law.name)) if hints else ()
        ):
            lines += _wrapped(word(language, "hint", hint), 10)
        return lines
    if checked.done:
        return [
            title(f"{part.name}.py   {word(language, 'done')} ({len(checked.verdicts)})", points),
            *_said(checked, language),
        ]
    values = [verdict for verdict in checked.verdicts if verdict.law.kind == VALUE]
    edges = [verdict for verdict in checked.verdicts if verdict.law.kind == EDGE]
    lines = [head, *_verdicts(values, language)]
    if edges and not all(verdict.holds for verdict in values):
        lines += [f"    {word(language, 'edges')}"]
    lines += _verdicts(edges, language)
    failing = [verdict for verdict in checked.verdicts if not verdict.holds]
    said = [says(fault, language) for fault in checked.faults]
    if len(said) == 1:
        lines += _wrapped(word(language, "twin", said[0]), 10, colour="33")
    elif said:
        lines += _wrapped(word(language, "twins"), 10, colour="33")
        lines += [line for one in said[:3] for line in _wrapped(f"- {one}", 12, colour="33")]
    first = failing[0].law
    for said_of_it in (hints(first.name) or [says(first, language)]) if hints else ():
        lines += _wrapped(word(language, "hint", said_of_it), 10)
    if first.note:
        lines += _wrapped(word(language, "note", first.note), 10)
    if first.name in scripts:
        lines += _wrapped(word(language, "again", f"python {relative_path(scripts[first.name])}"), 10)
    return lines + _said(checked, language)


def _verdicts(verdicts: Sequence[Verdict], language: str) -> list[str]:
    """Those that hold in one line, those that fail for one reason together."""
    lines = []
    held = [verdict.law.name for verdict in verdicts if verdict.holds]
    if held:
        lines += _law_line(word(language, "ok"), ", ".join(held), "")
    reasons: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.broken is not None:
            reasons.setdefault(message(verdict.broken, language), []).append(verdict.law.name)
    for reason, names in reasons.items():
        lines += _law_line(word(language, "fail"), ", ".join(names), reason)
    return lines


def _law_line(state: str, name: str, text: str) -> list[str]:
    lead = f"    {state}{' ' * (6 - cell_len(state))}"
    body = name if not text else f"{name}{' ' * max(2, 20 - cell_len(name))}{text}"
    first, *rest = _wrapped(body, 10, hang=2)
    return [coloured(lead, _COLOURS[state]) + first[10:], *rest]


def _wrapped(text: str, indent: int, *, hang: int = 0, colour: str = "") -> list[str]:
    """Lines no wider than the terminal; a Chinese character is two columns wide."""
    width, lines = _width() - indent, []
    for whole in text.split("\n"):
        if cell_len(whole) == len(whole):
            lines += textwrap.wrap(whole, width, subsequent_indent=" " * hang, break_on_hyphens=False) or [""]
            continue
        line = ""
        for sign in re.findall(r"\[[^\]]{0,40}\]|[!-Z^-~]+|.", whole):
            if cell_len(line) + cell_len(sign) > width:
                lines.append(line)
                line = " " * hang
            line += sign
        lines.append(line)
    return [" " * indent + coloured(line, colour) for line in lines]


def _said(checked: Checked, language: str) -> list[str]:
    text = checked.said.strip()
    if not text or "Fatal Python error" in text:
        return []
    return [f"          {word(language, 'said')}", *(f"          | {line}" for line in text[:2000].splitlines())]


def _width() -> int:
    return min(110, max(60, shutil.get_terminal_size((100, 24)).columns))


def relative_path(path: Path) -> str:
    """The path from here where it lies below."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
