"""Subwords: texts as pieces of a vocabulary of fixed size, and back."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.files import atomic_write_bytes
from seq2seq_suite.common.types import BEGIN, END, PAD, SPECIALS, UNKNOWN
from seq2seq_suite.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

    from seq2seq_suite.data.imported_tokenizer import ImportedTokenizer

KINDS = ("bpe", "unigram", "characters")
IMPORTED = "imported"  # a further kind: pieces of another program's model, which `import` brings in
SPACE = "▁"  # how SentencePiece writes the space before a word
_LONGEST_SENTENCE = 2**20  # bytes; SentencePiece would skip longer ones in training
_MANY = 100  # texts, from which on one call for all is faster


def clean_text(text: str) -> str:
    """A text with normalised blanks: one space for any number of any kind, none at the ends.

    U+2581, SentencePiece's symbol for a space, counts as one.

    >>> clean_text("  ein\\u00a0Hund \\n")
    'ein Hund'
    """
    return " ".join(text.replace(SPACE, " ").split())


def train_subwords(kind: str, texts: Iterable[str], *, size: int) -> Subwords:
    """Learn a segmentation, deterministically.

    Args:
        kind: `bpe`, `unigram` or `characters`.
        texts: cleaned by `clean_text`, each once or repeated by its weight.
        size: most symbols in the vocabulary, the four specials included.

    Raises:
        ConfigError: another program's pieces are not learned here.
        DataError: there is no text, or `size` is too small for the texts' letters.

    >>> letters = train_subwords("characters", ["我们", "我"], size=10)
    >>> letters.encode("我们你"), letters.decode([4, 5])
    ([4, 5, 3], '我们')
    """
    if kind == "characters":
        return Characters(Vocabulary.build(Counter(letter for text in texts for letter in text), max_size=size))
    if kind == IMPORTED:
        raise ConfigError(
            "imported subwords cannot be learned",
            expected="init_from, the directory of a run that `import` wrote, with frontend or all in init_parts",
            remedy="name that run, or choose bpe, unigram or characters",
        )
    return SentencePieces.train(kind, texts, size=size)


def load_subwords(kind: str, folder: Path, name: str) -> Subwords:
    """Load files of `Subwords.save`.

    Raises:
        DataError: the file is missing or broken.
    """
    if kind == "characters":
        return Characters(Vocabulary.load(folder / f"{name}.json"))
    if kind == IMPORTED and (folder / f"{name}.tokenizer.json").is_file():
        from seq2seq_suite.data.imported_tokenizer import ImportedTokenizer

        return ImportedTokenizer.load(folder, name)
    if kind == IMPORTED:
        return ImportedPieces.load(folder, name, kind=kind)
    return SentencePieces.load(folder, name, kind=kind)


class Characters:
    """Every character is a piece, spaces included: for Chinese and other scripts without spaces.

    >>> letters = Characters(Vocabulary.build("我们 ok"))
    >>> letters.pieces("我 ok"), letters.join(["o", "k"])
    (['我', ' ', 'o', 'k'], 'ok')
    """

    before, after = (), (END,)

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary

    def __len__(self) -> int:
        return len(self.vocabulary)

    def pieces(self, text: str) -> list[str]:
        """The characters."""
        return list(text)

    def join(self, pieces: Sequence[str]) -> str:
        """The text."""
        return clean_text("".join(pieces))

    def encode(self, text: str) -> list[int]:
        """The characters' ids."""
        return self.vocabulary.encode(text)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Those of many texts."""
        return [self.vocabulary.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; specials are left out, an unknown character becomes U+FFFD."""
        known = [number for number in ids if number >= len(SPECIALS) or number == UNKNOWN]
        return self.join(
            [
                "\ufffd" if number == UNKNOWN else symbol
                for number, symbol in zip(known, self.vocabulary.decode(known), strict=True)
            ]
        )

    def names(self, ids: Sequence[int]) -> list[str]:
        """The characters."""
        return self.vocabulary.decode(ids)

    def save(self, folder: Path, name: str) -> None:
        """Write `folder/name.json`."""
        self.vocabulary.save(folder / f"{name}.json")


