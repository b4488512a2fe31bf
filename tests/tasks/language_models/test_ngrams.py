"""Kneser-Ney smoothing against the formula, written as a recursion over all counts."""

import itertools
from collections import Counter

import pytest

from seq2seq_suite.common.types import BEGIN, END
from seq2seq_suite.tasks.language_models.ngrams import DISCOUNT, Ngrams

OUTPUTS, SYMBOLS = [[4, 5, 4, 5, 6], [4, 5], [6, 6, 4], [], [5]], 8


def made(order):
    ngrams = Ngrams(order)
    ngrams.count(OUTPUTS, symbols=SYMBOLS)
    return ngrams


def by_formula(order, history, symbol):
    """p(symbol | history), tuples counted one by one."""
    padded = [(*[BEGIN] * (order - 1), *output, END) for output in OUTPUTS]
    counts = Counter(row[at : at + order] for row in padded for at in range(len(row) - order + 1))

    def smoothed(counts, history):
        lower = Counter(ngram[1:] for ngram in counts)
        below = smoothed(lower, history[1:]) if history else 1 / SYMBOLS
        behind = {ngram: count for ngram, count in counts.items() if ngram[:-1] == history}
        if not behind:
            return below
        own = max(counts[(*history, symbol)] - DISCOUNT, 0.0) + DISCOUNT * len(behind) * below
        return own / sum(behind.values())

    return smoothed(counts, history)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_probabilities_are_those_of_the_formula_and_sum_to_one(order):
    ngrams = made(order)
    for history in itertools.product((BEGIN, 4, 5, 6, 7), repeat=order - 1):
        found = [ngrams.probability(history, symbol) for symbol in range(SYMBOLS)]
        assert found == pytest.approx([by_formula(order, history, symbol) for symbol in range(SYMBOLS)])
        assert sum(found) == pytest.approx(1.0) and min(found) > 0.0


def test_the_beginning_of_an_output_and_what_is_long_gone_are_histories_too():
    trigrams = made(3)
    assert trigrams.probability((), 4) == trigrams.probability((BEGIN, BEGIN), 4)
    assert trigrams.probability((4,), 5) == trigrams.probability((BEGIN, 4), 5)
    assert trigrams.probability((7, 6, 4, 5), 4) == trigrams.probability((4, 5), 4)


def test_counts_survive_saving_and_new_ones_take_the_place_of_old_ones(tmp_path):
    made(3).save(tmp_path)
    other = Ngrams(3)
    other.load(tmp_path)
    assert other.probability((4, 5), 4) == made(3).probability((4, 5), 4)
    other.count([[7, 7]], symbols=SYMBOLS)
    assert other.probability((7,), 7) > 0.2 > made(3).probability((7,), 7)
    empty = Ngrams(3)
    empty.load(tmp_path / "nowhere")
    assert not empty.symbols
