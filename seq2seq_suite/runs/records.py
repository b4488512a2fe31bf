"""Reads the files of a run, and checks them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import read_json, read_rows

SUMMARY, PROVENANCE = "summary.json", "provenance.json"

Shape = TypeVar("Shape")
Scalar = str | int | float | bool | None
Fact = Scalar | list[Scalar] | dict[str, Scalar]
Figure = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]  # null is NaN


class _Record(BaseModel):
    """Other keys are kept."""

    model_config = ConfigDict(extra="allow")


class Failures(_Record):
    """Percent of outputs that failed in each way."""

    invalid: float
    empty: float
    repeated: float
    truncated: float


class Summary(_Record):
    """`summary.json`."""

    task: str
    primary_metric: str
    higher_is_better: bool
    splits: dict[str, dict[str, Figure]]
    failures: dict[str, Failures]
    formula: Literal["", "mean", "ratio", "f1", "bleu", "bleu_effective"]
    signature: str
    updates: int
    tokens: int
    seconds: float
    tokens_per_second: float
    parameters: int
    core_parameters: int
    baseline: dict[str, Figure] = {}  # split -> the best figure without learning
    ceiling: dict[str, Figure] = {}  # split -> the figure that no model should beat
    decoding: dict[str, dict[str, Any]] = {}  # split -> what its search took: see `prediction.speed`
    likelihood: dict[str, dict[str, Any]] = {}  # split -> how likely its targets are: see `prediction.likelihood`
    settings: dict[str, dict[str, Any]] = {}  # of `splits` that `evaluate` decoded with others than the run's

    def primary(self, split: str) -> float | None:
        """The primary metric on a split; None where the run was not evaluated on it."""
        return self.splits.get(split, {}).get(self.primary_metric)


class Provenance(_Record):
    """`provenance.json`; `earlier` has those of earlier starts."""

    __pydantic_extra__: dict[str, Fact] = Field(init=False)
    seed: int
    commit: str
    data: dict[str, str]
    earlier: list[dict[str, Fact]] = []


class Prediction(_Record):
    """A row of `predictions/SPLIT.jsonl`."""

    source: str
    reference: str
    counts: list[float | None]


def read_record(path: Path, shape: type[Shape], *, expected: str, remedy: str) -> Shape:
    """A JSON file of a run.

    Args:
        path: the file.
        shape: what it holds: one of the above, or another class that pydantic fills.
        expected, remedy: for the message.

    Raises:
        DataError: it is missing, damaged or has unexpected contents.
    """
    return shaped(read_json(path, expected=expected, remedy=remedy), shape, path, expected=expected, remedy=remedy)


def shaped(value: Any, shape: type[Shape], path: Path, *, expected: str, remedy: str) -> Shape:
    """Plain data as a shape; raises DataError, which names the file, where they do not fit."""
    try:
        return TypeAdapter(shape).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        keys = ".".join(map(str, first["loc"]))
        problem = "is missing" if first["type"] == "missing" else "has another type"
        raise DataError(
            f"'{keys}' {problem}" if keys else "unexpected contents", file=str(path), expected=expected, remedy=remedy
        ) from None


def read_provenance(directory: Path) -> Provenance:
    """Where a run came from."""
    return read_record(
        directory / PROVENANCE,
        Provenance,
        expected="the facts that `run` writes at its start",
        remedy="restore the file, or delete it to continue the run without it",
    )


def read_summary(directory: Path) -> Summary:
    """How a finished run ended."""
    return read_record(
        directory / SUMMARY,
        Summary,
        expected="the summary that `run` writes at its end",
        remedy="finish the run, with `run ... --resume` if it was stopped, or name another directory",
    )


def read_predictions(directory: Path, split: str) -> list[Prediction]:
    """A run's predictions for a split."""
    path = directory / "predictions" / f"{split}.jsonl"
    expected, remedy = "rows with source, reference and counts", f"evaluate {directory} --split {split}"
    rows = [row for _, row in read_rows(path, expected=expected, remedy=remedy)]
    found = shaped(rows, list[Prediction], path, expected=expected, remedy=remedy)
    if len({len(row.counts) for row in found}) > 1:
        raise DataError("the rows' numbers of counts differ", file=str(path), expected=expected, remedy=remedy)
    return found
