"""Schemes in which tags mark spans: each is recognised by its letters, and any other is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from seq2seq_suite.common.errors import DataError, repr_short

# name -> its letters, and what those are in BIOES that it calls otherwise; IOB is IOB1 or IOB2, IOE likewise
_SCHEMES: dict[str, tuple[str, dict[str, str]]] = {
    "IOB": ("BIO", {}),
    "IOE": ("IEO", {}),
    "BIOES": ("BIOES", {}),
    "BILOU": ("BILOU", {"L": "E", "U": "S"}),
    "BMES": ("BMESO", {"M": "I"}),
    "BMEWO": ("BMEWO", {"M": "I", "W": "S"}),
}
_TAG = re.compile(r"(?:O|([BIESLUMW])(-.+)?)", re.DOTALL)
_FOREIGN = (
    (r"[^-]{2,}-[BIESLUMWO]", "has its letter behind the kind"),
    (r"[bieslumw]-.+|o", "has a small letter"),
    (r"[BIESLUMW][_/+:.|].+", "has no '-' between letter and kind"),
)
Placed = tuple[Sequence[str], Mapping[str, Any]]  # a sentence's tags, and where it is, as a DataError takes it


def scheme_of(sentences: Iterable[Placed], letters: set[str] | None = None) -> str:
    """The scheme of all sentences' tags.

    Args:
        sentences: their tags and places.
        letters: found before, and then with those of the sentences: of other splits of the same data.

    Raises:
        DataError: at the first sentence with a tag of no span, or whose tags are of another scheme than those before.

    >>> scheme_of([(["B-PER", "L-PER"], {}), (["U-LOC", "O"], {})]), scheme_of([(["I-PER", "B-PER"], {})])
    ('BILOU', 'IOB')
    """
    letters = set() if letters is None else letters
    name = _fitting(letters)
    for tags, place in sentences:
        new = set(map(_letters, tags)) - letters
        wrong = next((tag for tag in tags if not _letters(tag)), None)
        if wrong is not None:
            reason = next((why for pattern, why in _FOREIGN if re.fullmatch(pattern, wrong)), "marks no span")
            raise DataError(
                f"the tag {repr_short(wrong)} {reason}",
                **place,
                expected=f"O and tags such as B-PER, in one of the schemes {', '.join(_SCHEMES)}",
                remedy="convert the tags, or set tagging.spans=false",
            )
        letters |= new
        name = _fitting(letters)
        if not name:
            mixed = f"{' '.join(sorted(letters - new))} and {' '.join(sorted(new))}"
            raise DataError(
                f"the tags mix schemes: {mixed}",
                **place,
                expected=f"one of {', '.join(_SCHEMES)}, all tags with a kind or none",
                remedy="convert the tags, or set tagging.spans=false",
            )
    return name


def as_bioes(tags: Sequence[str], scheme: str) -> list[str]:
    """The same tags in letters that seqeval knows.

    >>> as_bioes(["B-PER", "L-PER", "O", "U-LOC"], "BILOU")
    ['B-PER', 'E-PER', 'O', 'S-LOC']
    """
    other = _SCHEMES[scheme][1]
    return [other.get(tag[:1], tag[:1]) + tag[1:] for tag in tags]


@lru_cache(maxsize=10_000)
def _letters(tag: str) -> str:
    """A tag's letter, with a dash where a kind follows; empty for what is no tag of a span."""
    match = _TAG.fullmatch(tag)
    return "" if match is None else f"{match[1]}-" if match[2] else tag


def _fitting(letters: set[str]) -> str:
    """The first scheme with these letters, all with kinds or all without; empty if there is none."""
    if len({letter.endswith("-") for letter in letters - {"O"}}) > 1:
        return ""
    plain = {letter.rstrip("-") for letter in letters}
    return next((name for name, (known, _) in _SCHEMES.items() if plain <= set(known)), "")
