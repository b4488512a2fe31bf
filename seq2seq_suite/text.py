"""What separates words, and what makes texts equal, whatever the script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

BLANKS = " \t\r\n"  # what separates tokens; other spaces, such as U+00A0 and U+3000, belong to a token
_TOKEN = re.compile(f"[^{BLANKS}]+")


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
