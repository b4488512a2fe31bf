"""What families of models from text to text share: pieces under our numbers, and how long texts may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from seq2seq_suite.common.errors import truncate
from seq2seq_suite.common.types import BEGIN
from seq2seq_suite.data.subwords import ImportedPieces, pieces_in
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.imports.checkpoint import Checkpoint

IMPORTED = {"source_subwords": "imported", "target_subwords": "imported"}
_NO_BEGIN = -100.0  # a logit whose probability is 0 in float32


def pieces_of(checkpoint: Checkpoint, file: str) -> list[str]:
    """The pieces of a file of SentencePiece by its own numbers; raises DataError if it is missing or none."""
    try:
        return pieces_in(checkpoint.bytes(file))
    except (ValueError, RuntimeError) as problem:
        raise checkpoint.refusal(truncate(str(problem)), "a model of SentencePiece", file=file) from None


def numbered(
    checkpoint: Checkpoint, file: str, names: Mapping[int, str], specials: Sequence[int]
) -> tuple[ImportedPieces, list[int]]:
    """Pieces of SentencePiece, and their number of each of ours: PAD, BEGIN, END, UNKNOWN, then the others in order.

    Args:
        checkpoint: the folder.
        file: of SentencePiece.
        names: of the pieces by their numbers.
        specials: their numbers of our specials; BEGIN may have that of another one, whose row is then used twice.

    Raises:
        DataError: the file is missing or no model.
    """
    pieces_of(checkpoint, file)
    rows = [*specials, *sorted(names.keys() - {*specials})]
    symbols = tuple(names[number] for number in rows[len(specials) :])
    return ImportedPieces(checkpoint.bytes(file), Vocabulary(symbols, (1,) * len(symbols))), rows


def bias_of(bias: Tensor, rows: Sequence[int]) -> Tensor:
    """The bias of our logits (V',) from theirs (V,): of a row that is used twice BEGIN, which no output has, gets none
    of the probability."""
    found = bias[rows]
    if rows.count(rows[BEGIN]) > 1:
        found[BEGIN] = _NO_BEGIN
    return found


def room(positions: int) -> dict[str, Any]:
    """Keys that let an output be twice as long as the longest source and end where positions do."""
    extra = min(20, positions // 4)
    return {
        "data": {"max_length": (positions - extra) // 2 - 2},
        "search": {"max_length_factor": 2.0, "max_length_extra": extra},
    }
