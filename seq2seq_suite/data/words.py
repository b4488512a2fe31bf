"""Splits text into words, and encodes words for the `Words` front-end."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import regex

from seq2seq_suite.common.text import LETTER, OTHER, SIGN
from seq2seq_suite.common.types import BEGIN, END
from seq2seq_suite.data.vocabulary import Vocabulary

_WORD = regex.compile(
    rf"(?:(?![\p{{Nd}}_]){LETTER}\.){{2,}}|{SIGN}|{LETTER}++(?:['’.,·״׳\-]{LETTER}++)*+|{OTHER}", regex.V1
)
_OLD_WORD = re.compile(r"(?:[^\W\d_]\.){2,}|\w+(?:['’.,\-]\w+)*|[^\w\s]")


def split_words(text: str, *, lower_case: bool, marks: bool = True) -> tuple[str, ...]:
    """Words and punctuation marks of a text; marks inside a word or number stay in it,
    and so do the stops of an abbreviation such as U.S.

    Args:
        text: to split.
        lower_case: whether it is lower-cased.
        marks: whether words keep combining marks and joiners, and scripts without blanks are read sign by sign;
            False as runs did that know no `data.unicode`.

    >>> split_words("Shr 3.09 dlrs, isn't it? :)", lower_case=True)
    ('shr', '3.09', 'dlrs', ',', "isn't", 'it', '?', ':', ')')
    >>> split_words("U.S.-Japan talks . End.", lower_case=False)
    ('U.S.', '-', 'Japan', 'talks', '.', 'End', '.')
    >>> split_words("हिन्दी में 北京 café 👍🏽", lower_case=True)
    ('हिन्दी', 'में', '北', '京', 'café', '👍🏽')
    """
    return tuple((_WORD if marks and not text.isascii() else _OLD_WORD).findall(text.lower() if lower_case else text))


def encode_words(
    words: Sequence[str], vocabulary: Vocabulary, *, characters: Vocabulary | None = None, max_characters: int = 0
) -> np.ndarray:
    """(S+2, 1+C) int64: each word's type and letters, between a sentinel at either end.

    Args:
        words: S of them.
        vocabulary: of word types.
        characters: of letters; None reads words by their types alone, C is then 0.
        max_characters: letters kept of a word; of a longer one the first and the last ones.

    >>> vocabulary = Vocabulary.build(["red", "cat"])
    >>> encode_words(["red", "dog"], vocabulary).tolist()
    [[1], [5], [3], [2]]
    >>> encode_words(["red"], vocabulary, characters=Vocabulary.build("cader"), max_characters=2).tolist()
    [[1, 0, 0], [5, 8, 6], [2, 0, 0]]
    """
    longest = min(max_characters, max(map(len, words), default=0)) if characters is not None else 0
    source = np.zeros((len(words) + 2, 1 + longest), dtype=np.int64)
    source[0, 0], source[-1, 0] = BEGIN, END
    source[1:-1, 0] = vocabulary.encode(words)
    if characters is not None and longest:
        for row, word in enumerate(words, 1):
            ends = word if len(word) <= longest else word[: longest - longest // 2] + word[len(word) - longest // 2 :]
            letters = characters.encode(ends)
            source[row, 1 : 1 + len(letters)] = letters
    return source
