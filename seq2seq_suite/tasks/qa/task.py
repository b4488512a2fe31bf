"""Question answering: a question and a context in, a generated answer out, SQuAD's exact match as the metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, model_validator

from seq2seq_suite.common.errors import DataError, repr_short
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.common.shapes import SentenceShape, TokenShape
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.printed import unprinted
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.metrics.answers import Gold, answer_scores
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import Fraction, Positive, Section
from seq2seq_suite.options.section import Symbols as Size
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.fields.base import Place, Source, refuse_long
from seq2seq_suite.tasks.fields.text import Parts, Symbols
from seq2seq_suite.tasks.options import TaskOptions
from seq2seq_suite.tasks.qa.passages import (
    SEPARATOR,
    Passage,
    as_sentences,
    as_tokens,
    crop,
    symbols_of,
    text_of,
    words_of,
)
from seq2seq_suite.tasks.qa.presentation import QuestionAnsweringPresentation
from seq2seq_suite.tasks.rows import place_of, text_in, value_in

_COLUMNS = (("context", "passage", "story"), ("answers", "answer"))
Category = Annotated[str, BeforeValidator(lambda name: str(name) if isinstance(name, int) else name)]


class QAOptions(TaskOptions):
    """Options of the question-answering task."""

    encoding: Literal["tokens", "sentences", "pieces"] = "tokens"  # the source's positions are words with the distance
    # of their sentence, or whole sentences, or pieces of context and question, as a language model reads them
    pieces: Size = 4000  # of encoding `pieces`, at most; init_from's, if given
    question_column: str = "question"  # of the question
    context_column: str = ""  # of the context; empty: context, passage or story
    answer_column: str = ""  # of the answer or answers; empty: answers or answer
    lowercase: bool = False  # questions, contexts and answers are lower-cased
    min_count: Positive = 1  # rarer words are <unknown>
    segments: Positive = 64  # distances from the question that are distinguished, in sentences
    segment_jitter: Fraction = 0.0  # in training, chance of each distance that it and all beyond grow by one
    crop: Literal["refuse", "first", "last", "overlap"] = "refuse"  # contexts beyond data.max_length: a bad row, or
    # keep the first or the last sentences, or those that share most words with the question
    pointer: bool = False  # answers may be copied from question and context, which share their vocabulary then
    category_columns: tuple[str, ...] = ("task", "type")  # the first one there is a question's category
    keep_categories: tuple[Category, ...] = ()  # other categories are left out (and counted); empty keeps all
    repeats: dict[Category, Positive] = {}  # how often an epoch repeats the training questions of a category; default 1

    @model_validator(mode="after")
    def _words_to_copy(self) -> QAOptions:
        if self.pointer and self.encoding != "tokens":
            raise ValueError(f"qa.pointer copies words, but qa.encoding is {self.encoding}: use tokens")
        return self

    @property
    def reads_symbols(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Not where each position is a whole sentence."""
        return self.encoding != "sentences"

    def source_positions(self, config: Any) -> int:
        """Sentences have their distance instead."""
        return 0 if self.encoding == "sentences" else super().source_positions(config)


class Sentences(Source):
    """A question and its context as words, with the places of their sentences.

    With `encoding: tokens` the question's words, then the context's, each with its segment: 0 for the question, then
    the sentence's distance counted back from the end of the context, 1 for the last one. With `encoding: sentences`
    one row of words for each sentence, the question first and the sentences from the last to the first, so that a
    sentence's place is its distance.
    """

    def __init__(self, options: QAOptions):
        self.options, self.words = options, Vocabulary.build([])
        self.unit = "sentence" if options.encoding == "sentences" else "word"
        self._known: dict[tuple[str, ...], np.ndarray] = {}  # sentences that were looked up

    def fit(self, values: Sequence[Passage]) -> None:
        """The words."""
        counts = Counter[str]()
        for sentence, times in Counter(one for value in values for one in (value.question, *value.sentences)).items():
            for word in sentence:  # stories have few different sentences
                counts[word] += times
        self.use(Vocabulary.build(counts, min_count=self.options.min_count))

    def use(self, vocabulary: Vocabulary) -> None:
        """Words from now on."""
        self.words, self._known = vocabulary, {}

    def save(self, folder: Path) -> None:
        """Write the vocabulary."""
        self.words.save(folder / "words.json")

    def load(self, folder: Path) -> None:
        """Load a file of `save`."""
        self.use(Vocabulary.load(folder / "words.json"))

    def shape(self) -> TokenShape | SentenceShape:
        """A front-end with segments."""
        options, count = self.options, len(self.words)
        if options.encoding == "sentences":
            return SentenceShape(count, options.segments, options.segment_jitter)
        return TokenShape(count, options.segments, options.segment_jitter, copied=options.pointer)

    def encode(self, value: Passage, place: Place) -> np.ndarray:
        """(S,2) tokens or (S,W) sentences; the same sentence is looked up once."""
        rows = [self._ids(value.question), *map(self._ids, value.sentences)]
        return as_sentences(rows) if self.options.encoding == "sentences" else as_tokens(rows)

    def forget(self) -> None:
        self._known.clear()

    def unknown(self, value: Passage) -> list[str]:
        return [word for word in dict.fromkeys(value.words()) if word not in self.words]

    def names(self, value: Passage, count: int) -> list[str]:
        """Words, or whole sentences as they are read: the question, then from the last to the first."""
        if self.options.encoding == "sentences":
            return [" ".join(sentence) for sentence in (value.question, *reversed(value.sentences))][:count]
        return list(value.words())

    def _ids(self, sentence: tuple[str, ...]) -> np.ndarray:
        if sentence not in self._known:
            self._known[sentence] = np.array(self.words.encode(sentence), dtype=np.int64)
        return self._known[sentence]


