"""Scores of linear classifiers: out of fold for the training split, in full for the rest."""

import numpy as np
import pytest

from seq2seq_suite.tasks.linear_scores import LinearScores
from seq2seq_suite.types import DataError

CHANCE = np.random.Generator(np.random.PCG64(1))
TEXTS = [("oil", "up", f"w{place}") if place % 2 else ("corn", "down", f"w{place}") for place in range(40)]
ORIGINS = [f"train:{place}" for place in range(40)]
WANTED = np.array([[place % 2, 0] for place in range(40)])


def fitted(wanted: np.ndarray = WANTED) -> LinearScores:
    linear = LinearScores(folds=4, strength=1.0, ngrams=1)
    linear.fit(TEXTS, ORIGINS, wanted)
    return linear


def test_texts_with_a_telling_word_are_told_apart_and_absent_labels_score_minus_one():
    scores = fitted().scores([("oil", "falls"), ("corn", "falls")], ["test:1", "test:2"])
    assert scores[0, 0] > 0 > scores[1, 0]
    assert scores[:, 1].tolist() == [-1.0, -1.0]


def test_random_labels_cannot_be_read_off_the_scores_of_the_texts_they_belong_to():
    """In-sample scores of noise would look right; out of fold they are no better than a guess."""
    texts = [tuple(f"w{CHANCE.integers(60)}" for _ in range(12)) for _ in range(200)]
    origins, wanted = [f"t:{place}" for place in range(200)], CHANCE.integers(0, 2, (200, 1))
    linear = LinearScores(folds=4, strength=10.0, ngrams=1)
    linear.fit(texts, origins, wanted)
    own, seen = (((linear.scores(texts, of) > 0) == wanted).mean() for of in (origins, ["elsewhere"] * 200))
    assert seen > 0.75 and own < 0.65


@pytest.mark.parametrize("title", [0.0, 0.5])
def test_scores_survive_saving(tmp_path, title):
    linear, other = (LinearScores(folds=4, strength=1.0, ngrams=2, title=title) for _ in range(2))
    linear.fit(TEXTS, ORIGINS, WANTED)
    linear.save(tmp_path / "linear.npz")
    other.load(tmp_path / "linear.npz")
    for origins in (ORIGINS, [f"test:{place}" for place in range(40)]):
        assert np.array_equal(linear.scores(TEXTS, origins), other.scores(TEXTS, origins))
    with pytest.raises(DataError, match="no linear scores"):
        other.load(tmp_path / "missing.npz")


def test_a_word_of_the_title_counts_for_more_than_the_same_word_below():
    titled, below = ("oil", ".", "news", "here"), ("news", ".", "oil", "here")
    rows = [titled, below] * 10
    linear = LinearScores(folds=2, strength=10.0, ngrams=1, title=0.5)
    linear.fit(rows, ORIGINS[:20], np.array([[1 - place % 2] for place in range(20)]))
    scores = linear.scores([titled, below], ["test:1", "test:2"])
    assert scores[0, 0] > 0 > scores[1, 0]
    plain = LinearScores(folds=2, strength=10.0, ngrams=1)
    plain.fit(rows, ORIGINS[:20], np.array([[1 - place % 2] for place in range(20)]))
    same = plain.scores([titled, below], ["test:1", "test:2"])
    assert same[0, 0] == pytest.approx(same[1, 0])


def test_texts_of_one_origin_are_refused():
    with pytest.raises(DataError, match="different origins"):
        LinearScores(folds=2, strength=1.0, ngrams=1).fit(TEXTS, ["same"] * 40, WANTED)
