"""Questions about a student's runs: expressions over their figures, and how their answers are graded."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seq2seq_suite.common.errors import DataError, UserError
from seq2seq_suite.common.files import read_json, read_rows
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.lab import given
from seq2seq_suite.lab.experiment import OWN_TASK, SPLIT, Question, read_experiment
from seq2seq_suite.lab.folder import printable, read_yaml
from seq2seq_suite.lab.grades import Graded
from seq2seq_suite.lab.verifying import Run, verify
from seq2seq_suite.metrics.significance import FORMULAS, LEVEL, compare
from seq2seq_suite.runs.records import read_predictions
from seq2seq_suite.tasks import find_task

ANSWERS = "answers.yaml"


@dataclass(frozen=True)
class Measured:
    """A run as expressions see it: `heads4.bleu` is a figure of it, `heads4.main` that of its task."""

    name: str
    directory: Path
    figures: Mapping[str, float]


# -- expressions ----------------------------------------------------------------------------------------------------


def _rows(run: Measured, file: str) -> list[dict[str, Any]]:
    return [row or {} for _, row in read_rows(run.directory / file)]


def apart(first: Measured, second: Measured) -> str:
    """`yes` where the figures of two runs differ beyond chance: the test that `compare` shows, p < 0.05."""
    counts, others = (
        np.array([row.counts for row in read_predictions(run.directory, SPLIT)], dtype=float) for run in (first, second)
    )
    formula = read_json(first.directory / "summary.json").get("formula") or "mean"
    return "yes" if compare(counts, others, FORMULAS[formula]).p_value < LEVEL else "no"


def same(first: Measured, second: Measured) -> float:
    """Percent of sentences of which two runs make the same."""
    texts = [[row["prediction"] for row in _rows(run, f"predictions/{SPLIT}.jsonl")] for run in (first, second)]
    count = min(map(len, texts))
    return 100.0 * sum(one == other for one, other in zip(*texts, strict=False)) / max(1, count)


def words(run: Measured) -> float:
    """Mean number of words of a run's outputs."""
    texts = [row["prediction"] for row in _rows(run, f"predictions/{SPLIT}.jsonl")]
    return sum(len(text.split()) for text in texts) / max(1, len(texts))


def loss(run: Measured, update: int) -> float:
    """The training loss of an update."""
    rows = [row for row in _rows(run, "metrics.jsonl") if row.get("split") == "train"]
    return sum(value for name, value in rows[update - 1].items() if name.startswith("loss_"))


def row_entropy(width: int, scaled: bool, keys: int = 32) -> float:
    """Mean entropy, in nats, of attention over unit normal keys of a unit normal query."""
    query, key = torch.randn(2, 2000, keys, width, generator=torch.Generator().manual_seed(1)).unbind()
    scores = (query[:, :1] @ key.transpose(1, 2)).squeeze(1) / (math.sqrt(width) if scaled else 1.0)
    logs = scores.log_softmax(-1)
    return float(-(logs.exp() * logs).sum(-1).mean())


def gradient_at(logits: Sequence[float], target: int, loss: str) -> float:
    """The largest slope of a loss, cross_entropy or squared_error, in the logits of one example."""
    leaf = torch.tensor([float(one) for one in logits], dtype=torch.float64, requires_grad=True)
    wanted = torch.zeros_like(leaf)
    wanted[target] = 1.0
    value = (leaf.softmax(0) - wanted).square().sum() if loss == "squared_error" else -leaf.log_softmax(0)[target]
    return float(torch.autograd.grad(value, leaf)[0].abs().max())


def interval_low(values: Sequence[float]) -> float:
    """The lower end of the 95 % interval of a mean over seeds."""
    return given.GIVEN.mean_interval(values)[0]


def interval_high(values: Sequence[float]) -> float:
    """The upper end."""
    return given.GIVEN.mean_interval(values)[1]


