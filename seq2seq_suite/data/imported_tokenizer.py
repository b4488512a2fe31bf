"""A tokenizer of the library `tokenizers`, which `import` brings in with a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import atomic_write_text, read_json
from seq2seq_suite.common.lazy_imports import need
from seq2seq_suite.common.types import END, SPECIALS, UNKNOWN
from seq2seq_suite.data.subwords import clean_text

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FORMAT = "seq2seq_suite tokenizer 1"


class ImportedTokenizer:
    """The segmentation of a model that `import` brought in, whose pieces have other numbers here.

    What a text writes as one of the model's own symbols, such as `<mask>` or a code of a language, is that symbol; but
    no text can inject padding, a beginning or an end.

    Args:
        tokenizer: of the library `tokenizers`, as JSON.
        specials: its numbers of PAD, BEGIN, END and UNKNOWN; two may be the same.
        size: of the model's vocabulary; its other numbers follow the specials in their order.
        before, after: its numbers around a source, or around an output, such as `<s>` or the code of a language, which
            are symbols like others; an output ends in END alone.
    """

    def __init__(
        self,
        tokenizer: str,
        specials: Sequence[int],
        size: int,
        *,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
    ):
        self.specials, self.size, self.around = tuple(specials), size, (tuple(before), tuple(after))
        self.rows = [*specials, *sorted({*range(size)} - {*specials})]  # their number of each of ours
        ours = {theirs: ours for ours, theirs in enumerate(self.rows)}  # END's where BEGIN has the same
        self.before, self.after = ([ours[number] for number in some] for some in self.around)
        self._ours = {theirs: number for theirs, number in ours.items() if number >= UNKNOWN}
        self.content, self._tokenizer = tokenizer, _opened(tokenizer)

    @classmethod
    def load(cls, folder: Path, name: str) -> ImportedTokenizer:
        """Read what `save` wrote; raises DataError if it is missing or broken."""
        file, expected = folder / f"{name}.tokenizer.json", f"JSON with format {_FORMAT!r}"
        remedy = "restore the file, or import the model again"
        content = read_json(file, expected=expected, remedy=remedy)
        try:
            if content["format"] != _FORMAT:
                raise ValueError("another format")
            return cls(
                json.dumps(content["tokenizer"]),
                content["specials"],
                content["size"],
                before=content["around"][0],
                after=content["around"][1],
            )
        except (ValueError, LookupError, TypeError) as problem:
            raise DataError(
                f"no tokenizer can be read: {type(problem).__name__}: {problem}",
                file=str(file),
                expected=expected,
                remedy=remedy,
            ) from None

    def save(self, folder: Path, name: str) -> None:
        """Write `folder/name.tokenizer.json`."""
        content = {
            "format": _FORMAT,
            **{key: getattr(self, key) for key in ("specials", "size", "around")},
            "tokenizer": json.loads(self.content),
        }
        atomic_write_text(folder / f"{name}.tokenizer.json", json.dumps(content, ensure_ascii=False) + "\n")

    def __len__(self) -> int:
        return len(self.rows)

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text, as the tokenizer writes them."""
        return self.names(self.encode(text))

    def join(self, pieces: Sequence[str]) -> str:
        """The text that pieces make."""
        numbers = [self._tokenizer.token_to_id(piece) for piece in pieces]
        return self.decode([UNKNOWN if number is None else self._ours.get(number, END) for number in numbers])

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without what is around it."""
        numbers = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [self._ours.get(number, UNKNOWN) for number in numbers]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Those of many texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; specials and the model's own symbols are left out, an unknown piece becomes U+FFFD."""
        known: list[list[int]] = [[]]
        for number in map(int, ids):
            if number == UNKNOWN:
                known.append([])
            elif number >= len(SPECIALS):
                known[-1].append(self.rows[number])
        return clean_text("\ufffd".join(self._tokenizer.decode(one) for one in known))

    def names(self, ids: Sequence[int]) -> list[str]:
        """The pieces; a number that the tokenizer does not have is written as such."""
        return [SPECIALS[number] if number < len(SPECIALS) else self.their_name(number) for number in map(int, ids)]

    def their_name(self, symbol: int) -> str:
        """What the tokenizer calls one of our symbols, specials included."""
        return self._tokenizer.id_to_token(self.rows[symbol]) or f"<{self.rows[symbol]}>"


def _opened(content: str) -> Tokenizer:
    """Raises ValueError if it is none."""
    need("tokenizers")
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(content)
    except Exception as problem:  # of Rust: it has no class of its own
        raise ValueError(str(problem)) from None
