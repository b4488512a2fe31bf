"""The scripts of texts, as far as metrics depend on them."""

from __future__ import annotations

from collections.abc import Sequence

import regex

# SA: Thai, Lao, Khmer, Burmese and the like.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Line_Break=SA}\p{Tibetan}"  # no blanks between words
_LETTER = regex.compile(r"[\p{L}\p{M}]")
_SCRIPTS = {
    name: regex.compile(rf"(?=[\p{{L}}\p{{M}}])[{of}]")
    for name, of in (
        ("Unspaced", UNSPACED),
        ("Han", r"\p{Han}"),
        ("Hangul", r"\p{Hangul}"),
        ("Japanese", r"\p{Han}\p{Hiragana}\p{Katakana}"),
    )
}
_ENOUGH = 2000  # texts


def share(texts: Sequence[str], script: str) -> float:
    """The share of the letters and marks of the first texts that are of a script, 0 to 1.

    Args:
        texts: any.
        script: Unspaced (all that have no blanks between words), Han, Hangul or Japanese (Han and kana).

    >>> share(["Hund 狗"], "Han"), share(["สุนัข"], "Unspaced"), share([], "Han")
    (0.2, 1.0, 0.0)
    """
    text = " ".join(texts[:_ENOUGH])
    return len(_SCRIPTS[script].findall(text)) / max(1, len(_LETTER.findall(text)))