def parameters(run: Measured) -> float:
    """How many numbers a run trained."""
    return float(read_json(run.directory / "summary.json")["parameters"])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "apart": apart,
    "same": same,
    "words": words,
    "loss": loss,
    "row_entropy": row_entropy,
    "gradient_at": gradient_at,
    "interval_low": interval_low,
    "interval_high": interval_high,
    "parameters": parameters,
    "abs": abs,
    "min": min,
    "max": max,
    "round": round,
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate(expression: str, runs: Mapping[str, Measured]) -> Any:
    """The value of an expression over runs: numbers, texts, `run.figure`, + - * /, comparisons, `a if b else c`, and
    calls of `FUNCTIONS`.

    >>> evaluate("abs(a.bleu - 3) if a.bleu > 1 else 'no'", {"a": Measured("a", Path(), {"bleu": 2.0})})
    1.0

    Raises:
        ValueError: it holds something else, or a run or figure that is not there.
    """

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str() as found):
                return found
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [value(part) for part in parts]
            case ast.Name(id=name) if name in runs:
                return runs[name]
            case ast.Attribute(value=ast.Name(id=name), attr=figure) if name in runs and figure in runs[name].figures:
                return runs[name].figures[figure]
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](value(left), value(right))
            case ast.UnaryOp(op=sign, operand=inner) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](value(inner))
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](value(left), value(right))
            case ast.IfExp(test=test, body=body, orelse=other):
                return value(body) if value(test) else value(other)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(value, args), **{one.arg: value(one.value) for one in keywords if one.arg})
        raise ValueError(f"{expression}: {ast.unparse(node)} is not there, or not allowed")

    try:
        return value(ast.parse(expression, mode="eval").body)
    except SyntaxError:
        raise ValueError(f"{expression}: no expression") from None


def runs_of(expression: str, names: Sequence[str]) -> list[str]:
    """The runs that an expression speaks of.

    >>> runs_of("apart(one, two) if two.bleu > 1 else 'no'", ["one", "two", "three"])
    ['one', 'two']
    """
    used = {node.id for node in ast.walk(ast.parse(expression, mode="eval")) if isinstance(node, ast.Name)}
    return [name for name in names if name in used]


# -- answers --------------------------------------------------------------------------------------------------------


def read_answers(file: Path) -> dict[str, Any]:
    """What a student answered, by question, as it was written; empty answers are left out. Raises ConfigError or
    DataError.
    """
    found = read_yaml(file, expected="key: answer on each line") if file.is_file() else {}
    return {key: value for key, value in found.items() if value not in ("", "~", "null")}


def grade(directory: Path, seed: int, *, check: Callable[..., dict[str, Run]] = verify) -> list[Graded]:
    """Points for a student's runs and answers. None of his figures is believed: see `verifying.verify`.

    Args:
        directory: the student's.
        seed: of the teacher, which draws the sentences that the runs must do as well on.
        check: verifies the runs.

    Raises:
        DataError: it is no folder of an assignment.
    """
    experiment = read_experiment(directory, own=False)
    runs = check(experiment, seed)
    share = experiment.given.points / max(1, len(runs))
    found = [
        Graded(f"runs.{name}", share * run.share, run.got, run.expected, run.problem or run.says, share)
        for name, run in runs.items()
    ]
    measured = {}
    for name, run in runs.items():
        if run.record is not None:
            with trusting([OWN_TASK]):
                primary = find_task(experiment.plans[name].config.task).primary_metric
            main = run.record.figures.get(primary, math.nan)
            measured[name] = Measured(name, experiment.run_directory(name), {**run.record.figures, "main": main})
    try:
        answers, wrong = read_answers(directory / ANSWERS), ""
    except UserError as error:
        answers, wrong = {}, error.got
    return found + [
        _graded(name, question, answers.get(name), runs, measured, wrong)
        for name, question in experiment.given.questions.items()
    ]


def _graded(
    name: str, question: Question, answer: Any, runs: Mapping[str, Run], measured: Mapping[str, Measured], wrong: str
) -> Graded:
    made = partial(Graded, name, most=question.points)
    got = "" if answer is None else printable(answer)
    if not question.answer:
        return made(0.0, got, "", "manual: for the teacher to mark")
    refused = [f"{one}: {runs[one].problem}" for one in runs_of(question.answer, list(runs)) if runs[one].problem]
    if refused:
        return made(0.0, got, "", f"not counted, since a run is refused ({refused[0]})")
    try:
        expected = evaluate(question.answer, measured)
    except (ValueError, ArithmeticError, IndexError, KeyError, DataError) as error:
        return made(0.0, got, "", f"cannot be computed from the runs: {error}")
    right_answer = f"{expected:.4g}" if isinstance(expected, float) else str(expected)
    if answer is None:
        return made(0.0, "", right_answer, wrong or "not answered")
    right = _fits(answer, expected, question.within)
    return made(question.points if right else 0.0, got, right_answer, "right" if right else "wrong")


_WORDS = {"true": "yes", "on": "yes", "false": "no", "off": "no"}  # as YAML 1.1 reads them


def _fits(answer: Any, expected: Any, within: float) -> bool:
    if not isinstance(answer, str):
        return False
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        try:
            return abs(float(answer) - expected) <= within + 1e-9
        except ValueError:
            return False
    words_given = " ".join(answer.lower().split())
    return _WORDS.get(words_given, words_given) == " ".join(str(expected).lower().split())
