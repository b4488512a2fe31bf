"""A task with given options, and rows for it to read."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from seq2seq_suite.common.types import Batch
from seq2seq_suite.config.schema import Config
from seq2seq_suite.prediction.open_task import open_task


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


def write_rows(folder: Path, rows: Sequence[dict[str, Any]], *, split: str = "train") -> str:
    """Write a split as jsonl; returns the folder."""
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(folder)


def parser_batch(lengths: Sequence[int]) -> Batch:
    """Sentences of so many words between sentinels, as automata see them."""
    mask = torch.arange(max(lengths) + 2) < torch.tensor(lengths).unsqueeze(1) + 2
    nothing = torch.zeros(len(lengths), 0, dtype=torch.int64)
    return Batch(source=None, source_mask=mask, target=nothing, target_mask=nothing.bool(), given=nothing.bool(),
                 task="parsing")
