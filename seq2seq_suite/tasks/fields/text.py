"""Sources and targets that several tasks share: words, subwords, free text, symbols of a vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.shapes import TargetShape, TokenShape, WordShape
from seq2seq_suite.common.text import split_blanks
from seq2seq_suite.common.types import BEGIN, END, SPECIALS, UNKNOWN
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.subwords import IMPORTED, Characters, clean_text, load_subwords, train_subwords
from seq2seq_suite.data.subwords import Subwords as Segmentation
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.data.words import encode_words
from seq2seq_suite.tasks.fields.base import Field, Place, Source, Target, refuse_long
from seq2seq_suite.tasks.plain_text import tokenised
from seq2seq_suite.tasks.rows import place_of, text_in


class Words(Source):
    """Words between two sentinels, each read by its type and optionally by its letters.

    Args:
        longest: most words; a longer sentence is a bad row.
        kept: number of words to read, the first ones; 0 reads all.
        min_count: rarer words are <unknown>.
        max_characters: letters kept of a word; 0 reads words by their types alone.
        dropped: a word type's number in the training data -> chance to be <unknown> in training.
        split: a line as words.
        tokens: whether a typed line may be plain text, and is tokenised as the training data are.
    """

    unit = "word"

    def __init__(
        self,
        *,
        longest: int,
        kept: int = 0,
        min_count: int = 1,
        max_characters: int = 0,
        dropped: Callable[[int], float] = lambda count: 0.0,
        split: Callable[[str], Sequence[str]] = split_blanks,
        tokens: bool = False,
    ):
        self.longest, self.kept, self.min_count = longest, kept or None, min_count
        self.max_characters, self.dropped, self.split, self.tokens = max_characters, dropped, split, tokens
        self.words = self.characters = Vocabulary.build([])

    def check(self, words: Sequence[str], place: Place) -> tuple[str, ...]:
        """The words; raises DataError if there are none or too many."""
        if not words:
            raise DataError("an empty sentence", **place, expected="words separated by spaces", remedy="remove it")
        refuse_long(len(words), self.longest, f"a sentence of {len(words)} words", place, otherwise="split it")
        return tuple(words)

    def from_text(self, text: str, place: Place) -> tuple[str, ...]:
        """Words separated by spaces, if `split` does not say otherwise."""
        plain = " ".join(tokenised(split_blanks(text), self.words)) if self.tokens else text
        return self.check(self.split(plain), place)

    def tokenised_from(self, value: Sequence[str], text: str) -> bool:
        """Whether `from_text` made other tokens of a text than its blanks do."""
        return self.tokens and list(value) != self.split(text)

    def fit(self, values: Iterable[Sequence[str]]) -> None:
        """Word types and letters."""
        counts = Counter(word for words in values for word in words[: self.kept])
        self.words = Vocabulary.build(counts, min_count=self.min_count)
        self.characters = Vocabulary.build(Counter("".join(counts)) if self.max_characters else [])

    def save(self, folder: Path) -> None:
        """Write both vocabularies."""
        self.words.save(folder / "words.json")
        self.characters.save(folder / "characters.json")

    def load(self, folder: Path) -> None:
        """Load a file of `save`."""
        self.words = Vocabulary.load(folder / "words.json")
        self.characters = Vocabulary.load(folder / "characters.json")

    def shape(self) -> WordShape:
        dropped = [
            0.0 if index < len(SPECIALS) else self.dropped(count) for index, count in enumerate(self.words.counts)
        ]
        return WordShape(len(self.words), len(self.characters) if self.max_characters else 0, tuple(dropped))

    def names(self, value: Sequence[str], count: int) -> list[str]:
        return [SPECIALS[BEGIN], *value[: self.kept], SPECIALS[END]]

    def unknown(self, value: Sequence[str]) -> list[str]:
        return [word for word in dict.fromkeys(value[: self.kept]) if word not in self.words]

    def encode(self, value: Sequence[str], place: Place) -> np.ndarray:
        """(S+2, 1+C): see `data.words.encode_words`."""
        return encode_words(
            value[: self.kept],
            self.words,
            max_characters=self.max_characters,
            characters=self.characters if self.max_characters else None,
        )


class Pieces(Field):
    """Texts in pieces, learned from the training split or loaded from another run.

    Args:
        name: of their file.
        kind: bpe, unigram, characters or imported; the files of imported pieces have the name of the side.
        size: most pieces.
        longest: most pieces of a text, and most words (or characters, where they are the pieces); 0 for no limit.
        column: of a row, unless the task reads rows itself.
        key: the option that names the column.
        lower_case: whether texts are lower-cased.
        pieces_from: a run whose pieces are used; empty to learn them.
        what: a text's name in messages.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        size: int,
        *,
        longest: int = 0,
        column: str = "",
        key: str = "",
        lower_case: bool = False,
        pieces_from: str = "",
        what: str = "sentence",
    ):
        self.name, self.kind, self.size, self.longest, self.column, self.key = name, kind, size, longest, column, key
        self.lower_case, self.pieces_from, self.what = lower_case, pieces_from, what
        self.pieces: Segmentation = Characters(Vocabulary.build([]))

    def __len__(self) -> int:
        return len(self.pieces)

    def read(self, row: Row) -> str:
        """The text in the column, which must not be empty."""
        return self.check(text_in(row, self.column, self.key), row.place)

    def from_text(self, text: str, place: Place) -> str:
        """The text itself."""
        return self.check(text, place)

    def check(self, text: str, place: Place) -> str:
        """The stripped text; raises DataError if it is empty or too long, whatever the pieces."""
        return self.check_clean(clean_text(text), place)

    def check_clean(self, text: str, place: Place) -> str:
        """The same for a text that `clean_text` gave."""
        if not text:
            raise DataError(
                f"an empty {self.what}", **place, expected=f"a {self.what} on each line", remedy="remove it"
            )
        unit, length = ("characters", len(text)) if self.kind == "characters" else ("words", text.count(" ") + 1)
        self._refuse_long(length, unit, place)
        return text

    def _refuse_long(self, length: int, unit: str, place: Place) -> None:
        if self.longest and length > self.longest:
            refuse_long(
                length, self.longest, f"a {self.what} of {length} {unit}", place, otherwise=f"split the {self.what}"
            )

    def columns(self, text: str) -> dict[str, str]:
        """The text in its column."""
        return {self.column: text}

    def normalised(self, value: Any) -> str:
        """The text of a value that is split into pieces."""
        return value.lower() if self.lower_case else value

    def fit(self, values: Iterable[str]) -> None:
        """Learn the pieces, or load the other run's; raises DataError if it has none."""
        if not self.pieces_from:
            self.pieces = train_subwords(self.kind, map(self.normalised, values), size=self.size)
            return
        try:
            self.load(Path(self.pieces_from) / "vocabulary")
        except DataError:
            raise DataError(
                f"the run that init_from names has no such subwords ({self.name})",
                file=self.pieces_from,
                expected="a run whose subwords are of the same kind",
                remedy="correct init_from, give both runs the same options, or leave `frontend` out of "
                "init_parts: the subwords are then learned from the data",
            ) from None

    def save(self, folder: Path) -> None:
        """Write the pieces."""
        self.pieces.save(folder, self.name)

    def load(self, folder: Path) -> None:
        """Load a file of `save`."""
        self.pieces = load_subwords(self.kind, folder, self.name)

    def unknown(self, value: Any) -> list[str]:
        """The words of a text that have an unknown character."""

        def cannot(part: str) -> bool:
            return UNKNOWN in self.pieces.encode(self.normalised(part))

        return [word for word in dict.fromkeys(value.split()) if cannot(word)] if cannot(value) else []

    def _ids(self, text: str, place: Place) -> list[int]:
        ids = self.pieces.encode(self.normalised(text))
        self._refuse_long(len(ids), "pieces", place)
        return ids

    def _all_ids(self, texts: Sequence[str], origins: Sequence[str]) -> list[list[int]]:
        found = self.pieces.encode_all([self.normalised(text) for text in texts])
        for ids, origin in zip(found, origins, strict=True):
            if self.longest and len(ids) > self.longest:
                self._refuse_long(len(ids), "pieces", place_of(origin))
        return found


