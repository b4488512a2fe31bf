"""Examples that no run has seen: drawn, handed over without their answers, and scored."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.data.formats import BadRows
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.rows import open_split
from seq2seq_suite.tasks.sound import SoundTask

MOST = 200  # sentences that a run must do as well on
_WORD = re.compile(r"\([^\s()]+ ([^\s()]+)\)")  # of a tree, with its tag


def drawn(task: Task, seed: int) -> list[Example]:
    """Sentences that no run has seen, drawn by the teacher's seed; fewer sounds, which take time to be spoken."""
    if isinstance(task, SoundTask):
        rows = list(open_split(task.data, "test", BadRows(0), view=task.view))
        return [task.example(row) for row in Random(seed).sample(rows, min(MOST // 2, len(rows)))]
    examples = task.read("test")
    return Random(seed).sample(examples, min(MOST, len(examples)))


def inputs(task: Task, examples: Sequence[Example], folder: Path) -> list[str]:
    """What `predict` reads: a line of text, or the name of a file with the sound and nothing of what is said in it."""
    if not isinstance(task, SoundTask):
        return [task.source.to_text(one.source) for one in examples]
    import soundfile

    folder.mkdir()
    files = [str(folder / f"{number}.wav") for number in range(len(examples))]
    for file, one in zip(files, examples, strict=True):
        soundfile.write(file, *one.source.samples(), subtype="FLOAT")
    return files


def scored(task: Task, texts: Sequence[str], examples: Sequence[Example]) -> Score:
    """The score of outputs by their lines of text, each read without the student's code."""

    def value(text: str) -> Any:
        with contextlib.suppress(DataError):
            return task.target.from_line(text, {"file": "prediction", "line": 0}) if text else None

    if task.presentation.drawing == "tree":  # which may span lines: a task reads them from a file
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "predictions.txt"
            file.write_text(
                "".join(
                    f"{_with_tags(text, one.reference.tags())}\n" for text, one in zip(texts, examples, strict=True)
                ),
                encoding="utf-8",
            )
            values = task.read_references(file)
    else:
        values = [value(text) for text in texts]
    return task.score(values, [one.reference for one in examples])


def _with_tags(text: str, tags: Sequence[str]) -> str:
    """A tree with the right tags over its words, which mark punctuation: a given sentence has none."""
    left = iter(tags)
    fits = len(_WORD.findall(text)) == len(tags)
    return _WORD.sub(lambda found: f"({next(left)} {found[1]})", text) if fits else text


def without_tags(text: str) -> str:
    """A tree without its words' tags, which a run takes from the data where it has them.

    >>> without_tags("(S (NP (DT the) (NN dog)) (VBZ barks))"), without_tags("a dog")
    ('(S (NP (_ the) (_ dog)) (_ barks))', 'a dog')
    """
    return _WORD.sub(r"(_ \1)", text)