class Answers(Symbols):
    """The words of the first right answer, those that follow without a space marked."""

    def symbols(self, reference: Gold) -> Sequence[str]:
        """The symbols of the first right answer."""
        return symbols_of(reference.answers[0])

    def parse(self, symbols: Sequence[str], example: Example) -> str | None:
        """The answer that symbols write; None if there are none."""
        return text_of(symbols) or None

    def from_line(self, line: str, place: Place) -> Gold | None:
        """Right answers separated by `|||`; an empty line is a prediction that failed."""
        found = tuple(part.strip() for part in line.split(SEPARATOR) if part.strip())
        return Gold(found) if found else None

    def to_text(self, prediction: str | Gold | None) -> str:
        """The answer on one line, right answers separated by `|||`; empty for none."""
        return f" {SEPARATOR} ".join(prediction.answers) if isinstance(prediction, Gold) else prediction or ""


class QuestionAnsweringTask(Task[Any, Answers]):
    """Question and context -> answer in free words; with `encoding: pieces` read in pieces, the context before it."""

    name, presented_by = "qa", QuestionAnsweringPresentation
    sections: ClassVar[Mapping[str, type[Section]]] = {"qa": QAOptions}
    primary_metric = "exact_match"
    rewritable = several_references = True
    view, item, expected = "questions", "question", "rows with question, context and answer"
    if_empty = "check data.path, data.splits and qa.keep_categories"

    def __init__(self, options: QAOptions, data: Data, **others: Any):
        super().__init__(options, data, **others)
        self.source = (
            Sentences(options)
            if options.encoding != "pieces"
            else Parts(options.pieces, longest=data.max_length, parts=Passage.texts, pieces_from=self.pieces_from)
        )
        self.target = Answers(min_count=options.min_count)
        self._seen = Counter[str]()  # questions left out, cropped, or cropped so that no answer is left

    # -- data ---------------------------------------------------------------------------------------------------

    def read(self, split: str) -> list[Example]:
        """The questions of a split, those of training as often as `qa.repeats` says."""
        seen = self._seen = Counter[str]()
        examples = super().read(split)
        if seen["left out"]:
            print(f"{split}: {seen['left out']} questions of other categories than qa.keep_categories left out")
        if seen["cropped"]:
            print(
                f"{split}: {seen['cropped']} of {len(examples)} contexts cropped to data.max_length="
                f"{self.data.max_length} words (qa.crop={self.options.crop}); {seen['lost']} of these do not hold a "
                "right answer word for word"
            )
        times = self.options.repeats if split == "train" else {}
        if missing := times.keys() - {example.reference.category for example in examples}:
            print(f"train: no question of category {', '.join(sorted(missing))}, which qa.repeats names")
        return [example for example in examples for _ in range(times.get(example.reference.category, 1))]

    def _category(self, row: Row) -> str:
        found = (row.fields.get(name) for name in self.options.category_columns)
        return next((str(value) for value in found if value is not None), "")

    def example(self, row: Row) -> Example | None:
        """A question of a row, None where its category is not wanted."""
        place, fields, kept, category = row.place, row.fields, self.options.keep_categories, self._category(row)
        if kept and category not in kept:
            self._seen["left out"] += 1
            return None
        options = self.options
        context, answer = (
            named_so or next((name for name in known if name in fields), known[0])
            for named_so, known in zip((options.context_column, options.answer_column), _COLUMNS, strict=True)
        )
        question = text_in(row, options.question_column, "qa.question_column")
        story = text_in(row, context, "qa.context_column")
        answers = self._answers(value_in(row, answer, "qa.answer_column"), place)
        passage, cropped = self._passage(question, story, place)
        example = Example(passage, Gold(answers, category), row.origin)
        self._seen["cropped"] += cropped
        self._seen["lost"] += cropped and not _holds(passage, example.reference)
        return example

    def _answers(self, value: Any, place: dict[str, Any]) -> tuple[str, ...]:
        """The right answers, each once: text, a list of texts, or `text` of SQuAD's `answers`."""
        value = unprinted(value)
        if isinstance(value, Mapping):
            value = unprinted(value.get("text"))
        cut = isinstance(value, str) and value.startswith(("['", '["', "{'", '{"'))
        found: Any = [value] if isinstance(value, str) and not cut else value
        if isinstance(found, list):  # SQuAD's own answers are objects
            found = [one.get("text") if isinstance(one, Mapping) else one for one in found]
        if not isinstance(found, Sequence) or not all(isinstance(answer, str) for answer in found):
            raise DataError(
                f"the answer is {repr_short(value)}",
                **place,
                remedy="correct the row",
                expected="text, a list of texts, or an object whose `text` is one",
            )
        answers = tuple(dict.fromkeys(self._plain(answer) for answer in found if symbols_of(answer)))
        longest = max((len(symbols_of(answer)) for answer in answers), default=0)
        refuse_long(longest, self.data.max_length, f"an answer of {longest} words", place, otherwise="shorten it")
        if not answers:
            raise DataError(
                "the question has no answer",
                **place,
                expected="at least one answer with a word in it",
                remedy="remove the row: questions that cannot be answered need an answer that says so",
            )
        return answers

    def _plain(self, answer: str) -> str:
        return " ".join((answer.lower() if self.options.lowercase else answer).split())

    def _passage(self, question: str, context: str, place: dict[str, Any]) -> tuple[Passage, bool]:
        """The passage and whether it had to be cropped."""
        if self.options.lowercase:
            question, context = question.lower(), context.lower()
        passage, longest = Passage.of(question, context), self.data.max_length
        if not passage.question or not passage.sentences:
            raise DataError(
                "the question or its context is empty",
                **place,
                expected=f"question {SEPARATOR} context",
                remedy="fill it in, or remove the row",
            )
        if len(passage) <= longest:
            return passage, False
        if self.options.crop == "refuse" or len(passage.question) >= longest:
            refuse_long(
                len(passage),
                longest,
                f"{len(passage)} words, {len(passage.question)} of them in the question",
                place,
                otherwise="set qa.crop to first, last or overlap",
            )
        return crop(passage, longest, keep=self.options.crop), True

    def from_text(self, text: str, *, origin: str = "") -> Example:
        """A question and its context on one line, `Where is Mary? ||| Mary went home.`"""
        question, _, context = text.partition(SEPARATOR)
        return Example(self._passage(question, context, place_of(origin))[0], None, origin)

    def row(self, example: Example, text: str) -> dict[str, Any]:
        """Question, context with a sentence on each line, answers, and the category."""
        passage: Passage = example.source
        options = self.options
        row = {
            options.question_column: " ".join(passage.question),
            options.context_column or "context": "\n".join(map(" ".join, passage.sentences)),
            options.answer_column or "answers": [answer.strip() for answer in text.split(SEPARATOR)],
        }
        return row | ({"type": example.reference.category} if example.reference is not None else {})

    # -- numbers ------------------------------------------------------------------------------------------------

    def fit(self, examples: Iterable[Example]) -> None:
        """Vocabularies of source words and of answers; the same one for both if a word may be copied."""
        super().fit(examples)
        if self.options.pointer:
            words = Counter(word for example in examples for word in example.source.words())
            symbols = Counter(symbol for example in examples for symbol in self.target.symbols(example.reference))
            self.target.vocabulary = Vocabulary.build(words + symbols, min_count=self.options.min_count)
            self.source.use(self.target.vocabulary)

    def score(self, predictions: Sequence[str | Gold | None], *references: Sequence[str | Gold]) -> Score:
        """SQuAD's figures, over all and by category."""
        answers = [given.answers[0] if isinstance(given, Gold) else given for given in predictions]
        several = [[Gold((one,)) if isinstance(one, str) else one for one in golds] for golds in references]
        golds = [
            Gold(tuple(answer for one in golds for answer in one.answers), golds[0].category)
            for golds in zip(*several, strict=True)
        ]
        return answer_scores(answers, golds)


def _holds(passage: Passage, gold: Gold) -> bool:
    """Whether a right answer occurs in the context word for word.

    >>> _holds(Passage.of("Where?", "Tom sat. He left."), Gold(("sat there", "Sat . he")))
    True
    """
    context = " ".join(word for sentence in passage.sentences for word in sentence).lower()
    return any(f" {' '.join(words_of(answer))} ".lower() in f" {context} " for answer in gold.answers)
