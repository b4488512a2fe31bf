"""A task with given options, and rows for it to read."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seq2seq_suite.config import Config
from seq2seq_suite.tasks import open_task


def make_task(name: str, **keys: Any) -> Any:
    """A task by its name; `multilabel__min_count=1` sets the key `multilabel.min_count`."""
    values: dict[str, Any] = {"task": name}
    for key, value in keys.items():
        section, _, option = key.partition("__")
        values.setdefault(section, {})[option] = value
    return open_task(name, Config.model_validate(values))


def write_rows(folder: Path, rows: Sequence[dict[str, Any]], *, split: str = "train") -> str:
    """Write a split as jsonl; returns the folder."""
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(folder)
