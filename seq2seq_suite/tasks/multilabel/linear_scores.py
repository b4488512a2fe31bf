"""Scores of a linear classifier for each label, as a front-end that must be declared: out of fold in training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_suite.files import read_arrays
from seq2seq_suite.types import DataError

_ABSENT = -1.0  # of a label without examples on both sides


class LinearScores:
    """TF-IDF and a support vector machine for each label.

    A text of the training split gets the scores of machines that did not see it: those of machines that did look
    perfect, and a network that reads them learns to trust nothing else. Other texts get the scores of machines trained
    on the whole split. Which is which goes by the texts' origins.

    Args:
        folds: parts that the training split is cut into, at least 2.
        strength: C of the machines.
        ngrams: longest n-gram.
        title: weight of a second TF-IDF, of the words before a text's first full stop; 0 for none.
        seed: of the division into folds.

    Source: stacked generalisation, Wolpert 1992.
    """

    def __init__(self, *, folds: int, strength: float, ngrams: int, title: float = 0.0, seed: int = 1):
        self.folds, self.strength, self.ngrams, self.title, self.seed = folds, strength, ngrams, title, seed
        self._own: dict[str, np.ndarray] = {}
        self._weights = self._bias = np.zeros(0)

    def fit(self, texts: Sequence[Sequence[str]], origins: Sequence[str], wanted: np.ndarray) -> None:
        """Train on the training split.

        Args:
            texts: words of each text.
            origins: where each text came from.
            wanted: (texts, labels) of 0 and 1.

        Raises:
            DataError: two texts have one origin, there are fewer texts than folds, or no word occurs twice.
        """
        if len(set(origins)) < len(origins) or len(texts) < self.folds:
            raise DataError(f"{len(texts)} texts of {len(set(origins))} origins",
                            expected=f"texts of different origins, at least multilabel.linear_folds={self.folds}")
        try:
            self._vectorizers = [self._new_vectorizer(min_df=2).fit(view) for view in self._views(texts)]
        except ValueError as problem:
            raise DataError(f"linear classifiers cannot read the texts: {problem}",
                            expected="words that occur in two texts", remedy="set multilabel.linear_scores=false"
                            ) from problem
        matrix = self._matrix(texts)
        fold = np.random.Generator(np.random.PCG64(self.seed)).permutation(len(texts)) % self.folds
        own = np.zeros(wanted.shape, dtype=np.float32)
        for number in range(self.folds):
            inside = fold != number
            weights, bias = self._machines(matrix[inside], wanted[inside])
            own[~inside] = matrix[~inside] @ weights.T + bias
        self._own = dict(zip(origins, own, strict=True))
        self._weights, self._bias = self._machines(matrix, wanted)

    def scores(self, texts: Sequence[Sequence[str]], origins: Sequence[str]) -> np.ndarray:
        """(texts, labels) float32."""
        matrix = self._matrix(texts)
        found = (matrix @ self._weights.T + self._bias).astype(np.float32)
        for row, origin in enumerate(origins):
            if origin in self._own:
                found[row] = self._own[origin]
        return found

    def save(self, path: Path) -> None:
        """Write all as plain arrays."""
        kept = {"weights": self._weights, "bias": self._bias, "origins": np.array(list(self._own)),
                "own": np.stack(list(self._own.values()))}
        for number, one in enumerate(self._vectorizers):
            kept[f"terms{number}"] = np.array(sorted(one.vocabulary_, key=one.vocabulary_.get))
            kept[f"idf{number}"] = one.idf_
        np.savez_compressed(path, **kept)

    def load(self, path: Path, *, labels: int) -> None:
        """Read what `save` wrote, of so many labels.

        Raises:
            DataError: the file is missing or of another kind.
        """
        remedy = "train again with multilabel.linear_scores=true"
        kept = read_arrays(path, remedy=remedy)
        try:
            self._vectorizers, terms = [], 0
            for number in range(2 if self.title else 1):
                self._vectorizers.append(self._new_vectorizer(vocabulary=kept[f"terms{number}"].tolist()))
                self._vectorizers[-1].idf_ = kept[f"idf{number}"]
                terms += len(kept[f"idf{number}"])
            self._weights, self._bias, own = (kept[name] for name in ("weights", "bias", "own"))
            for array, shape in ((self._weights, (labels, terms)), (self._bias, (labels,)), (own, (len(own), labels))):
                if array.shape != shape or array.dtype != np.float32 or not np.isfinite(array).all():
                    raise ValueError(f"an array of {array.shape} {array.dtype} for finite numbers of {shape}")
            self._own = dict(zip(kept["origins"].tolist(), own, strict=True))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise DataError(f"no linear scores can be read: {problem}", file=str(path), remedy=remedy) from problem

    def _views(self, texts: Sequence[Sequence[str]]) -> list[list[str]]:
        """What each vectorizer reads: the texts, and where wanted their titles."""
        whole = [" ".join(words) for words in texts]
        return [whole, [text.partition(" . ")[0] for text in whole]] if self.title else [whole]

    def _matrix(self, texts: Sequence[Sequence[str]]) -> Any:
        from scipy.sparse import hstack

        parts = [vectorizer.transform(view)
                 for vectorizer, view in zip(self._vectorizers, self._views(texts), strict=True)]
        return hstack([parts[0], self.title * parts[1]]).tocsr() if self.title else parts[0]

    def _new_vectorizer(self, **options: Any) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        return TfidfVectorizer(sublinear_tf=True, lowercase=False, token_pattern=r"\S+", ngram_range=(1, self.ngrams),
                               **options)

    def _machines(self, matrix: Any, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.svm import LinearSVC

        weights = np.zeros((wanted.shape[1], matrix.shape[1]), dtype=np.float32)
        bias = np.full(wanted.shape[1], _ABSENT, dtype=np.float32)
        for label, column in enumerate(wanted.T):
            if column.min() < column.max():
                machine = LinearSVC(C=self.strength, random_state=self.seed).fit(matrix, column)
                weights[label], bias[label] = machine.coef_[0], machine.intercept_[0]
        return weights, bias
