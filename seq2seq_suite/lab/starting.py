"""What `lab start` writes: starters, the handout, and files for the experiment and its questions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, DataError
from seq2seq_suite.lab import given
from seq2seq_suite.lab.assignment import Assignment
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.folder import GIVEN, ID, REFUSED, imported

HERE = Path(__file__).parent


def named(name: str) -> Assignment:
    """An assignment by its name or number.

    Raises:
        ConfigError: there is none.
    """
    for one in ASSIGNMENTS:
        if name in (one.name, str(one.number), f"{one.number:02}"):
            return one
    raise ConfigError(
        f"there is no assignment '{name[:40]}'",
        file=COMMAND_LINE,
        expected=", ".join(one.name for one in ASSIGNMENTS),
        remedy="python -m seq2seq_suite lab list",
    )


def starter(text: str) -> str:
    """A reference without its solutions.

    >>> print(starter("def f(x):\\n    # BEGIN SOLUTION\\n    return x\\n    # END SOLUTION\\n"), end="")
    def f(x):
        raise NotImplementedError("f")
    """
    lines: list[str] = []
    inside, function = False, ""
    for line in text.splitlines():
        if found := re.match(r"\s*def (\w+)", line):
            function = found[1]
        if line.strip() == "# BEGIN SOLUTION":
            inside = True
            lines.append(f'{line[: line.index("#")]}raise NotImplementedError("{function}")')
        elif line.strip() == "# END SOLUTION":
            inside = False
        elif not inside:
            lines.append(line)
    return "\n".join(lines) + "\n"


def handout(assignment: Assignment, language: str) -> str:
    """The handout's Markdown, with what is not to be used and the questions; empty where none is written."""
    found = sorted((HERE / "handouts" / language).glob(f"*{assignment.name}.md"))
    text = found[0].read_text(encoding="utf-8") if found else ""
    file = HERE / "experiments" / f"{assignment.name}.yaml"
    questions = yaml.safe_load(file.read_text(encoding="utf-8")).get("questions", {}) if file.is_file() else {}
    asked = "".join(f"{number}. {asking(one, language)}\n" for number, one in enumerate(questions.values(), 1))
    text = re.sub(r"(?m)^(?=## (?:Laws|规则)$)", f"{_barred(assignment, language)}\n\n", text)
    return re.sub(r"(?m)^(## (?:Questions|问题)\n\n.*\n)", lambda found: f"{found[1]}\n{asked}", text)


def _barred(assignment: Assignment, language: str) -> str:
    """What a student's files may not call or name."""
    calls = dict.fromkeys(f"`{name.rpartition('.')[2]}`" for part in assignment.parts for name in part.forbidden)
    called, names = ", ".join(calls), ", ".join(f"`{name}`" for name in REFUSED)
    if language == "zh":
        return (f"{called} 在这里会报错：它们正是你要写的。" if calls else "") + f"文件里不允许出现 {names}。"
    return (f"{called} raise here: they do what you are to write. " if calls else "") + f"Files may not name {names}."


def hints(assignment: Assignment, law: str, language: str) -> list[str]:
    """What the handout says for one whose code breaks a law: the hints that name the law or its part."""
    found = re.findall(
        r'<details data-laws="([^"]*)"><summary>(.*?)</summary>\n\n(.*?)\n</details>',
        handout(assignment, language),
        re.DOTALL,
    )
    return [
        _plain(f"{title}: {text}") for laws, title, text in found if {law, law.partition(".")[0]} & set(laws.split())
    ]


def _plain(text: str) -> str:
    r"""Markdown as a terminal shows it.

    >>> _plain(r"`std` divides by $D - 1$: $\log \sum_v e^{z_v}$")
    'std divides by D - 1: log sum_v e^(z_v)'
    """
    text = re.sub(
        r"\$([^$]*)\$", lambda found: re.sub(r"\\(\w+)", r"\1", found[1]).translate(str.maketrans("{}", "()")), text
    )
    return text.replace("`", "")


def start(assignment: Assignment, folder: Path, *, student: str, language: str) -> list[str]:
    """Write an assignment's folder.

    Returns:
        The names of the files.

    Raises:
        DataError: the folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError("not empty", file=str(folder), expected="a new folder", remedy="name another one")
    if not ID.fullmatch(student):
        raise ConfigError(
            f"--student {student[:20]}", file=COMMAND_LINE, expected="at most 60 letters, digits and . @ + - _"
        )
    files = {
        "lab.yaml": f"assignment: {assignment.name}\nstudent: {yaml.safe_dump(student)[:-1].splitlines()[0]}\n"
        f"language: {language}\n"
    }
    files |= {f"{part.name}.py": starter(assignment.text(part.name)) for part in assignment.parts}
    files |= {f"{GIVEN}.py": given_file(assignment), "README.md": handout(assignment, language)}
    file = HERE / "experiments" / f"{assignment.name}.yaml"
    if file.is_file():
        text = file.read_text(encoding="utf-8")
        files["experiment.yaml"] = re.split(r"(?m)^questions:", text)[0]
        files["answers.yaml"] = answers(yaml.safe_load(text).get("questions", {}), language)
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: text for name, text in files.items() if text}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return list(files)


def answers(questions: Mapping[str, Mapping[str, Any]], language: str) -> str:
    """The file that a student fills in."""
    lines = ["# 在每个冒号后面填写答案。" if language == "zh" else "# Write each answer behind its colon."]
    for name, question in questions.items():
        lines += ["", f"# {asking(question, language)}", f"{name}:"]
    return "\n".join(lines) + "\n"


def asking(question: Mapping[str, Any], language: str) -> str:
    """A question in one line, with its choices and points."""
    choices, points = question.get("choices"), question.get("points", 0)
    worth = f"{points:g} " + ("分" if language == "zh" else "point" + "s" * (points != 1))
    ask = (question.get("ask_zh") if language == "zh" else None) or question["ask"]
    return f"{ask}" + (f" [{' | '.join(map(str, choices))}]" if choices else "") + f"  ({worth})"


def given_file(assignment: Assignment) -> str:
    """`lab_given.py`, with which a student runs his files on his own machine.

    His own functions where this assignment asks for them, the references of earlier ones elsewhere; empty where no
    part imports any. Checks do not read it.
    """
    own = {function: part.name for part in assignment.parts for function in part.functions}
    sources = given.sources()
    own |= {
        node.name: part.name
        for part in assignment.parts
        for node in ast.parse(assignment.text(part.name)).body
        if isinstance(node, ast.ClassDef)
    }
    texts: dict[Path, str] = {}
    mine: dict[str, set[str]] = {}
    open_ = [assignment.text(part.name) for part in assignment.parts]
    while open_:
        for module, names, _ in imported(open_.pop()):
            for name in names if module == GIVEN else ():
                if name in own:
                    mine.setdefault(own[name], set()).add(name)
                elif (path := sources[name]) not in texts:
                    texts[path] = path.read_text(encoding="utf-8")
                    open_.append(texts[path])
    if not texts and not mine:
        return ""
    head = '"""What the files here import: your own functions, and the references of earlier assignments."""\n'
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(mine.items())]
    bodies = [
        re.sub(r"(?m)^from lab_given import .*\n|^ *# (BEGIN|END) SOLUTION\n", "", text)
        for text in reversed(texts.values())
    ]
    return "\n\n".join([head + "\n".join(["", *lines, ""]) if lines else head, *bodies])
