"""Minimum-Bayes-risk decoding: of some candidates the one that all of them agree with most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import Hypothesis
from seq2seq_suite.metrics.significance import figures_of_items

if TYPE_CHECKING:
    from seq2seq_suite.tasks.base import Task


def by_risk(task: Task, example: Example, candidates: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The candidates of an example by falling mean utility, which becomes their score.

        y* = argmax_y 1/N sum_j u(y, y_j)

    u(y, y_j) is the task's primary metric of y with y_j in the place of its reference, in percent; of an error rate it
    is 100 minus that, or 0. It is 100 where both are equal, and 0 against an empty candidate. The sum has every
    candidate, y itself too, as often as it was found. Malformed candidates are in no sum and have the score 0. Equal
    utilities keep the order of the search.

    Args:
        task: of the metric.
        example: its reference is not looked at.
        candidates: in the order of the search.

    Source: Kumar & Byrne 2004, eq. 4 (n-best lists); Eikema & Aziz 2020, section 5 (samples); Freitag et al. 2022.
    Differs: the candidates of a beam count alike, not by their probabilities.
    """
    read = [task.read_hypothesis(one, example) for one in candidates]
    texts = [None if one is None else task.to_text(one) for one in read]
    outputs = {text: one for text, one in zip(texts, read, strict=True) if text is not None}
    counts = Counter(text for text in texts if text is not None)
    pairs = [(one, other) for one, other in permutations(outputs, 2) if other]
    found = dict(zip(pairs, _utilities(task, [(outputs[one], outputs[other]) for one, other in pairs]), strict=True))
    found |= {(one, one): 100.0 for one in outputs}
    means = {
        one: sum(count * found.get((one, other), 0.0) for other, count in counts.items()) / counts.total()
        for one in outputs
    }
    scored = [
        replace(one, score=0.0 if text is None else means[text]) for one, text in zip(candidates, texts, strict=True)
    ]
    return sorted(scored, key=lambda one: -one.score)


def _utilities(task: Task, pairs: Sequence[tuple[object, object]]) -> list[float]:
    """Of outputs with others in the place of their references."""
    if not pairs:
        return []
    figures = figures_of_items(task.score(*zip(*pairs, strict=True))) or [
        task.score([one], [other]).figures[task.primary_metric] for one, other in pairs
    ]
    return figures if task.higher_is_better else [max(0.0, 100.0 - figure) for figure in figures]
