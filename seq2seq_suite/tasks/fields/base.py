"""The two sides of a task: its source and its target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.shapes import SourceShape, TargetShape
from seq2seq_suite.common.types import Constraint
from seq2seq_suite.data.formats import Row
from seq2seq_suite.tasks.rows import place_of

Place = Mapping[str, Any]  # file and line, as a DataError takes them


class Field:
    """One side of a task: its values, their encoding, and what is saved of the training data."""

    varies = False  # whether `draw` depends on the epoch

    def read(self, row: Row) -> Any:
        """The value in a row; raises DataError. For tasks whose two sides are separate columns."""
        raise NotImplementedError

    def encode(self, value: Any, place: Place) -> Any:
        """The value as numbers; raises DataError if it is too long."""
        raise NotImplementedError

    def draw(self, value: Any, seed: int) -> Any:
        """The same in an epoch."""
        return self.encode(value, {})

    def encode_all(self, values: Sequence[Any], origins: Sequence[str]) -> list[Any]:
        """`encode` of many, each with its `Example.origin`."""
        return [self.encode(value, place_of(origin)) for value, origin in zip(values, origins, strict=True)]

    def fit(self, values: Sequence[Any]) -> None:
        """Build vocabularies from the values of the training split."""

    def save(self, folder: Path) -> None:
        """Write them."""

    def load(self, folder: Path) -> None:
        """Read what `save` wrote; raises DataError."""


class Source(Field, ABC):
    """The source of a task."""

    of_file: ClassVar[bool] = False  # whether a line of user input is the name of a file
    unit: str = "position"  # what a position of the encoder is

    @abstractmethod
    def shape(self) -> SourceShape:
        """The shape that the front-end needs."""

    def from_text(self, text: str, place: Place) -> Any:
        """A value from a line of user input; raises DataError."""
        raise NotImplementedError

    def check(self, value: Any, place: Place, /) -> Any:
        """The value as it is encoded; raises DataError if it cannot be."""
        return value

    @abstractmethod
    def encode(self, value: Any, place: Place) -> Any:
        """(S,...) its encoding; raises DataError if it is too long."""

    def to_text(self, value: Any) -> str:
        """The value on one line: words, a text, or the name of a file."""
        return " ".join(value) if isinstance(value, tuple) else str(value)

    def stored(self, value: Any, place: Path) -> Any:
        """The value as rows hold it; one that they name a file of is written to `place`, if it is in none."""
        return value

    def forget(self) -> None:
        """Drop what is kept in memory of the values encoded so far."""

    def names(self, value: Any, count: int) -> list[str]:
        """A name for each of the encoder's `count` positions; numbers where there are no words."""
        return [str(number) for number in range(1, count + 1)]

    def unknown(self, value: Any) -> list[str]:
        """The words, each once, that the training data did not have; of a text in pieces those it cannot spell."""
        return []

    def columns(self, value: Any) -> dict[str, Any]:
        """The columns of a row from which `read` makes this value."""
        raise NotImplementedError


class Target(Field, ABC):
    """The target of a task."""

    @abstractmethod
    def shape(self) -> TargetShape:
        """The shape that decoder and strategy need."""

    @property
    def begins(self) -> Sequence[int]:
        """The ids with which each output begins, in training and in searches."""
        return ()

    @abstractmethod
    def symbols(self, reference: Any) -> Sequence[str]:
        """The symbols that the decoder learns to predict, without END."""

    @abstractmethod
    def encode(self, value: Any, place: Place) -> list[int]:
        """The ids of a reference's symbols."""

    @abstractmethod
    def parse(self, symbols: Sequence[str], example: Example) -> Any | None:
        """The inverse of `symbols`; None for malformed ones: counted, never raised."""

    def predicted(self, ids: Sequence[int], example: Example) -> Any | None:
        """The same for ids."""
        return self.parse(self.names(ids), example)

    def beginning(self, text: str, place: Place) -> list[int]:
        """The ids that an output begins with whose beginning is this text; raises DataError if no text is one."""
        raise DataError(
            "the beginning of an output", **place, expected="a task whose outputs are free text", remedy="leave it out"
        )

    def names(self, ids: Sequence[int]) -> list[str]:
        """The symbols of ids, one by one, the specials by their names."""
        return [str(number) for number in ids]

    def constraint(self) -> Constraint | None:
        """The automaton that keeps outputs well-formed, None if any output is."""
        return None

    def to_text(self, prediction: Any | None) -> str:
        """A prediction on one line, as `from_line` reads it."""
        return prediction or ""

    def from_line(self, line: str, place: Place) -> Any | None:
        """A reference or a prediction from a line of a file."""
        return line

    def columns(self, text: str) -> dict[str, Any]:
        """The columns of a row for a reference in the form of `to_text`."""
        raise NotImplementedError


def refuse_long(length: int, most: int, what: str, place: Place, *, otherwise: str) -> None:
    """Raises DataError for a value that is longer than the configuration allows; `otherwise` is what else helps."""
    if length > most:
        raise DataError(
            what,
            **place,
            expected=f"at most {most}",
            remedy=f"raise data.max_length (and backbone.max_positions), or {otherwise}",
        )
