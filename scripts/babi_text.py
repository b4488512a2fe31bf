"""bAbI as it is published, numbered lines of text -> jsonl with question, context, answer, task and name.

    python scripts/babi_text.py tasks_1-20_v1-2.tar.gz --folder en-10k --output path/to/babi

The context holds all statements of the story before the question, in their order; which of them support the answer
is not given. Answers of several words (tasks 8 and 19), separated by commas there, are separated by spaces. The last
tenth of each task's training questions becomes the validation split. The numbers of questions are checked.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import atomic_write_text

NUM_TASKS = 20
TRAIN_QUESTIONS = {"en": 1000, "en-10k": 10_000}  # of a task, as published
TEST_QUESTIONS = 1000
_FILE = re.compile(r"qa(\d+)_(.+)_(train|test)\.txt")
_LINE = re.compile(r"(\d+) (.*)")

Row = dict[str, Any]


def questions(text: str, *, task: int, name: str, file: str) -> Iterator[Row]:
    """The questions of a file.

    Raises:
        DataError: a line has no number, or a question no answer.

    >>> text = "1 Mary went home.\\n2 Where is Mary? \\thome\\t1\\n1 Tom sat.\\n2 Who sat?\\tTom,Ann\\t1\\n"
    >>> for row in questions(text, task=8, name="lists", file="qa8_lists_test.txt"):
    ...     print(row["question"], row["context"], row["answer"])
    Where is Mary? Mary went home. home
    Who sat? Tom sat. Tom Ann
    """
    story: list[str] = []
    for place, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise DataError(
                f"the line has no number: {line[:60]!r}",
                file=file,
                line=place,
                expected="`1 Mary moved to the bathroom.`",
                remedy="fetch the archive again",
            )
        if found[1] == "1":
            story = []
        if "\t" not in found[2]:
            story.append(found[2].strip())
            continue
        question, answer, *_ = (part.strip() for part in found[2].split("\t"))
        if not answer or not story:
            raise DataError(
                "a question without an answer or a story",
                file=file,
                line=place,
                expected="number, question, tab, answer, tab, numbers of supporting lines",
                remedy="fetch the archive again",
            )
        yield {
            "task": task,
            "name": name,
            "question": question,
            "context": " ".join(story),
            "answer": answer.replace(",", " "),
        }


def texts(archive: Path, folder: str) -> dict[str, str]:
    """File name -> text of the files of a folder inside an archive, or inside an unpacked one.

    Raises:
        DataError: there is no such archive, or no file of bAbI in that folder.
    """
    found: dict[str, str] = {}
    if archive.is_dir():
        for path in sorted((archive / folder).glob("qa*.txt")):
            found[path.name] = path.read_text(encoding="utf-8")
    elif archive.is_file() and tarfile.is_tarfile(archive):
        with tarfile.open(archive) as opened:
            for member in opened:
                path = Path(member.name)
                if member.isfile() and path.parent.name == folder and _FILE.fullmatch(path.name):
                    found[path.name] = opened.extractfile(member).read().decode("utf-8")  # type: ignore[union-attr]
    else:
        raise DataError("no archive and no folder", file=str(archive), expected="tasks_1-20_v1-2.tar.gz, or unpacked")
    if not found:
        raise DataError(
            f"no file qaN_NAME_train.txt in a folder '{folder}'",
            file=str(archive),
            expected=f"one of the folders {', '.join(TRAIN_QUESTIONS)}",
            remedy="name it with --folder",
        )
    return found


def convert(
    files: Mapping[str, str], *, train_questions: int, test_questions: int = TEST_QUESTIONS
) -> tuple[dict[str, list[Row]], list[str]]:
    """The splits, and what differs from the published numbers of questions."""
    splits: dict[str, list[Row]] = {"train": [], "validation": [], "test": []}
    wrong = []
    by_task = {(int(found[1]), found[3]): (name, found[2]) for name in files if (found := _FILE.fullmatch(name))}
    for task in range(1, NUM_TASKS + 1):
        for part, expected in (("train", train_questions), ("test", test_questions)):
            name, title = by_task.get((task, part), ("", ""))
            rows = list(questions(files[name], task=task, name=title, file=name)) if name else []
            if len(rows) != expected:
                wrong.append(f"task {task}, {part}: {len(rows):,} questions, published are {expected:,}")
            if part == "test":
                splits["test"] += rows
                continue
            kept = len(rows) - len(rows) // 10
            splits["train"] += rows[:kept]
            splits["validation"] += rows[kept:]
    return splits, wrong


def main(arguments: list[str] | None = None) -> int:
    """Convert; 2 if the input is wrong or its counts are not the published ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="tasks_1-20_v1-2.tar.gz, or the folder it unpacks to")
    parser.add_argument("--folder", choices=TRAIN_QUESTIONS, default="en-10k", help="inside the archive")
    parser.add_argument("--output", type=Path, required=True, help="folder for train, validation and test.jsonl")
    parser.add_argument("--accept-counts", action="store_true", help="write even if questions are missing")
    options = parser.parse_args(arguments)
    try:
        splits, wrong = convert(texts(options.archive, options.folder), train_questions=TRAIN_QUESTIONS[options.folder])
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    for difference in wrong:
        print(difference, file=sys.stderr)
    if wrong and not options.accept_counts:
        print("nothing was written; --accept-counts writes what is there", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    for split, rows in splits.items():
        atomic_write_text(options.output / f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        print(f"{split}: {len(rows):,} questions of {len({row['task'] for row in rows})} tasks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
