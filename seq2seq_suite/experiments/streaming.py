"""A training split that is read file by file: for data larger than the disk, or without an end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Encoded, Example
from seq2seq_suite.data.drawn import OnDemand
from seq2seq_suite.data.formats import BadRows, is_readable, reader_of
from seq2seq_suite.tasks import tasks_with
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.rows import in_form, local_files

_MOST = 2**32  # examples of a file


class Stream:
    """The files of a training split, one after the other, repeatedly; each counts as an epoch.

    A position in the stream is the number of files before and a position in the batches of the file, so that a
    resumed run reads on where it was. Iterating gives the examples that vocabularies are built from, the first ones.

    Args:
        task: must be one that `streams`; its `data.streaming` is set.

    Raises:
        ConfigError: the task's rows do not stand alone.
        DataError: the split has no local files, or such as are parallel.
    """

    def __init__(self, task: Task):
        self.task, data = task, task.data
        if not task.streams or task.varies:
            raise ConfigError(
                f"data.streaming with task {task.name}",
                expected=tasks_with("streams"),
                remedy="leave out data.streaming",
            )
        self.files = local_files(data, "train", task.languages)
        if not self.files or not all(is_readable(file, data.format) for file in self.files):
            raise DataError(
                "data.streaming without files of rows",
                file=data.path,
                expected="local files such as train-0001.jsonl, train-0002.jsonl",
                remedy="write the rows so, both sides of a pair in one row, or leave out data.streaming",
            )
        facts = [(file.name, file.stat().st_size) for file in self.files]
        self.digest = hashlib.sha256(repr(facts).encode()).hexdigest()

    def examples(self, number: int) -> list[Example]:
        """Those of a file, counted from 0 and on from the last to the first.

        Raises:
            DataError: it has none, or more than `data.max_bad_rows` broken rows.
        """
        file, data = self.files[number % len(self.files)], self.task.data
        return self.task.read_rows(
            "train", lambda bad: in_form(data, "train", bad, reader_of(file, data.format)(file, bad))
        )

    def __iter__(self) -> Iterator[Example]:
        data = self.task.data
        bad = BadRows(data.max_bad_rows, longest=data.max_row_megabytes * 2**20)
        return self.task.examples_of(islice(self.task.open("train", bad), data.vocabulary_rows), bad)

    def origins(self) -> Sequence[str]:
        """Where the example with an index as `numbered` gives it came from."""
        return OnDemand(lambda index: self.examples(index // _MOST)[index % _MOST].origin, _MOST * 2**30)


def numbered(items: Sequence[Encoded], number: int) -> list[Encoded]:
    """The examples of a file with indices that no other file's have."""
    return [replace(item, index=number * _MOST + item.index) for item in items]
