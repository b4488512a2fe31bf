"""Two counts over the data of a YAML, to compare a model's figures with.

    python -m benchmarks.counts tags tasks/tagging.yaml
    python -m benchmarks.counts repeats tasks/qa-babi.yaml data.path=path/to/babi-10k 'qa.repeats={}'

`tags`: the accuracy of each word's most frequent tag in training, with words in lower case and as they are written; a
new word gets the most frequent tag of all.
`repeats`: test examples that training has, too: questions with their context, by category; transcripts; other sources.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

from benchmarks.machine import markdown_table
from seq2seq_suite.common.errors import UserError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.config import config_file
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks.base import Task


def frequent_tags(train: Sequence[Example], test: Sequence[Example], *, lower: bool = False) -> float:
    """Percent of the words of `test` whose tag is their most frequent one in `train`; of equals the first seen.

    Args:
        lower: words are counted in lower case.

    >>> pairs = [Example(("the", "fish"), ("DET", "NOUN")), Example(("a", "fish", "swims"), ("DET", "NOUN", "VERB"))]
    >>> round(frequent_tags(pairs, [Example(("a", "new", "fish"), ("DET", "ADJ", "NOUN"))]), 2)
    66.67
    """

    def pairs(examples: Sequence[Example]) -> Iterator[tuple[str, str]]:
        for example in examples:
            yield from zip((word.lower() if lower else word for word in example.source), example.reference, strict=True)

    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in pairs(train):
        tags[word][tag] += 1
    best = {word: found.most_common(1)[0][0] for word, found in tags.items()}
    otherwise = sum(tags.values(), Counter()).most_common(1)[0][0]
    right = [best.get(word, otherwise) == tag for word, tag in pairs(test)]
    return 100.0 * sum(right) / len(right)


def repeats(task: Task, train: Sequence[Example], test: Sequence[Example]) -> dict[str, tuple[int, int]]:
    """Category -> examples of `test` whose key is in `train`, and all of its examples; without categories `all`."""
    known = {_key(task, example) for example in train}
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for example in test:
        found[getattr(example.reference, "category", "") or "all"].append(_key(task, example) in known)
    return {name: (sum(hits), len(hits)) for name, hits in found.items()}


def _key(task: Task, example: Example) -> Hashable:
    """What must recur: the transcript of a recording, else the source."""
    return example.reference if task.name == "asr" else example.source


def main(given: Sequence[str] | None = None) -> None:
    """Count and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", choices=("tags", "repeats"))
    parser.add_argument("yaml", type=Path)
    parser.add_argument("override", nargs="*", help="key=value")
    arguments = parser.parse_args(given)
    try:
        config = config_file.load(arguments.yaml, arguments.override)
        task = open_task(config.task, config)
        train = task.read("train")
        tests = {split: task.read(split) for split in config.data.test_splits}
    except UserError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    if arguments.count == "tags":
        rows = [
            [split, *(f"{frequent_tags(train, test, lower=lower):.2f}" for lower in (True, False))]
            for split, test in tests.items()
        ]
        print("\n".join(markdown_table(["split", "lower case", "as written"], rows)))
        return
    rows = [
        [split, category, str(known), str(total), f"{100.0 * known / total:.1f}"]
        for split, test in tests.items()
        for category, (known, total) in repeats(task, train, test).items()
    ]
    print("\n".join(markdown_table(["split", "category", "also in train", "of", "%"], rows)))


if __name__ == "__main__":
    main()
