"""What all tasks share."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Encoded, Example, Score
from seq2seq_suite.common.files import read_lines
from seq2seq_suite.common.lazy_imports import need
from seq2seq_suite.common.shapes import Shape
from seq2seq_suite.common.text import composed
from seq2seq_suite.common.types import END, Constraint, Hypothesis, SymbolGain
from seq2seq_suite.data.formats import BadRows, Row
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.miniworld import Miniworld
from seq2seq_suite.options.section import Section
from seq2seq_suite.tasks.fields.base import Field, Source, Target
from seq2seq_suite.tasks.presentation import Judgement as Judgement  # users' tasks import it from here
from seq2seq_suite.tasks.presentation import Presentation
from seq2seq_suite.tasks.rows import open_split, place_of, remarks_of

if TYPE_CHECKING:
    from seq2seq_suite.metrics import Metric

SourceT = TypeVar("SourceT", bound=Source)
TargetT = TypeVar("TargetT", bound=Target)


class Task(ABC, Generic[SourceT, TargetT]):
    """A source and a target, with their data and metrics. It is independent of the model.

    A subclass makes `source` and `target`, says how a row becomes an example, if not by `read` of the two, and scores.
    How its outputs look on a page is said by the class in `presented_by`.

    Args:
        options: the section of the configuration that has the task's name.
        data: the configuration's `data`.
        seed: of everything random.
        pieces_from: a run whose subwords are used, because training starts from its weights; empty to learn them.
        world: the configuration's `miniworld` where that is rich; None for the plain one.
    """

    name: ClassVar[str]
    sections: ClassVar[Mapping[str, type[Section]]] = {}  # of the configuration, its own first
    primary_metric: str
    higher_is_better: ClassVar[bool] = True
    rewritable: ClassVar[bool] = False  # whether `distill` may replace the targets, see `row`
    packages: ClassVar[tuple[str, ...]] = ()  # of extras, without which it cannot train
    view: ClassVar[str] = ""  # of the embedded data
    has_ceiling: ClassVar[bool] = True  # whether `oracle` gives outputs
    tokenised: ClassVar[bool] = False  # whether its texts are words that the user has separated
    item: ClassVar[str] = "example"  # an example's name in messages
    expected: str = "rows"  # what rows should be
    streams: ClassVar[bool] = False  # whether `examples` depends on its row alone, so that memory need not hold all
    if_empty: ClassVar[str] = "check data.path and data.splits"  # what to do about a split without examples
    languages: tuple[str, str] | None = None  # of parallel text, which may be in a file for each
    several_references: ClassVar[bool] = False  # whether an output may have more than one, see `score`
    presented_by: ClassVar[type[Presentation]] = Presentation
    metrics: Sequence[Metric] = ()  # beside its own, which the configuration names
    source: SourceT
    target: TargetT

    def __init__(
        self, options: Any, data: Data, *, seed: int = 1, pieces_from: str = "", world: Miniworld | None = None
    ):
        self.options, self.data, self.seed, self.pieces_from, self.world = options, data, seed, pieces_from, world

    # -- data ---------------------------------------------------------------------------------------------------

    def read(self, split: str) -> list[Example]:
        """The examples of a split; up to `data.max_bad_rows` broken rows are listed and left out.

        Raises:
            DataError: a file is missing, the split is empty, or more rows than `data.max_bad_rows` are broken.
        """
        return self.read_rows(split, lambda bad: self.open(split, bad))

    def read_rows(self, split: str, rows: Callable[[BadRows], Iterator[Row]]) -> list[Example]:
        """The examples of a split that has these rows; raises DataError as `read` does."""
        bad = BadRows(self.data.max_bad_rows, longest=self.data.max_row_megabytes * 2**20)
        examples = list(self.examples_of(rows(bad), bad))
        for line in [*dict.fromkeys(bad.notes), *bad.report(), *remarks_of(split, self.item, examples)]:
            print(line)
        if not examples:
            raise DataError(
                f"the split '{split}' has no usable {self.item}",
                file=self.data.path,
                expected=self.expected,
                remedy=self.if_empty,
            )
        return examples

    def open(self, split: str, bad: BadRows) -> Iterator[Row]:
        """The rows of a split; `bad` collects broken ones."""
        return open_split(self.data, split, bad, view=self.view, languages=self.languages, world=self.world)

    def examples_of(self, rows: Iterable[Row], bad: BadRows) -> Iterator[Example]:
        """The examples in rows; `bad` collects broken rows, and what examples leave out."""
        for row in rows:
            try:
                made = self.examples(row)
            except DataError as error:
                bad.add(error)
                continue
            bad.usable = True
            for error in chain.from_iterable(example.left_out for example in made):
                bad.add(error)
            yield from made

    def examples(self, row: Row) -> list[Example]:
        """The examples in a row; raises DataError for a broken one."""
        example = self.example(row)
        return [] if example is None else [example]

    def example(self, row: Row) -> Example | None:
        """The example in a row, None to leave it out; raises DataError for a broken one."""
        return Example(self.source.read(row), self.target.read(row), row.origin)

    def from_text(self, text: str, *, origin: str = "") -> Example:
        """An example to predict from, from a line of user input; raises DataError."""
        return Example(self.source.from_text(text, place_of(origin)), None, origin)

    def row(self, example: Example, text: str) -> dict[str, Any]:
        """A row as `read` takes it: the example with `text`, in the form of `to_text`, as its reference."""
        return {**self.source.columns(example.source), **self.target.columns(text)}

    def read_references(self, path: Path) -> list[Any]:
        """References or predictions from a file, one on each line."""
        return [
            self.target.from_line(line, {"file": str(path), "line": number})
            for number, line in enumerate(map(self.in_form, read_lines(path)), 1)
        ]

    def in_form(self, text: Any) -> Any:
        """A text, or texts in a list, in the form of `data.unicode`."""
        return composed(text) if self.data.unicode == "nfc" else text

    def inspect(self, split: str, examples: Sequence[Example]) -> list[str]:
        """Warnings about a split, for `check`."""
        return []

    def figures(self, examples: Sequence[Example]) -> str:
        """How loud, large or the like the media of a split are, on one line for `check`; empty where there are none."""
        return ""

    # -- numbers ------------------------------------------------------------------------------------------------

    @property
    def target_fields(self) -> tuple[Field, ...]:
        """The fields that are fitted to references: the target alone, unless others are learned beside it."""
        return (self.target,)

    def check_installed(self) -> None:
        """Raises ConfigError where training or scoring would need what is not installed."""
        need(*self.packages)

    def fit(self, examples: Iterable[Example]) -> None:
        """Build tokenizers and vocabularies from the training split."""
        self.source.fit([example.source for example in examples])
        for field in self.target_fields:
            field.fit([example.reference for example in examples])

    def count(self, examples: Iterable[Example]) -> None:
        """Count statistics of the training split that a search needs, whichever run the vocabularies come from."""

    def save(self, folder: Path) -> None:
        """Write tokenizers and vocabularies."""
        folder.mkdir(parents=True, exist_ok=True)
        for field in (self.source, *self.target_fields):
            field.save(folder)

    def load(self, folder: Path) -> None:
        """Load a file of `save`."""
        for field in (self.source, *self.target_fields):
            field.load(folder)

    def shape(self) -> Shape:
        """The shapes that source and target need."""
        return Shape(self.source.shape(), self.target.shape())

    def encode(self, examples: Sequence[Example]) -> Sequence[Encoded]:
        """Encoded examples, as a list or made on demand; `fit` or `load` must be called first."""
        sources = self.source.encode_all(
            [example.source for example in examples], [example.origin for example in examples]
        )
        judged = [example for example in examples if example.reference is not None]
        targets = iter(
            self.target.encode_all([example.reference for example in judged], [example.origin for example in judged])
        )
        return [
            self._encoded(index, example, source, None if example.reference is None else next(targets))
            for index, (example, source) in enumerate(zip(examples, sources, strict=True))
        ]

    def auxiliary(self, example: Example) -> dict[str, np.ndarray]:
        """Inputs and labels beside source and target, by the names in `Batch.auxiliary`."""
        return {}

    def encode_beginnings(self, examples: Sequence[Example]) -> Sequence[Encoded]:
        """Encoded sources for a search, with what the outputs must begin with, where that is given."""
        encoded = self.encode(examples)
        if not any(example.begin for example in examples):
            return encoded
        ids = [
            self.target.beginning(example.begin, place_of(example.origin)) if example.begin else self.target.begins
            for example in examples
        ]
        return [
            replace(item, auxiliary={**item.auxiliary, "begin": np.array(begin, dtype=np.int64)})
            for item, begin in zip(encoded, ids, strict=True)
        ]

    @property
    def varies(self) -> bool:
        """Whether training examples differ between epochs."""
        return self.source.varies or self.target.varies

    def encode_epoch(self, examples: Sequence[Example], epoch: int) -> Sequence[Encoded]:
        """The encoded training examples of an epoch, as a list or made on demand.

        They depend only on the run's seed, the epoch and each example's index, so that a resumed run reads the same.
        """

        def seed(index: int, side: int) -> int:
            return zlib.crc32(f"{self.seed}/{epoch}/{index}/{side}".encode())

        return [
            self._encoded(
                index,
                example,
                self.source.draw(example.source, seed(index, 0)),
                self.target.draw(example.reference, seed(index, 1)),
            )
            for index, example in enumerate(examples)
        ]

    def _encoded(self, index: int, example: Example, source: Any, target: Sequence[int] | None) -> Encoded:
        ids = [] if target is None else [*target, END]
        auxiliary = self.auxiliary(example)
        if self.target.begins:
            auxiliary = {**auxiliary, "begin": np.array(self.target.begins, dtype=np.int64)}
        return Encoded(source, np.array(ids, dtype=np.int64), index=index, auxiliary=auxiliary)

    # -- outputs ------------------------------------------------------------------------------------------------

    def read_hypothesis(self, hypothesis: Hypothesis, example: Example) -> Any | None:
        """A search's output as a prediction; None if it is malformed."""
        return self.in_form(self.target.predicted(hypothesis.symbols, example))

    def constraint(self) -> Constraint | None:
        """The automaton that keeps outputs well-formed, or None."""
        return self.target.constraint()

    def language(self) -> SymbolGain | None:
        """The external language model's score of the next symbol, for CTC's beam search; None for none."""
        return None

    def leave_out_below(self, threshold: float | None) -> None:
        """Drop predictions below a probability; None for the task's own threshold.

        Raises:
            ConfigError: its predictions have no probabilities.
        """
        if threshold is not None:
            raise ConfigError(
                f"a threshold of {threshold:g}, but outputs of task {self.name} have no probabilities",
                expected="a run that detects objects, or one that scores each label (multilabel.decision=marginals)",
                remedy="leave out the threshold",
            )

    def tune(self, examples: Sequence[Example], decode: Callable[[Sequence[Example]], list[list[Hypothesis]]]) -> str:
        """Tune options on the validation split after training, such as a threshold.

        Args:
            examples: of the validation split.
            decode: returns the hypotheses of each.

        Returns:
            A message for the log; empty if there is nothing to tune.
        """
        return ""

    @abstractmethod
    def score(self, predictions: Sequence[Any | None], references: Sequence[Any], /) -> Score:
        """The task's metrics; with `several_references` further sequences of references may follow the first.

        For `search.risk` predictions stand in the place of references.
        """

    def score_examples(self, predictions: Sequence[Any | None], examples: Sequence[Example]) -> Score:
        """The metrics over examples, whose `also` may say more than one reference."""
        return self.score(predictions, [example.reference for example in examples])

    def oracle(self, train: Sequence[Example], examples: Sequence[Example]) -> list[Any]:
        """The best possible outputs given the training data: an upper bound, on embedded data."""
        return [example.also.get("oracle", example.reference) for example in examples]

    # -- text ---------------------------------------------------------------------------------------------------

    def unknown(self, example: Example) -> list[str]:
        """The words of an input that are not in the training data."""
        return self.source.unknown(example.source)

    def to_text(self, prediction: Any | None) -> str:
        """A prediction on one line, as `read_references` reads it."""
        return self.target.to_text(prediction)

    @cached_property
    def presentation(self) -> Presentation:
        """How examples and outputs are presented on pages and at terminals."""
        return self.presented_by(self)
