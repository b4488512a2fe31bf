"""What the ways back of BART and Whisper share: models whose tokenizer `import` brought in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.types import BEGIN, END, PAD, SPECIALS, UNKNOWN
from seq2seq_suite.data.imported_tokenizer import ImportedTokenizer
from seq2seq_suite.export.compatibility import REMEDY
from seq2seq_suite.export.transformers_models import in_both
from seq2seq_suite.tasks.fields.text import Pieces

if TYPE_CHECKING:
    from seq2seq_suite.options.backbone import Backbone

_NO_PROBABILITY = -50.0  # a bias that leaves none; `import` gives -100


def imported_pieces(field: Pieces, directory: Path, program: str) -> ImportedTokenizer:
    """The pieces of a side; raises ConfigError if `import` did not bring them in."""
    if not isinstance(field.pieces, ImportedTokenizer):
        raise ConfigError(
            f"{program} cannot express these pieces",
            file=str(directory),
            expected="those of an imported model, or of a run that began from one with init_parts=[all]",
            remedy=REMEDY,
        )
    return field.pieces


def symbols_of(pieces: ImportedTokenizer, ours: Mapping[str, Tensor], program: str) -> list[int]:
    """Our symbol for each row of their embedding (V,D).

    Of several that had one row when they came in, END is kept, or else padding: of padding no vector matters. A
    beginning that has learned another vector since gets a row of its own, behind all others.

    Raises:
        ConfigError: one that is left out has a probability.
    """
    found = dict(zip(pieces.rows, range(len(pieces)), strict=True))
    found |= {pieces.rows[symbol]: symbol for symbol in (UNKNOWN, PAD, END)}
    kept, other = [found[row] for row in range(pieces.size)], found[pieces.rows[BEGIN]]
    if any(not torch.equal(ours[name][BEGIN], ours[name][other]) for name in ("embedding.weight", "output.weight")):
        kept.append(BEGIN)
    for symbol in {PAD, BEGIN, UNKNOWN}.difference(kept):
        if ours["output.bias"][symbol] > _NO_PROBABILITY:
            raise ConfigError(
                f"{program} has one symbol for {SPECIALS[symbol]} and {SPECIALS[found[pieces.rows[symbol]]]}, but this "
                "run gives both a probability",
                expected="a run that began from an imported model with init_parts=[all]",
                remedy=REMEDY,
            )
    return kept


def numbers_of(pieces: ImportedTokenizer, symbols: Sequence[int]) -> list[int]:
    """Their number of each symbol of ours, where `symbols_of` gave ours of theirs."""
    numbers = [*pieces.rows]
    for number, symbol in enumerate(symbols):
        numbers[symbol] = number
    return numbers


def layers_of(ours: Mapping[str, Tensor], backbone: Backbone) -> dict[str, Tensor]:
    """The weights of both stacks by the names that BART and Whisper have for them."""
    layers = {"encoder": backbone.encoder_layers, "decoder": backbone.decoder_layers}
    return {theirs: ours[name] for name, theirs in in_both(ours, layers)}
