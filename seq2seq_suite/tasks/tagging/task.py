"""Tagging: a sentence in, a tag for each of its words out; accuracy, or F1 of spans, as the metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.common.shapes import TargetShape
from seq2seq_suite.common.text import split_blanks
from seq2seq_suite.common.trees import clean, read_trees
from seq2seq_suite.common.types import SPECIALS, Constraint
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.printed import unprinted
from seq2seq_suite.metrics.span_schemes import scheme_of
from seq2seq_suite.metrics.tags import score_tags
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import Positive, Section, ShareOrNone
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.fields.base import Place
from seq2seq_suite.tasks.fields.text import Symbols, Words
from seq2seq_suite.tasks.options import TaskOptions
from seq2seq_suite.tasks.rows import columns, named, place_of, value_in
from seq2seq_suite.tasks.tagging.presentation import TaggingPresentation, Tags


class TaggingOptions(TaskOptions):
    """Options of tagging."""

    target: ClassVar[str] = "structures"
    constrained: ClassVar[bool] = True

    words_column: str = "words"  # a list, or text with spaces; the words of `tree` where a row has that instead
    tags_column: str = "tags"  # the same; upos or xpos of CoNLL-U
    spans: bool = False  # tags such as B-PER, I-PER and O mark spans, whose F1 is the metric then
    characters: bool = True  # words are also read letter by letter
    max_characters: Positive = 20  # of a word: the first and last halves of a longer one are kept
    min_count: Positive = 2  # rarer words are <unknown>, read by their letters
    unknown_rate: ShareOrNone = 0.5  # word dropped to <unknown> with rate * min(1, 2/count)


class TagRow(Symbols):
    """A tag for each word."""

    def symbols(self, reference: Tags) -> list[str]:
        """The tags."""
        return list(reference)

    def parse(self, symbols: Sequence[str], example: Example) -> Tags | None:
        """The tags; None where they are not as many as the words, or one is none."""
        fits = len(symbols) == len(example.source) and not set(symbols) & set(SPECIALS)
        return tuple(symbols) if fits else None

    def shape(self) -> TargetShape:
        """An output for each tag, and the word that is next as the decoder's guide."""
        return TargetShape(len(self), num_focus=1)

    def constraint(self) -> Constraint:
        """The automaton that gives each word a tag."""
        from seq2seq_suite.tasks.tagging.automaton import OnePerWord  # here, for it imports torch

        return OnePerWord(len(self))

    def to_text(self, prediction: Tags | None) -> str:
        """The tags with spaces between."""
        return " ".join(prediction or ())

    def from_line(self, line: str, place: Place) -> Tags | None:
        """The inverse; an empty line is a prediction that failed."""
        return tuple(split_blanks(line)) or None


