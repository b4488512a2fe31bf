"""Exact match and token F1 of short answers, as in SQuAD's evaluation script; scripts without blanks by signs."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import regex

from seq2seq_suite import __version__
from seq2seq_suite.common.examples import Score
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.common.text import composed, tokens_of
from seq2seq_suite.metrics.names import numbered

FAILED_ABOVE = 5.0  # percent of wrong answers above which a task of bAbI counts as failed (Weston et al. 2015)
_ARTICLES = regex.compile(r"(?<![\p{L}\p{N}\p{M}_])(?:a|an|the)(?![\p{L}\p{N}\p{M}_])")
_WIDE = (chr(code) for block in (range(0x3000, 0x3100), range(0xFF00, 0xFFF0)) for code in block)
_NUMBER = re.compile(r"[-+]?\d+(?:[.,/:]\d+)*")  # signs inside it matter
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")  # commas that do not
_WITHOUT_PUNCTUATION = str.maketrans(
    "", "", string.punctuation + "".join(sign for sign in _WIDE if unicodedata.category(sign).startswith("P"))
)


@dataclass(frozen=True)
class Gold:
    """The right answers to a question, any of which counts.

    Args:
        answers: at least one; a model learns the first.
        category: what kind of question it is, empty for none.
    """

    answers: tuple[str, ...]
    category: str = ""


def normalise(answer: str) -> str:
    """NFC, lower case, without ASCII and CJK punctuation, without a, an and the, single spaces.

    Source: Rajpurkar et al. 2016, section 6.1, and `normalize_answer` of SQuAD's script, version 1.1.
    Differs: it keeps CJK punctuation; Lewis et al. 2020 (MLQA, section 4) strip all that Unicode has.

    >>> normalise("The  Cat's whiskers, (an answer)!"), normalise("「北京」。")
    ('cats whiskers answer', '北京')
    """
    return " ".join(_ARTICLES.sub(" ", composed(answer.lower()).translate(_WITHOUT_PUNCTUATION)).split())


def token_f1(prediction: str, answer: str) -> float:
    """F1 of the two bags of normalised tokens, from 0 to 1.

    Source: Rajpurkar et al. 2016, section 6.1.
    Differs: if nothing is left of one of them it is 1 where nothing is left of the other either, else 0: so the
    script of SQuAD 2.0 has it, where that of 1.1 gives 0 in both cases and F1 could fall below exact match.

    >>> token_f1("the big cat", "a big brown cat"), token_f1("the", "a"), token_f1("dog", "cat")
    (0.8, 1.0, 0.0)
    """
    given, wanted = tokens_of(normalise(prediction)), tokens_of(normalise(answer))
    if not given or not wanted:
        return float(given == wanted)
    shared = sum((Counter(given) & Counter(wanted)).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def answer_scores(predictions: Sequence[str | None], references: Sequence[Gold]) -> Score:
    """Exact match and F1 in percent: the best over a question's right answers, the mean over questions.

    Args:
        predictions: an answer for each question; None for none, which is always wrong.
        references: the right answers.

    Returns:
        A score with `figures`
        `exact_match`, `f1`: means over questions;
        `category_exact_match`: mean over categories of their exact match, whatever their sizes;
        `failed_categories`: how many have more than 5 % wrong answers;
        `invalid_rate`: percent of predictions that are None.
        `details` has `categories`: name -> questions, exact_match, f1, failed; and `failed`: the names of those.
        Questions without a category are one category, named `all`.

    Raises:
        ValueError: the sequences differ in length.

    Source: Rajpurkar et al. 2016, section 6.1; Weston et al. 2015 for the mean over tasks and failed tasks.

    >>> score = answer_scores(["The kitchen", "two"], [Gold(("kitchen",), "where"), Gold(("three", "3"), "count")])
    >>> score.figures["exact_match"], score.details["failed"]
    (50.0, ['count'])
    """
    scores = [_best(prediction, gold.answers) for prediction, gold in zip(predictions, references, strict=True)]
    rows = grouped((gold.category or "all", row) for row, gold in zip(scores, references, strict=True))
    categories = {name: _summary(rows[name]) for name in sorted(rows, key=natural)}
    total = _summary([row for found in rows.values() for row in found])
    failed = [name for name, summary in categories.items() if summary["failed"]]
    figures = {
        "exact_match": total["exact_match"],
        "f1": total["f1"],
        "category_exact_match": _mean([summary["exact_match"] for summary in categories.values()]),
        "failed_categories": float(len(failed)),
        "invalid_rate": 100.0 * _mean([float(prediction is None) for prediction in predictions]),
    }
    signature = (
        "squad|norm:nfc+lower+punctuation+articles|unspaced:signs|golds:max|empty:as_v2"
        f"|failed:>{FAILED_ABOVE:g}%|version:{__version__}"
    )
    return Score(
        figures,
        signature,
        {"categories": categories, "failed": failed},
        formula="mean",
        counts=tuple((exact, 1.0) for exact, _ in scores),
        notes=tuple(_alike(predictions, references, scores)),
    )


def _alike(
    predictions: Sequence[str | None], references: Sequence[Gold], scores: Sequence[tuple[float, float]]
) -> list[str]:
    """A note on answers that count as right, although letters, digits or signs of numbers differ or nothing is left.

    >>> _alike(["3.14", "the", "A cat."], [Gold(("314",)), Gold(("A",)), Gold(("the cat",))], [(1.0, 1.0)] * 3)[0][:55]
    "2 answers count as right by SQuAD's normalisation alone"
    """

    def signs(text: str) -> tuple[str, list[str]]:
        return normalise(text), _NUMBER.findall(_THOUSANDS.sub("", text))

    found = [
        place
        for place, (given, gold, (exact, _)) in enumerate(zip(predictions, references, scores, strict=True))
        if exact
        and given is not None
        and not any(signs(given) == signs(answer) and (normalise(given) or given == answer) for answer in gold.answers)
    ]
    return (
        [
            f"{len(found):,} answers count as right by SQuAD's normalisation alone, which drops articles, points and "
            f"signs (3.14 is 314, A is the): {numbered(found)}"
        ]
        if found
        else []
    )


def _best(prediction: str | None, answers: Sequence[str]) -> tuple[float, float]:
    if prediction is None:
        return 0.0, 0.0
    exact = max(float(normalise(prediction) == normalise(answer)) for answer in answers)
    return exact, max(token_f1(prediction, answer) for answer in answers)


def _summary(rows: Sequence[tuple[float, float]]) -> dict[str, Any]:
    exact = 100.0 * _mean([row[0] for row in rows])
    return {
        "questions": len(rows),
        "exact_match": exact,
        "f1": 100.0 * _mean([row[1] for row in rows]),
        "failed": 100.0 - exact > FAILED_ABOVE,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """An order in which task 10 follows task 9.

    >>> sorted(["10", "9", "1b"], key=natural)
    ['1b', '9', '10']
    """
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"[0-9]+|[^0-9]+", name))
