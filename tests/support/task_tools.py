"""A task with given options, rows for it to read, and what the tests know of each task of the table."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from seq2seq_suite import miniworld
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import Batch
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.formats import Row
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks import TASKS, find_task


def make_task(name: str, **keys: Any) -> Any:
    """A task by its name; `multilabel__min_count=1` sets the key `multilabel.min_count`, `seed=2` the key `seed`."""
    values: dict[str, Any] = {"task": name}
    for key, value in keys.items():
        section, _, option = key.partition("__")
        if option:
            values.setdefault(section, {})[option] = value
        else:
            values[section] = value
    return open_task(name, Config.model_validate(values))


def others(*known: str) -> list[str]:
    """The tasks of the table whose input is text and that a test's own cases do not name: new ones."""
    return [name for name in TASKS if name not in known and find_task(name).view in miniworld.TEXTS]


def columns_of(name: str) -> dict[str, str]:
    """Column -> the key that names it, of a task's rows."""
    keys = find_task(name).sections[name].model_fields.items()
    return {field.default: key for key, field in keys if key.endswith("_column") and field.default}


def examples_of(name: str, split: str = "train", *, size: int = 1) -> list[Example]:
    """The examples of the first embedded rows, of a task whose input is text."""
    task = make_task(name)
    return [
        example
        for row in islice(miniworld.rows(task.view, split, size=size), size)
        for example in task.examples(Row(row, "", 1))
    ]


def installed(name: str) -> None:
    """Skip the test where a package is missing that the task needs."""
    if missing := [package for package in find_task(name).packages if find_spec(package) is None]:
        pytest.skip(f"{', '.join(missing)} comes with an extra")


def write_rows(folder: Path, rows: Sequence[dict[str, Any]], *, split: str = "train") -> str:
    """Write a split as jsonl; returns the folder."""
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(folder)


def parser_batch(lengths: Sequence[int]) -> Batch:
    """Sentences of so many words between sentinels, as automata see them."""
    mask = torch.arange(max(lengths) + 2) < torch.tensor(lengths).unsqueeze(1) + 2
    nothing = torch.zeros(len(lengths), 0, dtype=torch.int64)
    return Batch(
        source=None, source_mask=mask, target=nothing, target_mask=nothing.bool(), given=nothing.bool(), task="parsing"
    )