class TaggingTask(Task[Words, TagRow]):
    """Sentence -> a tag for each word; words are read by their letters, too."""

    name, tokenised, rewritable = "tagging", True, True
    presented_by = TaggingPresentation
    sections: ClassVar[Mapping[str, type[Section]]] = {"tagging": TaggingOptions}
    primary_metric = "accuracy"
    view, item, expected = "tags", "sentence", "rows with words and tags, or with a bracketed tree"

    def __init__(self, options: TaggingOptions, data: Data, **others: Any):
        super().__init__(options, data, **others)
        self.primary_metric = "span_f1" if options.spans else "accuracy"
        self.source = Words(
            longest=data.max_length,
            min_count=options.min_count,
            tokens=True,
            max_characters=options.max_characters if options.characters else 0,
            dropped=lambda count: options.unknown_rate * min(1.0, 2.0 / count),
        )
        self.target = TagRow("tags")
        self._letters: set[str] = set()  # of the spans' tags in all splits

    def read(self, split: str) -> list[Example]:
        """The sentences of a split; raises DataError where tags of spans are not of one scheme."""
        examples = super().read(split)
        if self.options.spans:
            scheme_of(((example.reference, place_of(example.origin)) for example in examples), self._letters)
        return examples

    def read_references(self, path: Path) -> list[Tags | None]:
        """The tags on each line, those of spans in one scheme."""
        found = super().read_references(path)
        if self.options.spans:
            scheme_of((tags or (), {"file": str(path), "line": number}) for number, tags in enumerate(found, 1))
        return found

    def example(self, row: Row) -> Example:
        """The words and tags of a row, or of its tree."""
        place, fields = row.place, dict(row.fields)
        names = (self.options.words_column, self.options.tags_column)
        if isinstance(fields.get("tree"), str) and names[0] not in fields:
            tree = clean(next(read_trees(fields["tree"], file=row.file, first_line=row.line))[1])
            fields |= dict(zip(names, (tree.words(), tree.tags()) if tree else ((), ()), strict=True))
        keys = ("tagging.words_column", "tagging.tags_column")
        values = [unprinted(value_in(replace(row, fields=fields), *both)) for both in zip(names, keys, strict=True)]
        values = [split_blanks(value) if isinstance(value, str) else value for value in values]
        for name, value in zip(names, values, strict=True):
            if not isinstance(value, Sequence) or not all(isinstance(one, str) and one.strip() for one in value):
                raise DataError(
                    f"'{name}' is {named(value)}",
                    **place,
                    remedy="correct the row, or remove it",
                    expected="a list of texts, none of them empty, or a text with spaces",
                )
        if len(values[0]) != len(values[1]):
            raise DataError(
                f"{' and '.join(names)} need one tag for each word; {columns(row)}",
                **place,
                expected="two lists of the same length, or texts with spaces",
                remedy="set tagging.words_column and tagging.tags_column, or remove the row",
            )
        if set(values[1]) == {"_"}:
            raise DataError(
                f"{names[1]} are all '_'",
                **place,
                expected="a tag for each word",
                remedy="set tagging.tags_column to a column that is filled in, or remove the row",
            )
        if self.options.spans:
            scheme_of([(values[1], place)])
        likelier = row.fields.get("oracle")
        return Example(
            self.source.check(values[0], place),
            tuple(values[1]),
            row.origin,
            also={"oracle": tuple(likelier)} if likelier else {},
        )

    def row(self, example: Example, text: str) -> dict[str, Any]:
        """Words, tags, and those of the oracle."""
        words, tags = self.options.words_column, self.options.tags_column
        return {words: example.source, tags: split_blanks(text), **example.also}

    def auxiliary(self, example: Example) -> dict[str, np.ndarray]:
        """The word that each tag belongs to, the sentinel for END."""
        count = len(example.source) + 1
        return {"focus": np.arange(1, count + 1).reshape(-1, 1), "context": np.zeros((count, 0), dtype=np.int64)}

    def score(self, predictions: Sequence[Tags | None], references: Sequence[Tags]) -> Score:
        """Accuracy, and the figures of spans."""
        return score_tags(references, predictions, spans=self.options.spans)

    def score_examples(self, predictions: Sequence[Tags | None], examples: Sequence[Example]) -> Score:
        """With the accuracy on words that have several tags in these references, and on words new to the model."""
        score = super().score_examples(predictions, examples)
        pairs = {pair for example in examples for pair in zip(example.source, example.reference, strict=True)}
        tags = Counter(word for word, _ in pairs)  # how many each has
        hard: dict[str, list[bool]] = {"ambiguous_accuracy": [], "unknown_accuracy": []}
        for prediction, example in zip(predictions, examples, strict=True):
            new = set(self.unknown(example))
            given = prediction if prediction is not None and len(prediction) == len(example.reference) else ()
            for word, tag, found in zip_longest(example.source, example.reference, given):
                hard["ambiguous_accuracy"] += [found == tag] * (tags[word] > 1)
                hard["unknown_accuracy"] += [found == tag] * (word in new)
        found = {name: 100.0 * sum(right) / len(right) for name, right in hard.items() if right}
        return replace(score, figures=score.figures | found)
