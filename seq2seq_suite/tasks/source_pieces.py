"""Sources as one row of pieces, for a decoder that reads them as a language model reads its texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from seq2seq_suite.data.subwords import Characters, Subwords, load_subwords, train_subwords
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.tasks.reading import place_of
from seq2seq_suite.types import BEGIN, END, DataError

_NAME = "pieces"  # as the task language_model calls its own


class SourcePieces:
    """BEGIN, the pieces of a source, and END between its parts: start and delimiter of Radford et al. 2018, 3.3.

    Args:
        size: most pieces to learn.
        taken_from: a run whose pieces are used instead, those of the weights that training begins with; empty for none.
    """

    def __init__(self, size: int, taken_from: str = ""):
        self.size, self.taken_from = size, taken_from
        self.pieces: Subwords = Characters(Vocabulary.build([]))

    def __len__(self) -> int:
        return len(self.pieces)

    def fit(self, texts: Iterable[str]) -> None:
        """Learn byte pairs from the training split's texts, or take the other run's.

        Raises:
            DataError: that run has none.
        """
        if not self.taken_from:
            self.pieces = train_subwords("bpe", texts, size=self.size)
            return
        folder = Path(self.taken_from) / "vocabulary"
        if not any((folder / f"{_NAME}.{ending}").is_file() for ending in ("model", "json")):
            raise DataError("this run, of which init_from speaks, has no pieces of texts", file=self.taken_from,
                            expected="a run of task language_model", remedy="train one, or leave `frontend` out of "
                            "init_parts: the source's pieces are learned anew then")
        self.load(folder)

    def save(self, folder: Path) -> None:
        """Write the pieces."""
        self.pieces.save(folder, _NAME)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        kind = "characters" if (folder / f"{_NAME}.json").is_file() else "bpe"
        self.pieces = load_subwords(kind, folder, _NAME)

    def encode(self, parts: Sequence[str], *, longest: int, origin: str = "") -> np.ndarray:
        """(S,) ids of a source's parts.

        Raises:
            DataError: there are more than `longest`.
        """
        ids = [BEGIN]
        for place, part in enumerate(parts):
            ids += [END] * (place > 0) + self.pieces.encode(part)
        if len(ids) > longest:
            raise DataError(f"a text of {len(ids)} pieces", **place_of(origin), expected=f"at most {longest}",
                            remedy="raise data.max_length (and backbone.max_positions), or have texts cut to fewer "
                            "words")
        return np.array(ids, dtype=np.int64)
