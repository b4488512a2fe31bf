"""Training callbacks: the interface, and TensorBoard."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_suite.common.files import read_json, read_rows
from seq2seq_suite.common.lazy_imports import need

Callback = Callable[[dict[str, Any]], object]
"""Called with each new row of `metrics.jsonl`: `update`, `split`, and losses (train) or figures
(validation). If it has a method `end`, it is called once with the run's directory when the run is complete.
What it raises ends the training, and `resume` continues it."""

_TEXTS, _PICTURES = 20, 3  # of each split
_PIXELS = 4  # along each side of a weight


def end(callbacks: Sequence[Callback], directory: Path) -> None:
    """Notify the callbacks that a run is finished."""
    for callback in callbacks:
        getattr(callback, "end", lambda directory: None)(directory)


class TensorBoard:
    """Writes a run's scalars, and at its end some outputs as text with attention maps, for TensorBoard.

    Args:
        folder: where; `tensorboard --logdir` takes it or any folder above.

    Raises:
        ConfigError: the package is not installed.
    """

    def __init__(self, folder: Path):
        need("tensorboard")
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
        """Some outputs of each split, and the attention of the heads."""
        if self._writer is None:
            return
        for path in sorted((directory / "predictions").glob("*.jsonl")):
            rows = [row for _, row in islice(read_rows(path), _TEXTS) if row]
            lines = [
                "| source | reference | prediction |",
                "|---|---|---|",
                *(
                    "| " + " | ".join(_cell(row.get(key)) for key in ("source", "reference", "prediction")) + " |"
                    for row in rows
                ),
            ]
            self._writer.add_text(path.stem, "\n".join(lines))
        for path in sorted((directory / "inspection").glob("*.json")):
            for one in read_json(path)["examples"][:_PICTURES]:
                for part, packed in one["attention"].items():
                    self._writer.add_image(
                        f"{path.stem}, row {one['row'] + 1}/{part}", attention_picture(packed), dataformats="HW"
                    )
        self._writer.close()


def attention_picture(packed: Mapping[str, Any]) -> np.ndarray:
    """(H,W) uint8: the heads of a layer side by side, layers below one another; each head's largest weight is black.

    Args:
        packed: `layers`, `heads`, `rows`, `columns` and `values`, as `inspection/SPLIT.json` has them.
    """
    shape = layers, heads, rows, columns = [packed[name] for name in ("layers", "heads", "rows", "columns")]
    maps = np.frombuffer(b64decode(packed["values"]), dtype=np.uint8).reshape(shape).astype(float)
    maps = 255.0 - 255.0 * maps / maps.max((2, 3), keepdims=True).clip(1.0)
    framed = np.pad(maps, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=190.0)
    whole = framed.transpose(0, 2, 1, 3).reshape(layers * (rows + 1), heads * (columns + 1))
    return whole.round().astype(np.uint8).repeat(_PIXELS, 0).repeat(_PIXELS, 1)


def _cell(value: Any) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("<", "&lt;")