class SentencePieces:
    """Byte-pair encoding or a unigram language model, by SentencePiece.

    Text is not normalised, so that outputs can be compared with references character by character.

    Args:
        model: SentencePiece's model file as bytes.

    Source: Sennrich et al. 2016, section 3.2; Kudo 2018, sections 3.1 and 3.2.

    >>> pieces = SentencePieces.train("bpe", ["der Hund sieht den Hund"], size=40)
    >>> pieces.pieces("der Hund")
    ['▁der', '▁Hund']
    >>> pieces.decode(pieces.encode("der Hund"))
    'der Hund'
    """

    before, after = (), (END,)

    def __init__(self, model: bytes):
        self.model = model
        self._processor: SentencePieceProcessor = _processor(model)

    @classmethod
    def train(cls, kind: str, texts: Iterable[str], *, size: int) -> Self:
        """Learn pieces; see `train_subwords`."""
        from sentencepiece import SentencePieceTrainer

        buffer, wrong = io.BytesIO(), []

        def given() -> Iterator[str]:
            try:
                yield from texts
            except DataError as error:
                wrong.append(error)
                raise

        try:
            SentencePieceTrainer.train(
                sentence_iterator=given(),
                model_writer=buffer,
                model_type=kind,
                vocab_size=size,
                hard_vocab_limit=False,
                character_coverage=1.0,
                normalization_rule_name="identity",
                max_sentence_length=_LONGEST_SENTENCE,
                num_threads=1,
                shuffle_input_sentence=False,
                minloglevel=3,
                pad_id=PAD,
                bos_id=BEGIN,
                eos_id=END,
                unk_id=UNKNOWN,
                pad_piece=SPECIALS[PAD],
                bos_piece=SPECIALS[BEGIN],
                eos_piece=SPECIALS[END],
                unk_piece=SPECIALS[UNKNOWN],
                unk_surface="\ufffd",
            )
        except RuntimeError as problem:
            if wrong:
                raise wrong[0] from None
            reason = str(problem).rpartition("] ")[2].strip() or str(problem)
            raise DataError(
                f"SentencePiece cannot learn {size} pieces: {reason}",
                expected="texts, and more pieces than they have different characters",
                remedy="raise the vocabulary's size, or segment into characters",
            ) from None
        return cls(buffer.getvalue())

    @classmethod
    def load(cls, folder: Path, name: str, *, kind: str) -> Self:
        """Load a file of `save`."""
        file = folder / f"{name}.model"
        try:
            return cls(file.read_bytes(), *cls._more(folder, name))
        except (OSError, RuntimeError, ValueError, LookupError) as problem:
            raise DataError(
                f"no {kind} model can be read: {str(problem).partition(chr(10))[0]}",
                file=str(file),
                expected="a model that SentencePiece wrote",
                remedy="restore the file, or train the run again",
            ) from None

    @classmethod
    def _more(cls, folder: Path, name: str) -> tuple[Any, ...]:
        """What else is saved of it."""
        return ()

    def save(self, folder: Path, name: str) -> None:
        """Write `folder/name.model`, SentencePiece's own format."""
        atomic_write_bytes(folder / f"{name}.model", self.model)

    def __len__(self) -> int:
        return len(self._processor)

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text, a space written as U+2581."""
        return self._processor.encode(text, out_type=str)

    def join(self, pieces: Sequence[str]) -> str:
        """The text that pieces make."""
        return clean_text("".join(pieces))

    def encode(self, text: str) -> list[int]:
        """The ids of the best segmentation."""
        return self._processor.encode(text)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The same of many texts: in one call, which costs a third less for each, but half a millisecond to begin."""
        if len(texts) < _MANY:
            return [self._processor.encode(text) for text in texts]
        return self._processor.encode(list(texts), num_threads=1)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; specials are left out, an unknown piece becomes U+FFFD."""
        return clean_text(self._processor.decode([int(number) for number in ids]))

    def names(self, ids: Sequence[int]) -> list[str]:
        """The pieces, a space written as U+2581."""
        return self._processor.id_to_piece([int(number) for number in ids])


class ImportedPieces(SentencePieces):
    """SentencePiece's segmentation, whose pieces have other numbers: those of a model that `import` brought in.

    Text is normalised as that model's was. A piece without a number is UNKNOWN. A code of the target's language in
    front of a text, `>>deu<<`, is a piece of its own, as Marian's multilingual models expect it.

    Args:
        model: SentencePiece's model file as bytes.
        vocabulary: the pieces by their numbers; its counts have no meaning.

    >>> model = SentencePieces.train("bpe", ["der Hund sieht den Hund"], size=40).model
    >>> pieces = ImportedPieces(model, Vocabulary.build(["▁Hund", "▁der", ">>deu<<"]))
    >>> pieces.pieces(">>deu<< der Hund"), pieces.encode("der Hund den"), pieces.decode([6, 5, 2])
    (['>>deu<<', '▁der', '▁Hund'], [6, 5, 3], 'der Hund')
    """

    def __init__(self, model: bytes, vocabulary: Vocabulary):
        self.model, self.vocabulary, self._processor = model, vocabulary, _opened(model)

    @classmethod
    def _more(cls, folder: Path, name: str) -> tuple[Any, ...]:
        return (Vocabulary.load(folder / f"{name}.json"),)

    def save(self, folder: Path, name: str) -> None:
        """Write `folder/name.model`, and the numbers as `folder/name.json`."""
        super().save(folder, name)
        self.vocabulary.save(folder / f"{name}.json")

    def __len__(self) -> int:
        return len(self.vocabulary)

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text, a space written as U+2581."""
        code, mark, rest = text.partition("<<")
        return [code + mark, *super().pieces(rest)] if mark and code.startswith(">>") else super().pieces(text)

    def join(self, pieces: Sequence[str]) -> str:
        """The text that pieces make."""
        return clean_text(self._processor.decode_pieces(list(pieces)))

    def encode(self, text: str) -> list[int]:
        """The ids of the best segmentation."""
        return self.vocabulary.encode(self.pieces(text))

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Those of many texts."""
        return [self.encode(text) for text in texts]

    def names(self, ids: Sequence[int]) -> list[str]:
        """The pieces, a space written as U+2581."""
        return self.vocabulary.decode(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; specials are left out, an unknown piece becomes U+FFFD."""
        known = [number for number in ids if number >= len(SPECIALS) or number == UNKNOWN]
        return self.join(["\ufffd" if number == UNKNOWN else self.names([number])[0] for number in known])


# Ids 0 to 3 are PAD, BEGIN, END and UNKNOWN. A source is `before`, its ids, `after`; an output begins with `before`.
Subwords: TypeAlias = "Characters | SentencePieces | ImportedTokenizer"


def _processor(model: bytes) -> SentencePieceProcessor:
    processor = _opened(model)
    if [processor.id_to_piece(number) for number in range(len(SPECIALS))] != list(SPECIALS):
        raise ValueError(f"its first pieces are not {', '.join(SPECIALS)}")
    return processor


def pieces_in(model: bytes) -> list[str]:
    """The pieces of a model of SentencePiece by their own numbers; raises ValueError or RuntimeError if it is none."""
    processor = _opened(model)
    return processor.id_to_piece(list(range(len(processor))))


def _opened(model: bytes) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    if not model or not processor.load_from_serialized_proto(model):
        raise ValueError("it is empty or no model")
    return processor
