"""Spaces and Unicode normalisation: word separation and equality of texts in any script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import regex

BLANKS = " \t\r\n"  # what separates tokens; other spaces, such as U+00A0 and U+3000, belong to a token
_TOKEN = regex.compile(f"[^{BLANKS}]+")
# Patterns of `regex`, version 1. Scripts without blanks between words: Chinese, Japanese, Tibetan, and those of South
# East Asia that Unicode's line breaking leaves to dictionaries (Thai, Lao, Khmer, Burmese, ...).
UNSPACED = (
    r"[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}"
    r"\p{Tibetan}\p{LB=SA}]"
)
SIGN = rf"(?={UNSPACED})\X"  # one of these with its marks
LETTER = rf"[[\p{{L}}\p{{N}}\p{{M}}_\u00ad\u200c\u200d]--{UNSPACED}]"  # of a word, with marks and joiners
OTHER = r"(?![\s\x1c-\x1f])\X"  # what people see as one sign, such as an emoji of several code points
_UNSPACED = regex.compile(UNSPACED)
_COUNTED = regex.compile(rf"{SIGN}|(?:(?!{UNSPACED})\S)+")


def split_blanks(text: str) -> list[str]:
    """The tokens between ASCII blanks, tabs and line ends.

    Differs: `str.split` also splits at the spaces, separators and control characters that Unicode has.

    >>> split_blanks(" 10\\u00a0000 dogs\\tsleep\\n")
    ['10\\xa0000', 'dogs', 'sleep']
    """
    return _TOKEN.findall(text)


def composed(value: Any) -> Any:
    """A value with all texts within lists and mappings in NFC: as few code points as Unicode has for them.

    Source: Unicode Standard Annex 15, form C.

    >>> composed({"words": ["e\u0301te\u0301", 3]})
    {'words': ['été', 3]}
    """
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {composed(key): composed(inner) for key, inner in value.items()}
    return type(value)(map(composed, value)) if type(value) in (list, tuple) else value


def has_unspaced(text: str) -> bool:
    """Whether a sign of a script without blanks between words is in a text."""
    return _UNSPACED.search(text) is not None


def tokens_of(text: str) -> list[str]:
    """What is between blanks of any kind; in scripts without blanks each sign, with its marks, is a token of its own.

    Source: Cui et al. 2019 (CMRC 2018), section 4; Lewis et al. 2020 (MLQA), section 4, for bags of such tokens;
    Unicode Standard Annex 29 for signs with their marks.

    >>> tokens_of("in 北京 2008年 カフェ"), tokens_of("ที่นี่")
    (['in', '北', '京', '2008', '年', 'カ', 'フ', 'ェ'], ['ที่', 'นี่'])
    """
    return _COUNTED.findall(text)


def slug(text: str) -> str:
    """A name for a directory.

    >>> slug("post-norm, no warm-up")
    'post-norm_no_warm-up'
    """
    return re.sub(r"[^\w.=-]+", "_", text) or "run"
