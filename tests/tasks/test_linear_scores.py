"""Scores of linear classifiers: out of fold for the training split, in full for the rest."""

import numpy as np
import pytest

from seq2seq_suite.tasks.multilabel.linear_scores import LinearScores
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


def test_own_scores_come_from_machines_that_did_not_see_the_text_or_its_fold():
    changed = WANTED.copy()
    changed[7, 0] = 1 - changed[7, 0]
    before, after = (fitted(wanted).scores(TEXTS, ORIGINS)[:, 0] for wanted in (WANTED, changed))
    same = before == after
    assert same[7] and same.sum() == 10  # a quarter of the texts were in none of the machines that text 7 was in
    assert ((before > 0) == (WANTED[:, 0] == 1)).all() and (before != 0.0).all()
    elsewhere = [fitted(wanted).scores(TEXTS, ["new"] * 40)[7, 0] for wanted in (WANTED, changed)]
    assert elsewhere[0] != elsewhere[1] and elsewhere[0] != before[7]


@pytest.mark.parametrize("title", [0.0, 0.5])
def test_scores_of_other_texts_are_those_of_one_machine_of_all_texts(title):
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC

    linear = LinearScores(folds=4, strength=0.5, ngrams=2, title=title)
    rows = [*TEXTS[:36], *[("oil", ".", "corn", "down", ".", "oil"), ("Oil", "corn", "up", "up")] * 2]
    linear.fit(rows, ORIGINS, WANTED)
    readers = [TfidfVectorizer(sublinear_tf=True, lowercase=False, token_pattern=r"\S+", ngram_range=(1, 2), min_df=2)
               for _ in range(2)]

    def read(texts, *, learn: bool = False):
        views = [" ".join(words) for words in texts], [" ".join(words).split(" . ")[0] for words in texts]
        whole, first = ((one.fit_transform if learn else one.transform)(view)
                        for one, view in zip(readers, views, strict=True))
        return hstack([whole, title * first]).tocsr() if title else whole

    machine = LinearSVC(C=0.5, random_state=1).fit(read(rows, learn=True), WANTED[:, 0])
    new = [("oil", "oil", "up"), ("Oil", ".", "corn", "up", "w3"), ("corn", "up")]
    found = linear.scores(new, ["a", "b", "c"])
    np.testing.assert_allclose(found[:, 0], machine.decision_function(read(new)), rtol=1e-5)
    assert found.dtype == np.float32


@pytest.mark.parametrize(("texts", "got"), [
    (TEXTS[:3], "3 texts of 3 origins"), ([(f"w{place}",) for place in range(40)], "cannot read the texts")])
def test_too_few_texts_or_words_are_refused(texts, got):
    with pytest.raises(DataError, match=got):
        LinearScores(folds=4, strength=1.0, ngrams=1).fit(texts, ORIGINS[: len(texts)], WANTED[: len(texts)])


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
    other.load(tmp_path / "linear.npz", labels=2)
    for origins in (ORIGINS, [f"test:{place}" for place in range(40)]):
        assert np.array_equal(linear.scores(TEXTS, origins), other.scores(TEXTS, origins))
    with pytest.raises(DataError, match="for finite numbers of"):
        other.load(tmp_path / "linear.npz", labels=3)


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
