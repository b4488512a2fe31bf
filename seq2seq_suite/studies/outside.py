"""Outputs of other systems, beside runs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from seq2seq_suite.common.types import Score
from seq2seq_suite.prediction.load_run import config_of
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs.records import read_predictions, read_summary
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.scoring import score_files


def score_outputs(file: Path, run: Path, split: str) -> tuple[Task, Score]:
    """The score of another system's outputs for the examples of a run's split.

    Args:
        file: an output for each example, in their order and in the format of `predict`.
        run: evaluated on the split; its task, options and references are used.
        split: its name.

    Raises:
        DataError: the outputs cannot be read, or are not as many as the split has examples.
    """
    config = config_of(run, [])
    task = open_task(config.task, config)
    task.load(run / "vocabulary")
    with tempfile.TemporaryDirectory() as folder:
        references = Path(folder, f"references of {run}'s {split}".replace("/", "_"))
        references.write_text("".join(f"{row.reference}\n" for row in read_predictions(run, split)), encoding="utf-8")
        score = score_files(task, [references], file)
    own = read_summary(run).signature
    unlike = [] if own == score.signature else [f"scored as {score.signature}, but the run as {own}"]
    for note in (*unlike, *score.notes):
        print(f"{file}: {note}", file=sys.stderr)
    return task, score
