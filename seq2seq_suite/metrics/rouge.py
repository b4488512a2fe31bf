"""ROUGE: the n-grams that a summary shares with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import regex

from seq2seq_suite.common.examples import Score
from seq2seq_suite.common.lazy_imports import need
from seq2seq_suite.metrics.names import numbered
from seq2seq_suite.metrics.scripts import UNSPACED

_NAMES = {"rouge1": "rouge1", "rouge2": "rouge2", "rougeL": "rouge_l"}  # Google's name -> ours


_WORD = regex.compile(
    rf"(?=[\p{{L}}\p{{M}}\p{{N}}])[{UNSPACED}]\p{{M}}*"  # a sign of a script without blanks, its marks with it
    rf"|(?:(?![{UNSPACED}])[\p{{L}}\p{{M}}\p{{N}}\u200c\u200d])+"  # a word, with marks and joiners
    rf"|(?![\x00-\x7f])\p{{S}}"
)  # such as an emoji
_STEMMED_ABOVE = 3  # letters, as in rouge-score


class Words:
    """Splits a text of any script into words, in lower case and stemmed if they are of ASCII letters.

    ASCII text has the words that Google's rouge-score finds; where words have no blanks between, each sign is one. A
    text of punctuation alone has its signs.

    >>> Words().tokenize("Cats, SLEEPING!"), Words().tokenize("हिन्दी में पढ़ना"), Words().tokenize("犬が 2008")
    (['cat', 'sleep'], ['हिन्दी', 'में', 'पढ़ना'], ['犬', 'が', '2008'])
    """

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self._stem = PorterStemmer().stem

    def tokenize(self, text: str) -> list[str]:
        """The words."""
        text = text.lower().replace("\u00ad", "")  # a soft hyphen
        words = _WORD.findall(text) or regex.findall(r"\S", text)
        return [self._stem(word) if word.isascii() and len(word) > _STEMMED_ABOVE else word for word in words]


def rouge(predictions: Sequence[str | None], references: Sequence[str], *others: Sequence[str]) -> Score:
    """Mean F1 of unigrams, bigrams and the longest common subsequence, in percent; words are stemmed.

    Args:
        predictions: None for none.
        references: the summaries.
        others: further references of each; the best counts, for each figure.

    Raises:
        ConfigError: rouge-score is not installed.

    Source: Lin 2004, by Google's rouge-score.
    Differs: rouge-score's words are of the letters a to z and of digits, so that other scripts have none; see `Words`.

    >>> found = rouge(["the dog slept", None], ["the dog sleeps", "a cat"]).figures
    >>> [round(found[name], 2) for name in ("rouge1", "rouge2", "rouge_l")]
    [33.33, 25.0, 33.33]
    """
    need("rouge_score")
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(_NAMES), tokenizer=Words())
    found = [
        scorer.score_multi(texts, prediction or "")
        for prediction, *texts in zip(predictions, references, *others, strict=True)
    ]
    figures = {ours: 100.0 * sum(one[name].fmeasure for one in found) / len(found) for name, ours in _NAMES.items()}
    figures["empty_rate"] = 100.0 * sum(not prediction for prediction in predictions) / len(found)
    several = f"|nrefs:{1 + len(others)}" if others else ""
    return Score(
        figures,
        f"rouge|tok:unicode|stemmer:yes{several}|rouge-score:{version('rouge-score')}",
        counts=tuple((one["rouge2"].fmeasure, 1.0) for one in found),
        notes=tuple(complaints(references)),
    )


def complaints(references: Sequence[str]) -> list[str]:
    """A warning where references have no bigram.

    >>> complaints(["a cat", "cat"])
    ['1 of 2 references has fewer than two words, and so no bigram: ROUGE-2 is 0 there whatever the output: 2']
    """
    tokenize = Words().tokenize
    short = [place for place, text in enumerate(references) if len(tokenize(text)) < 2]
    have = "has" if len(short) == 1 else "have"
    return (
        [
            f"{len(short):,} of {len(references):,} references {have} fewer than two words, and so no bigram: ROUGE-2 "
            f"is 0 there whatever the output: {numbered(short)}"
        ]
        if short
        else []
    )
