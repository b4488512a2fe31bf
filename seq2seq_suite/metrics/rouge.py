"""ROUGE: the n-grams that a summary shares with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from seq2seq_suite.lazy import need
from seq2seq_suite.types import Score

_NAMES = {"rouge1": "rouge1", "rouge2": "rouge2", "rougeL": "rouge_l"}  # Google's name -> ours


def rouge(predictions: Sequence[str | None], references: Sequence[str]) -> Score:
    """Mean F1 of unigrams, bigrams and the longest common subsequence, in percent; words are stemmed.

    Raises:
        ConfigError: rouge-score is not installed.

    Source: Lin 2004, by Google's rouge-score, whose words are those of the letters a to z and of digits.

    >>> found = rouge(["the dog slept", None], ["the dog sleeps", "a cat"]).figures
    >>> [round(found[name], 2) for name in ("rouge1", "rouge2", "rouge_l")]
    [33.33, 25.0, 33.33]
    """
    need("rouge_score")
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(_NAMES), use_stemmer=True)
    found = [scorer.score(reference, prediction or "")
             for reference, prediction in zip(references, predictions, strict=True)]
    figures = {ours: 100.0 * sum(one[name].fmeasure for one in found) / len(found) for name, ours in _NAMES.items()}
    figures["empty_rate"] = 100.0 * sum(not prediction for prediction in predictions) / len(found)
    return Score(figures, f"rouge|stemmer:yes|rouge-score:{version('rouge-score')}",
                 counts=tuple((one["rouge2"].fmeasure, 1.0) for one in found))