class Subwords(Pieces, Source):
    """A text in pieces, followed by END, as far as a model that was imported does not do otherwise.

    Args:
        shared: the target has the same pieces.
        others: see `Pieces`.
    """

    def __init__(self, name: str, kind: str, size: int, *, shared: bool = False, **others: Any):
        super().__init__("source" if kind == IMPORTED else name, kind, size, **others)
        self.shared = shared

    unit = "piece"

    def names(self, value: str, count: int) -> list[str]:
        return self.pieces.names(self.encode(value, {}).tolist())

    def encode(self, value: str, place: Place) -> np.ndarray:
        """(S,) ids, those around each source included: END last, where a model that was imported has no others."""
        return self._whole(self._ids(value, place))

    def encode_all(self, values: Sequence[str], origins: Sequence[str]) -> list[np.ndarray]:
        return list(map(self._whole, self._all_ids(values, origins)))

    def _whole(self, ids: list[int]) -> np.ndarray:
        return np.array([*self.pieces.before, *ids, *self.pieces.after], dtype=np.int64)

    def shape(self) -> TokenShape:
        return TokenShape(len(self), shared=self.shared)


class Text(Pieces, Target):
    """Free text in pieces: no output is malformed, but it may be empty.

    Args: see `Pieces`.
    """

    def __init__(self, name: str, kind: str, size: int, **others: Any):
        super().__init__("target" if kind == IMPORTED else name, kind, size, **others)

    def symbols(self, reference: Any) -> list[str]:
        """The pieces of the target."""
        return self.pieces.pieces(self.normalised(reference))

    def encode(self, value: Any, place: Place) -> list[int]:
        """Their ids."""
        return [*self.begins, *self._ids(value, place)]

    def encode_all(self, values: Sequence[Any], origins: Sequence[str]) -> list[list[int]]:
        return [[*self.begins, *ids] for ids in self._all_ids(values, origins)]

    @property
    def begins(self) -> Sequence[int]:
        return self.pieces.before

    def beginning(self, text: str, place: Place) -> list[int]:
        if unknown := self.unknown(clean_text(text)):
            raise DataError(
                f"the beginning of an output has what the run cannot write: {', '.join(unknown)}",
                **place,
                expected="letters of the training data",
                remedy="write it otherwise, or leave it out",
            )
        return self.encode(clean_text(text), place)

    def names(self, ids: Sequence[int]) -> list[str]:
        return self.pieces.names(ids)

    def predicted(self, ids: Sequence[int], example: Example) -> str:
        """The text of ids."""
        return self.pieces.decode(ids)

    def parse(self, symbols: Sequence[str], example: Example) -> str:
        """The text that pieces make."""
        return self.pieces.join(symbols)

    def from_line(self, line: str, place: Place) -> Any:
        """A text; an empty line is an empty one."""
        return clean_text(line)

    def shape(self) -> TargetShape:
        return TargetShape(len(self))


