"""Minimum-Bayes-risk decoding: of some candidates the one that all of them agree with most."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import Hypothesis
from seq2seq_suite.metrics.significance import figures_of_items

if TYPE_CHECKING:
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.tasks.base import Task


def by_risk(
    task: Task, examples: Sequence[Example], candidates: Sequence[Sequence[Hypothesis]], options: SearchOptions
) -> list[list[Hypothesis]]:
    """The candidates of each example by falling mean utility, which becomes their score.

        y* = argmax_y sum_j p_j u(y, y_j)

    u(y, y_j) is the task's primary metric of y with y_j in the place of its reference, in percent; of an error rate it
    is 100 minus that, or 0. It is 100 where both are equal, and 0 against an empty candidate. The sum has every
    candidate, y itself too: of N samples each with p_j = 1/N, of a beam with its probability among those of the beam.
    Malformed candidates are in no sum and have the score 0. Equal utilities keep the order of the search.

    Args:
        task: of the metric, which is computed for all examples together.
        examples: their references are not looked at.
        candidates: of each example, in the order of the search.
        options: of the search.

    Source: Kumar & Byrne 2004, eq. 4 (n-best lists); Eikema & Aziz 2020, section 5 (samples); Freitag et al. 2022.
    """
    read = [
        [task.read_hypothesis(one, example) for one in some] for some, example in zip(candidates, examples, strict=True)
    ]
    texts = [[None if one is None else task.to_text(one) for one in some] for some in read]
    outputs = [
        {text: one for text, one in zip(*both, strict=True) if text is not None}
        for both in zip(texts, read, strict=True)
    ]
    utilities = iter(
        _utilities(
            task, [(some[one], some[other]) for some in outputs for one, other in permutations(some, 2) if other]
        )
    )
    return [_ranked(*each, utilities, options) for each in zip(candidates, texts, outputs, strict=True)]


def _ranked(
    candidates: Sequence[Hypothesis],
    texts: Sequence[str | None],
    outputs: Iterable[str],
    utilities: Iterator[float],
    options: SearchOptions,
) -> list[Hypothesis]:
    """The candidates of an example, of the given texts; `utilities` goes on with those of its outputs' pairs."""
    found = {(one, one): 100.0 for one in outputs} | {
        (one, other): next(utilities) for one, other in permutations(outputs, 2) if other
    }
    logs = [  # of a beam's outputs, without length penalty
        0.0 if options.samples else one.score / options.normalise(1.0, len(one.symbols) + 1) for one in candidates
    ]
    weights = [math.exp(one - max(logs)) for one in logs]
    shares = {one: sum(weight for weight, text in zip(weights, texts, strict=True) if text == one) for one in outputs}
    means = {
        one: sum(share * found.get((one, other), 0.0) for other, share in shares.items()) / sum(shares.values())
        for one in outputs
    }
    scored = (
        replace(one, score=0.0 if text is None else means[text]) for one, text in zip(candidates, texts, strict=True)
    )
    return sorted(scored, key=lambda one: -one.score)


def _utilities(task: Task, pairs: Sequence[tuple[object, object]]) -> list[float]:
    """Of outputs with others in the place of their references."""
    if not pairs:
        return []
    figures = figures_of_items(task.score(*zip(*pairs, strict=True))) or [
        task.score([one], [other]).figures[task.primary_metric] for one, other in pairs
    ]
    return figures if task.higher_is_better else [max(0.0, 100.0 - figure) for figure in figures]
