"""Sets of labels, and the probabilities that they were chosen by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

Labels = tuple[str, ...]


class ScoredLabels(Labels):
    """Labels with the probability of every label in `probabilities`, where the search gives them."""

    probabilities: Mapping[str, float] = MappingProxyType({})


def above(names: Sequence[str], scores: np.ndarray, threshold: float, *, allow_empty: bool = False) -> Labels:
    """The labels whose score exceeds the threshold, best first; the best alone if none does and one must be.

    >>> above(["a", "b", "c"], np.array([0.2, 0.7, 0.6]), 0.5), above(["a", "b"], np.array([0.2, 0.1]), 0.5)
    (('b', 'c'), ('a',))
    """
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    chosen = tuple(names[place] for place in order if scores[place] > threshold)
    return chosen or (() if allow_empty else (names[order[0]],))
