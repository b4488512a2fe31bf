"""Metrics of language models that do not depend on their subwords."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seq2seq_suite import __version__
from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Score
from seq2seq_suite.common.text import tokens_of


def score_likelihood(log_probabilities: Sequence[float | None], texts: Sequence[str], *, context: str) -> Score:
    """Corpus metrics of texts under a model.

    bits_per_character = -sum log2 p(text) / characters       word_perplexity = exp(-sum log p(text) / words)

    Words are separated by spaces; of scripts without them each sign counts. Ends of texts have their probability in
    the sums, but are no characters.

    Args:
        log_probabilities: natural logarithm of each text's probability; one that is missing makes the figures infinite.
        texts: the same texts.
        context: how much of the preceding text a model sees, for the signature.

    Raises:
        DataError: the texts have no word.
        ValueError: there is not one for each text.

    >>> score_likelihood([-math.log(16.0)], ["ab c"], context="text").figures
    {'bits_per_character': 1.0, 'word_perplexity': 4.0}
    """
    characters, words = sum(map(len, texts)), sum(len(tokens_of(text)) for text in texts)
    if not words:
        raise DataError("the texts have no words", expected="a text on each line", remedy="fill the file")
    nats = [math.inf if value is None else -value for value in log_probabilities]
    bits = [value / math.log(2.0) for value in nats]
    figures = {"bits_per_character": sum(bits) / characters, "word_perplexity": _exp(sum(nats) / words)}
    return Score(
        figures,
        f"bpc|context:{context}|ends:counted|unspaced:signs|version:{__version__}",
        formula="ratio",
        counts=tuple((value, float(len(text))) for value, text in zip(bits, texts, strict=True)),
    )


def _exp(value: float) -> float:
    return math.exp(value) if value < 700.0 else math.inf
