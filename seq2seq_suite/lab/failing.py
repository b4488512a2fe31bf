"""A failing case as a script of literals that shows it without the lab."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.lab import probes
from seq2seq_suite.lab.assignment import Assignment, number
from seq2seq_suite.lab.checking import Verdict
from seq2seq_suite.lab.probes import Probe

MOST_NUMBERS = 20_000  # of all arguments; a longer script is no help


def file_name(law: str) -> str:
    """The script's name: `attend_masked.py` for the law attend.masked."""
    return f"{law.replace('.', '_')}.py"


def script(assignment: Assignment, verdict: Verdict, language: str = "en") -> str:
    """The last call that a law made, with its arguments written out; empty where that cannot be done."""
    asked = verdict.asked
    if asked is None or verdict.broken is None or sum(map(_size, _leaves(asked.arguments))) > MOST_NUMBERS:
        return ""
    law, part = verdict.law, verdict.law.part
    function = next(
        (
            node
            for node in ast.walk(ast.parse(assignment.text(part)))
            if isinstance(node, ast.FunctionDef) and node.name == asked.name
        ),
        None,
    )
    if function is None:
        return ""
    writer = _Writer()
    try:
        arguments = [writer.literal(one) for one in asked.arguments]
        cotangent = writer.literal(asked.cotangent)
    except ValueError:
        return ""
    names = [argument.arg for argument in function.args.args][: len(arguments)]
    names += [f"more_{n}" for n in range(len(arguments) - len(names))]
    said = verdict.broken.message_zh if language == "zh" else verdict.broken.message
    lines = [
        f'"""{law.name}: {law.says_zh if language == "zh" else law.says}."""'.replace("\\", "/"),
        "",
        "import random",
        "import sys",
        "from collections import namedtuple",
        "from pathlib import Path",
        "",
        "import torch",
        "from torch.nn import functional as F",
        "",
        "sys.path.insert(0, str(Path(__file__).parents[1]))",
        f"from {part} import {asked.name}",
        "",
        *writer.head,
        *(f"{name} = {value}" for name, value in zip(names, arguments, strict=True)),
        "",
        "torch.manual_seed(0)",
        "random.seed(0)",
    ]
    lines += [f"{names[place]}.requires_grad_()" for place in asked.gradient]
    lines += [f"output = {asked.name}({', '.join(names)})"]
    if asked.gradient:
        lines += [
            "first = output[0] if isinstance(output, tuple | list) else output",
            f"gradients = torch.autograd.grad((first * {cotangent or 1}).sum(), "
            f"({', '.join(names[place] for place in asked.gradient)},), allow_unused=True)",
            "print('gradients', gradients)",
        ]
    where, expected = verdict.broken.where, verdict.broken.expected
    if where is not None and _found(verdict, where) and not asked.gradient:
        lines += [
            f"print('at {list(where)} got', output{list(where) if where else ''}.item())",
            f"print('expected', {number(expected)!r})",
        ]
    else:
        lines += ["print('got', output)"]
    lines += [f"print({said!r})", ""]
    return "\n".join(lines)


def write(folder: Path, assignment: Assignment, verdicts: list[Verdict], language: str = "en") -> dict[str, Path]:
    """Write a script for each law that fails, and delete those of laws that hold.

    Returns:
        Law -> script.
    """
    scripts = folder / "failing"
    found = {}
    for verdict in verdicts:
        file = scripts / file_name(verdict.law.name)
        text = "" if verdict.holds else script(assignment, verdict, language)
        if text:
            scripts.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            found[verdict.law.name] = file
        else:
            file.unlink(missing_ok=True)
    if scripts.is_dir() and not any(scripts.glob("*.py")):
        for other in scripts.glob("__pycache__/*"):
            other.unlink()
        for empty in (scripts / "__pycache__", scripts):
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()
    return found


def _found(verdict: Verdict, where: tuple[int, ...]) -> bool:
    """Whether the number that the law complains of stands there in the output itself."""
    output = verdict.answers[-1][0] if verdict.answers and isinstance(verdict.answers[-1], tuple) else None
    got = verdict.broken.got if verdict.broken else None
    try:
        return (
            isinstance(output, Tensor)
            and isinstance(got, int | float)
            and (output[where].item() == got or (got != got and bool(output[where].isnan())))
        )
    except (IndexError, RuntimeError, ValueError):
        return False


class _Writer:
    """Values as Python; what they need first is in `head`."""

    def __init__(self) -> None:
        self.head: list[str] = []

    def literal(self, value: Any) -> str:
        """Raises ValueError for what has no literal."""
        if isinstance(value, Tensor):
            kind = (
                ""
                if value.dtype in (torch.float32, torch.int64, torch.bool) and value.numel()
                else (f", dtype={value.dtype}")
            )
            text = repr(value.tolist()).replace("inf", "float('inf')").replace("nan", "float('nan')")
            shape = f".reshape({list(value.shape)})" if not value.numel() else ""
            return f"torch.tensor({text}{kind}){shape}"
        if isinstance(value, Probe):
            source = inspect.getsource(probes.KINDS[value.kind])
            if source not in self.head:
                self.head += [source, ""]
            return f"{probes.KINDS[value.kind].__name__}({', '.join(map(self.literal, value.parts))})"
        if isinstance(value, tuple) and (names := getattr(value, "_fields", None)) is not None:
            made = f"namedtuple({type(value).__name__!r}, {list(names)})"
            return f"{made}({', '.join(map(self.literal, value))})"
        if type(value) in (list, tuple, set):
            inner = ", ".join(map(self.literal, value))
            return {
                list: f"[{inner}]",
                tuple: f"({inner}{',' if len(value) == 1 else ''})",
                set: f"{{{inner}}}" if value else "set()",
            }[type(value)]
        if type(value) is dict:
            pairs = ", ".join(f"{self.literal(key)}: {self.literal(one)}" for key, one in value.items())
            return f"{{{pairs}}}"
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            return f"float('{value}')"
        if value is None or isinstance(value, bool | int | float | str | torch.dtype):
            return repr(value)
        raise ValueError(value)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Probe):
        yield from _leaves(value.parts)
    elif isinstance(value, list | tuple | set):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _size(value: Any) -> int:
    return value.numel() if isinstance(value, Tensor) else 1
