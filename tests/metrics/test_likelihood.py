"""Figures of language models by their definitions."""

import math

import pytest

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.metrics.likelihood import score_likelihood


def test_figures_are_those_of_the_definition():
    score = score_likelihood([-2.0, -3.0], ["ab cd", "e"], context="x")
    assert score.figures["bits_per_character"] == pytest.approx(5.0 / math.log(2) / 6)
    assert score.figures["word_perplexity"] == pytest.approx(math.exp(5.0 / 3))
    assert score.counts == ((pytest.approx(2 / math.log(2)), 5), (pytest.approx(3 / math.log(2)), 1))
    assert score_likelihood([None], ["a"], context="x").figures["bits_per_character"] == math.inf
    assert score_likelihood([-1000.0], ["a"], context="x").figures["word_perplexity"] == math.inf
    with pytest.raises(ValueError, match="longer"):
        score_likelihood([-1.0], ["a", "b"], context="x")
    for logs, texts in (([-1.0], [" "]), ([], [])):
        with pytest.raises(DataError, match="have no word"):
            score_likelihood(logs, texts, context="x")


def test_a_character_is_one_however_many_bytes_it_has():
    score = score_likelihood([-6.0 * math.log(2)], ["né 我们"], context="x")
    assert score.figures["bits_per_character"] == pytest.approx(6 / 5) and score.counts[0][1] == 5.0
