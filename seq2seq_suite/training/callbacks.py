"""What may watch a training: the interface, and TensorBoard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from seq2seq_suite.files import read_rows
from seq2seq_suite.types import ConfigError

Callback = Callable[[dict[str, Any]], object]
"""Called with each row of `metrics.jsonl` as it is written: `update`, `split`, and losses (train) or figures
(validation). If it has a method `end`, that is called once with the run's directory when all its files are written.
What it raises ends the training, and `resume` continues it."""

_TEXTS = 20


def end(callbacks: Sequence[Callback], directory: Path) -> None:
    """Tell those that want to know that a run is finished."""
    for callback in callbacks:
        getattr(callback, "end", lambda directory: None)(directory)


class TensorBoard:
    """Writes a run's scalars, and at its end some outputs as text, for TensorBoard.

    Args:
        folder: where; `tensorboard --logdir` takes it or any folder above.

    Raises:
        ConfigError: the package is not installed.
    """

    def __init__(self, folder: Path):
        if find_spec("tensorboard") is None:
            raise ConfigError("training.tensorboard=true, but TensorBoard is not installed",
                              expected="the extra `tensorboard`",
                              remedy="pip install 'seq2seq-suite[tensorboard]', or set training.tensorboard=false")
        self.folder, self._writer = folder, None

    def __call__(self, row: Mapping[str, Any]) -> None:
        """The numbers of a row."""
        if self._writer is None:  # a resumed run writes the rows after its checkpoint again
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.folder), purge_step=row["update"])
        for name, value in row.items():
            if name != "update" and isinstance(value, (int, float)):
                self._writer.add_scalar(f"{row['split']}/{name}", value, row["update"])

    def end(self, directory: Path) -> None:
        """Some outputs of each split."""
        if self._writer is None:
            return
        for path in sorted((directory / "predictions").glob("*.jsonl")):
            rows = [row for _, row in islice(read_rows(path), _TEXTS) if row]
            lines = ["| source | reference | prediction |", "|---|---|---|",
                     *("| " + " | ".join(_cell(row.get(key)) for key in ("source", "reference", "prediction")) + " |"
                       for row in rows)]
            self._writer.add_text(path.stem, "\n".join(lines))
        self._writer.close()


def _cell(value: Any) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("<", "&lt;")
