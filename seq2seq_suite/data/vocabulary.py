"""Vocabularies: symbols and their ids."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import atomic_write_text, read_json
from seq2seq_suite.common.types import SPECIALS, UNKNOWN

_FORMAT = "seq2seq_suite vocabulary 1"
_MOST = 2**63  # upper bound of counts


@dataclass(frozen=True)
class Vocabulary:
    """Symbols and their ids, immutable.

    Ids 0 to 3 are the specials PAD, BEGIN, END and UNKNOWN; the symbols of the data follow, the most frequent first.
    The specials' names are reserved: data with such a symbol is refused when the vocabulary is built, and later the
    symbol encodes as unknown, so that no text can inject padding or an end.

    Args:
        symbols: the symbols of the data, in the order of their ids.
        symbol_counts: how often each of them occurred in the data.

    Raises:
        DataError: a symbol has the name of a special.
        ValueError: symbols repeat, or there is not one count for each.

    >>> vocabulary = Vocabulary.build("the cat saw the dog".split())
    >>> vocabulary.symbols
    ('the', 'cat', 'dog', 'saw')
    >>> vocabulary.encode(["the", "cow", "saw"])
    [4, 3, 7]
    >>> vocabulary.decode([4, 3, 7, 2])
    ['the', '<unknown>', 'saw', '<end>']
    >>> len(vocabulary), "cow" in vocabulary
    (8, False)
    """

    symbols: tuple[str, ...]
    symbol_counts: tuple[int, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        reserved = [symbol for symbol in self.symbols if symbol in SPECIALS]
        if reserved:
            raise DataError(
                f"the data contains the symbol '{reserved[0]}'",
                expected=f"none of the reserved names {', '.join(SPECIALS)}",
                remedy="replace it in the data, e.g. with other brackets",
            )
        ids = {symbol: number for number, symbol in enumerate(self.symbols, start=len(SPECIALS))}
        if len(ids) < len(self.symbols):
            raise ValueError("a symbol appears twice")
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def build(cls, counts: Counter[str] | Iterable[str], *, min_count: int = 1, max_size: int = 0) -> Vocabulary:
        """Number the symbols by descending count, those of equal count alphabetically.

        Args:
            counts: symbol -> count, or the symbols themselves.
            min_count: symbols that occur less often become unknown.
            max_size: largest size, above that of the four specials, which are included; 0 for no limit.

        Raises:
            DataError: a symbol has the name of a special.

        >>> Vocabulary.build(Counter(a=5, b=1, c=2, d=2), min_count=2, max_size=6).symbols
        ('a', 'c')
        """
        counted = counts if isinstance(counts, Counter) else Counter(counts)
        ranked = sorted(
            ((symbol, count) for symbol, count in counted.items() if count >= min_count),
            key=lambda item: (-item[1], item[0]),
        )
        ranked = ranked[: max_size - len(SPECIALS) if max_size else None]
        return cls(tuple(symbol for symbol, _ in ranked), tuple(count for _, count in ranked))

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        """Whether the symbol is in the vocabulary."""
        return symbol in self._ids

    @property
    def counts(self) -> list[int]:
        """How often each id occurred in the data; 0 for the specials.

        >>> Vocabulary.build("abb").counts
        [0, 0, 0, 0, 2, 1]
        """
        return [0] * len(SPECIALS) + list(self.symbol_counts)

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Ids of the symbols, UNKNOWN for those not in the vocabulary; adds neither BEGIN nor END.

        >>> Vocabulary.build("ab").encode(["b", "<end>", "a"])
        [5, 3, 4]
        """
        return [self._ids.get(symbol, UNKNOWN) for symbol in symbols]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Symbols of the ids, the specials by their names.

        Raises:
            ValueError: an id is outside the vocabulary.

        >>> Vocabulary.build("ab").decode([1, 5, 4])
        ['<begin>', 'b', 'a']
        """
        return [self._symbol(number) for number in ids]

    def _symbol(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise ValueError(f"id {number} is outside a vocabulary of {len(self)}")
        return SPECIALS[number] if number < len(SPECIALS) else self.symbols[number - len(SPECIALS)]

    def save(self, path: str | Path) -> None:
        """Write JSON, one symbol with its count on each line; atomically."""
        rows = ",\n".join(
            f"    {json.dumps([symbol, count], ensure_ascii=False)}"
            for symbol, count in zip(self.symbols, self.symbol_counts, strict=True)
        )
        text = (
            f'{{\n  "format": {json.dumps(_FORMAT)},\n  "specials": {json.dumps(SPECIALS)},\n'
            f'  "symbols": [\n{rows}\n  ]\n}}\n'
        )
        atomic_write_text(Path(path), text)

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read what `save` wrote.

        Raises:
            DataError: the file is missing or is no vocabulary of this format.
        """
        expected = f"JSON with format {_FORMAT!r} and specials {list(SPECIALS)}"
        remedy = "restore the file, or build the vocabulary again from the data"
        content = read_json(Path(path), expected=expected, remedy=remedy)
        try:
            if content["format"] != _FORMAT or tuple(content["specials"]) != SPECIALS:
                raise ValueError("another format, or other specials")
            rows = [(symbol, count) for symbol, count in content["symbols"]]
            if not all(isinstance(symbol, str) and type(count) is int and 0 < count < _MOST for symbol, count in rows):
                raise ValueError("a symbol is not text, or a count is not above 0")
            return cls(tuple(symbol for symbol, _ in rows), tuple(count for _, count in rows))
        except (ValueError, KeyError, TypeError, DataError) as problem:
            reason = problem.got if isinstance(problem, DataError) else f"{type(problem).__name__}: {problem}"
            raise DataError(
                f"no vocabulary can be read: {reason}", file=str(path), expected=expected, remedy=remedy
            ) from problem