class Parts(Pieces, Source):
    """A source in parts, for a decoder that reads it as a language model reads its texts.

    BEGIN, the pieces, and END between the parts: start and delimiter of Radford et al. 2018, 3.3. The file is that of
    the task language_model.

    Args:
        size: most pieces.
        longest: most pieces of a source.
        parts: a value's texts.
        pieces_from: see `Pieces`.
    """

    def __init__(self, size: int, *, longest: int, parts: Callable[[Any], Sequence[str]], pieces_from: str = ""):
        super().__init__("pieces", "bpe", size, longest=longest, pieces_from=pieces_from, what="text")
        self.parts = parts

    def fit(self, values: Iterable[Any]) -> None:
        """Learn the pieces of all parts, or load the other run's."""
        super().fit(part for value in values for part in self.parts(value))

    def load(self, folder: Path) -> None:
        """Read what `save` wrote, of whatever kind, or the sources' imported pieces."""
        if any((folder / f"source.{kind}").is_file() for kind in ("model", "tokenizer.json")):
            self.name = "source"
        numbered, *others = ((folder / f"{self.name}.{kind}").is_file() for kind in ("json", "model", "tokenizer.json"))
        kind = (IMPORTED if any(others) else "characters") if numbered or others[1] else "bpe"
        self.pieces = load_subwords(kind, folder, self.name)

    unit = "piece"

    def names(self, value: Any, count: int) -> list[str]:
        return self.pieces.names(self.encode(value, {}).tolist())

    def encode(self, value: Any, place: Place) -> np.ndarray:
        """(S,) ids of the parts."""
        ids = [BEGIN]
        for number, part in enumerate(self.parts(value)):
            ids += [END] * (number > 0) + self.pieces.encode(part)
        refuse_long(
            len(ids), self.longest, f"a text of {len(ids)} pieces", place, otherwise="have texts cut to fewer words"
        )
        return np.array(ids, dtype=np.int64)

    def shape(self) -> TokenShape:
        return TokenShape(len(self))


class Symbols(Target):
    """Symbols of a vocabulary.

    Args:
        name: of its file.
        min_count: rarer symbols are <unknown>.
    """

    def __init__(self, name: str = "symbols", *, min_count: int = 1):
        self.name, self.min_count, self.vocabulary = name, min_count, Vocabulary.build([])

    def __len__(self) -> int:
        return len(self.vocabulary)

    def fit(self, values: Sequence[Any]) -> None:
        """The symbols of the training split."""
        counts = Counter(symbol for reference in values for symbol in self.symbols(reference))
        self.vocabulary = Vocabulary.build(counts, min_count=self.min_count)

    def save(self, folder: Path) -> None:
        """Write the vocabulary."""
        self.vocabulary.save(folder / f"{self.name}.json")

    def load(self, folder: Path) -> None:
        """Load a file of `save`."""
        self.vocabulary = Vocabulary.load(folder / f"{self.name}.json")

    def encode(self, value: Any, place: Place) -> list[int]:
        """Their ids."""
        return self.vocabulary.encode(self.symbols(value))

    def names(self, ids: Sequence[int]) -> list[str]:
        return self.vocabulary.decode(ids)

    def shape(self) -> TargetShape:
        return TargetShape(len(self))
