"""Texts as questions and answers need them: cut into sentences and words, cropped, and put together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
import regex

from seq2seq_suite.common.text import LETTER, OTHER, SIGN, UNSPACED

JOINER = "\N{HALFWIDTH BLACK SQUARE}"  # before a symbol that follows another without a space
SEPARATOR = "|||"
_WORD = regex.compile(
    rf"[0-9]++(?:[.,:][0-9]++)*+(?!\p{{M}})|{SIGN}|{LETTER}++(?:['’.·״׳-]{LETTER}++)*+|{OTHER}", regex.V1
)
_BETWEEN_SIGNS = regex.compile(
    rf"(?<={UNSPACED}) (?={UNSPACED}|[，。、！？：；」』）])|(?<=[，。、！？：；「『（]) (?={UNSPACED})"
)
_BEFORE_CLOSING, _AFTER_OPENING = regex.compile(r" (?=[.,;:!?)\]}%’”।॥؟۔،؛])"), regex.compile(r"(?<=[(\[{“]) ")
_FINAL, _CLOSING = "[。．｡！？।॥።។៕။]", "[」』”’）]"  # ends of sentences with or without a blank behind them
_SENTENCE_END = regex.compile(
    rf"\s*\n\s*|(?<=[\p{{STerm}}།༎])\s+|(?<=[\p{{STerm}}--{_FINAL}][\"'”’)])\s+"
    rf"|(?<={_FINAL})(?!{_CLOSING}|\s)|(?<={_FINAL}{_CLOSING})",
    regex.V1,
)


@dataclass(frozen=True)
class Passage:
    """A question and the sentences of its context, as words.

    >>> str(Passage.of("Where is Mary?", "Mary left. She went home."))
    'Where is Mary ? ||| Mary left . She went home .'
    """

    question: tuple[str, ...]
    sentences: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, question: str, context: str) -> Passage:
        """Cut into sentences and words."""
        return cls(words_of(question), _words_by_sentence(context))

    def words(self) -> Iterator[str]:
        """Those of the question, then those of the context."""
        return chain(self.question, *self.sentences)

    def __len__(self) -> int:
        return len(self.question) + sum(map(len, self.sentences))

    def texts(self) -> tuple[str, str]:
        """Context and question as they are usually printed.

        >>> Passage.of("Where is Mary?", "Mary left. She went home.").texts()
        ('Mary left. She went home.', 'Where is Mary?')
        """
        return printed([word for sentence in self.sentences for word in sentence]), printed(self.question)

    def __str__(self) -> str:
        context = " ".join(word for sentence in self.sentences for word in sentence)
        return f"{' '.join(self.question)} {SEPARATOR} {context}".strip()


def sentences_of(text: str) -> list[str]:
    """The sentences of a text; lines are sentences of their own.

    >>> sentences_of('Tom ran. "Stop!" cried Ann.\\nHe had 3.5 miles to go')
    ['Tom ran.', '"Stop!"', 'cried Ann.', 'He had 3.5 miles to go']
    >>> sentences_of("“好。”她走了。")
    ['“好。”', '她走了。']
    >>> sentences_of("वह गया। हाँ।ठीक है")
    ['वह गया।', 'हाँ।', 'ठीक है']
    """
    return [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence]


@lru_cache(maxsize=200_000)  # stories have few different sentences: each is kept once
def words_of(text: str) -> tuple[str, ...]:
    """Words, numbers and single other signs.

    >>> words_of("Bill's dog cost $1,000.")
    ("Bill's", 'dog', 'cost', '$', '1,000', '.')

    Scripts without spaces, such as Chinese, Japanese and Thai: each sign is a word.

    >>> words_of("1999年、東京に行った。")
    ('1999', '年', '、', '東', '京', 'に', '行', 'っ', 'た', '。')
    """
    return tuple(_WORD.findall(text))


@lru_cache(maxsize=1000)  # a context has several questions, mostly in a row
def _words_by_sentence(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(map(words_of, sentences_of(text)))


@lru_cache(maxsize=200_000)
def symbols_of(answer: str) -> tuple[str, ...]:
    """An answer as symbols: its words, those that follow without a space marked with a joiner.

    >>> symbols_of("milk, 1.5 l")
    ('milk', '￭,', '1.5', 'l')
    """
    return tuple(
        found.group() if found.start() == 0 or answer[found.start() - 1].isspace() else JOINER + found.group()
        for found in _WORD.finditer(answer)
    )


def text_of(symbols: Sequence[str]) -> str:
    """The inverse of `symbols_of`, spaces collapsed.

    >>> text_of(symbols_of("milk,  (1.5 l)"))
    'milk, (1.5 l)'
    """
    return " ".join(symbols).replace(f" {JOINER}", "").removeprefix(JOINER)


def printed(words: Sequence[str]) -> str:
    """Words as a text, without spaces before closing signs.

    >>> printed(words_of("Well, (he) left!"))
    'Well, (he) left!'
    >>> printed(words_of("東京に行った。"))
    '東京に行った。'
    """
    return _BEFORE_CLOSING.sub("", _AFTER_OPENING.sub("", _BETWEEN_SIGNS.sub("", " ".join(words))))


def crop(passage: Passage, room: int, *, keep: str) -> Passage:
    """A passage of at most `room` words, the question whole.

    Args:
        passage: longer than that.
        room: longer than the question.
        keep: first | last sentences, or those with most `overlap` with the question's words, in their old order.
            One sentence that is too long is cut on the right.

    >>> passage = Passage.of("Where is Mary?", "Mary left. Tom sang. Mary is home. Tom slept.")
    >>> for keep in ("first", "last", "overlap"):
    ...     print(crop(passage, 13, keep=keep))
    Where is Mary ? ||| Mary left . Tom sang .
    Where is Mary ? ||| Mary is home . Tom slept .
    Where is Mary ? ||| Mary left . Mary is home .
    """
    words = {word.lower() for word in passage.question}
    shared = [len(words & {word.lower() for word in sentence if word[0].isalnum()}) for sentence in passage.sentences]
    ranks = {"first": lambda place: place, "last": lambda place: -place, "overlap": lambda place: -shared[place]}
    kept, left = [], room - len(passage.question)
    for place in sorted(range(len(passage.sentences)), key=ranks[keep]):
        if len(passage.sentences[place]) > left:
            break
        kept.append(place)
        left -= len(passage.sentences[place])
    if not kept:
        best = min(range(len(passage.sentences)), key=ranks[keep])
        return Passage(passage.question, (passage.sentences[best][:left],))
    return Passage(passage.question, tuple(passage.sentences[place] for place in sorted(kept)))


def as_tokens(rows: Sequence[np.ndarray]) -> np.ndarray:
    """(S,2): words and segments of the question and the sentences, both in their order.

    >>> as_tokens([np.array([9, 8]), np.array([4]), np.array([5, 6])]).tolist()
    [[9, 0], [8, 0], [4, 2], [5, 1], [6, 1]]
    """
    distances = [0, *range(len(rows) - 1, 0, -1)]
    return np.stack([np.concatenate(rows), np.repeat(distances, [len(row) for row in rows])], axis=1)


def as_sentences(rows: Sequence[np.ndarray]) -> np.ndarray:
    """(S,W): the question, then the sentences from the last to the first, padded with 0.

    >>> as_sentences([np.array([9, 8]), np.array([4]), np.array([5, 6])]).tolist()
    [[9, 8], [5, 6], [4, 0]]
    """
    source = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for place, row in enumerate((rows[0], *rows[:0:-1])):
        source[place, : len(row)] = row
    return source
