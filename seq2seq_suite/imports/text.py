"""What families of models share: pieces under our numbers, other programs' tokenizers, and how long texts may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from torch import Tensor

from seq2seq_suite.common.errors import DataError, truncate
from seq2seq_suite.common.lazy_imports import need
from seq2seq_suite.common.types import BEGIN, PAD, UNKNOWN
from seq2seq_suite.data.subwords import ImportedPieces, pieces_in
from seq2seq_suite.data.torchaudio_import import load_torchaudio
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.imports.checkpoint import Checkpoint

IMPORTED = {"source_subwords": "imported", "target_subwords": "imported"}
_NEVER = -100.0  # a logit whose probability is 0 in float32


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
    """The bias of our logits (V',) from theirs (V,): of a row that is used twice, specials get no probability."""
    found, used = bias[rows], list(rows)
    for special in (BEGIN, UNKNOWN, PAD):  # which no output has
        if used.count(rows[special]) > 1:
            found[special], used[special] = _NEVER, -1
    return found


def room(positions: int) -> dict[str, Any]:
    """Keys that let an output be twice as long as the longest source and end where positions do."""
    extra = min(20, positions // 4)
    return {
        "data": {"max_length": (positions - extra) // 2 - 2},
        "search": {"max_length_factor": 2.0, "max_length_extra": extra},
    }


# What files a tokenizer comes in; transformers would make one without pieces of none of them.
_TOKENIZERS = (("tokenizer.json",), ("vocab.json", "merges.txt"), ("sentencepiece.bpe.model",), ("vocab.txt",))


def tokenizer_of(checkpoint: Checkpoint) -> Any:
    """The tokenizer as transformers reads it.

    Raises:
        ConfigError: transformers is not installed.
        DataError: there is none, or one that needs code of its own or is not of the library `tokenizers`.
    """
    need("transformers")
    names = " or ".join(map(" and ".join, _TOKENIZERS))
    if not any(all((checkpoint.folder / name).is_file() for name in some) for some in _TOKENIZERS):
        raise checkpoint.refusal("the tokenizer is missing", f"{names}, in the folder downloaded as a whole", file="")
    with suppress(DataError):  # transformers looks for it, and one that was made for CUDA fails beside a CPU's PyTorch
        load_torchaudio()
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(checkpoint.folder, local_files_only=True, trust_remote_code=False)
        found.backend_tokenizer.no_truncation()
        found.backend_tokenizer.no_padding()
        return found
    except Exception as problem:  # of transformers and of Rust: all kinds
        raise checkpoint.refusal(
            f"no tokenizer: {truncate(str(problem).strip().partition(chr(10))[0], 200)}",
            f"one that transformers reads without further code, from {names}",
            file="",
        ) from None


def check_tokenizer(checkpoint: Checkpoint, tokenizer: Any, size: int) -> None:
    """Raise DataError for another model's, by the `size` of the vocabulary, padding, and what ends a text."""
    numbers, pad, end = (
        {*tokenizer.get_vocab().values()},
        checkpoint.value("pad_token_id"),
        checkpoint.value("eos_token_id"),
    )
    beyond = {number for number in numbers if number >= size} - {*tokenizer.all_special_ids}
    padding, behind = tokenizer.pad_token_id, around(tokenizer)[1]
    if beyond or len(numbers) < size * 15 // 16 or padding not in (pad, None) or end not in behind:
        raise checkpoint.refusal(
            f"{len(numbers)} pieces for {size} rows of the embedding, padding {padding} and {behind} behind a text",
            f"the tokenizer of this model, padding {pad} and {end}",
            file="",
        )


def around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """What a tokenizer of transformers has before and behind the pieces of a text, as it is set."""
    backend = tokenizer.backend_tokenizer
    whole, own = backend.encode("a").ids, backend.encode("a", add_special_tokens=False).ids
    start = next(place for place in range(len(whole)) if whole[place : place + len(own)] == own)
    return whole[:start], whole[start + len(own) :]
