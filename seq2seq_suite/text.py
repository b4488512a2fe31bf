"""What separates words and lines, whatever the script."""

from __future__ import annotations

import re

BLANKS = " \t\r\n"  # what separates tokens; other spaces, such as U+00A0 and U+3000, belong to a token
_TOKEN = re.compile(f"[^{BLANKS}]+")


def split_blanks(text: str) -> list[str]:
    """The tokens between ASCII blanks, tabs and line ends.

    Differs: `str.split` also splits at the spaces, separators and control characters that Unicode has.

    >>> split_blanks(" 10\\u00a0000 dogs\\tsleep\\n")
    ['10\\xa0000', 'dogs', 'sleep']
    """
    return _TOKEN.findall(text)
