"""How two texts differ, word by word."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import regex

from seq2seq_suite.common.text import LETTER, OTHER, SIGN
from seq2seq_suite.tasks.charts.common import panel
from seq2seq_suite.tasks.presentation import Judgement

_WORDS = regex.compile(rf"{SIGN}|{LETTER}++(?:['’-]{LETTER}++)*+|{OTHER}", regex.V1)


def words_of(text: str) -> list[str]:
    """Words and single signs, whatever the blanks between them; in scripts without blanks a sign is a word.

    >>> words_of("Anna's dog, 狗。")
    ["Anna's", 'dog', ',', '狗', '。']
    """
    return _WORDS.findall(text)


def judge_words(prediction: str | None, reference: str, *, lower_case: bool = False) -> Judgement:
    """Texts are equal if their words and signs are, whatever the blanks; and their case, with `lower_case`.

    Kinds, the one of most words first:

    missing, added: words of the reference (of the output) that have no place in the other.
    repeated: added words that equal those before them, one to four at a time.
    order: the same words elsewhere.
    substituted: other words at the place.

    >>> for output in ("an old dog ran .", "the dog ran.", "the old dog ran ran.", "dog old the ran.", ""):
    ...     print(judge_words(output, "the old dog ran.").kinds)
    ('substituted',)
    ('missing',)
    ('repeated',)
    ('order',)
    ('empty',)
    """
    if prediction is None:
        return Judgement(False, ("malformed",))
    gold, found = (words_of(text.lower() if lower_case else text) for text in (reference, prediction))
    if gold == found:
        return Judgement(True)
    if not found:
        return Judgement(False, ("empty",))
    kinds: Counter[str] = Counter()
    differences: list[tuple[list[str], list[str]]] = []
    for kind, *(first, last, start, end) in difflib.SequenceMatcher(None, gold, found, autojunk=False).get_opcodes():
        if kind == "insert" and any(
            found[start:end] == found[start - size : start] * ((end - start) // size)
            for size in range(1, 5)
            if size <= start and (end - start) % size == 0
        ):
            kinds["repeated"] += end - start
        elif kind != "equal":
            differences.append((gold[first:last], found[start:end]))
    missed, added = (Counter(word for pair in differences for word in pair[side]) for side in (0, 1))
    moved = missed & added
    kinds["order"] = moved.total()
    left = (moved.copy(), moved.copy())
    for pair in differences:
        lost, more = (sum(not _pop(word, counts) for word in words) for words, counts in zip(pair, left, strict=True))
        kinds += Counter(substituted=min(lost, more), missing=lost - more, added=more - lost)
    return Judgement(False, tuple(kind for kind, count in kinds.most_common() if count))


def _pop(word: str, counts: Counter[str]) -> bool:
    """Whether the word is still among the counted ones; takes one of it off."""
    counts[word] -= 1
    return counts[word] >= 0


def lengths(references: Sequence[str], predictions: Sequence[str | None]) -> dict[str, Any]:
    """The words of each output against those of its reference, as many outputs at a point as its `n` says."""
    counts = Counter(
        (len(words_of(reference)), len(words_of(prediction or "")))
        for reference, prediction in zip(references, predictions, strict=True)
    )
    return panel(
        "scatter",
        "Length of the output",
        "Are outputs too short or too long?",
        x="words in the reference",
        y="words in the output",
        diagonal=True,
        series=[
            {
                "name": "",
                "role": "predicted",
                "points": [[*point, None, None, n] for point, n in sorted(counts.items())],
            }
        ],
    )
