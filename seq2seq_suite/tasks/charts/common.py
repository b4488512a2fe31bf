"""Charts that tasks have of their own, as plain data for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from seq2seq_suite.metrics.significance import draws, resampled

_SAMPLES = 500  # of a bootstrap
LEAST_PROBABILITY = 0.01  # of the probabilities that a calibration counts
_BINS = 10
Point = list[Any]  # x, y, low, high, n

Shares = Sequence[Mapping[Any, tuple[float, float]]]  # for each example: group -> (part, whole)


def panel(kind: str, title: str, question: str, **others: Any) -> dict[str, Any]:
    """A chart: `kind` is dots, bars, lines, scatter, matrix or table; `question` is what it answers."""
    return {"title": title, "question": question, "kind": kind, **others}


def one_series(kind: str, title: str, question: str, points: Sequence[Point], **others: Any) -> dict[str, Any]:
    """A chart of one series of points."""
    return panel(kind, title, question, series=[{"name": "", "role": "", "points": points}], **others)


def rates(shares: Shares, groups: Sequence[Any], *, scale: float = 100.0) -> list[Point]:
    """The ratio of sums in each group, with the 95 % interval of a bootstrap over the examples.

    Args:
        shares: for each example what it adds to parts and wholes.
        groups: in the order of the points; one without anything has none.
        scale: 100 for percent.

    Returns:
        (group, ratio, low, high, whole) of each; a group that a single example has has no interval.

    Source: Efron & Tibshirani 1993, section 13.3 (percentile interval).

    >>> rates([{"NP": (1, 2)}, {"NP": (2, 2)}, {"VP": (1, 1)}], ["NP", "VP"])[1]
    ['VP', 100.0, None, None, 1]
    """
    place = {group: number for number, group in enumerate(groups)}
    counts = np.zeros((len(shares), len(place), 2))
    for row, share in enumerate(shares):
        for group, two in share.items():
            if group in place:
                counts[row, place[group]] += two
    found = []
    for group, (part, whole), (low, high), rows in zip(
        groups, counts.sum(0), scale * _bounds(counts), (counts[:, :, 1] > 0).sum(0), strict=True
    ):
        if whole:
            bounds = [float(low), float(high)] if rows > 1 else [None, None]
            found.append([group, float(scale * part / whole), *bounds, round(whole)])
    return found


def _bounds(counts: np.ndarray) -> np.ndarray:
    """(G,2) the 2.5 and 97.5 percentiles of each group's ratio over resampled examples, counts (N,G,2)."""
    size, groups = counts.shape[:2]
    if not size or not groups:
        return np.zeros((groups, 2))
    sums = resampled(counts.reshape(size, -1), draws(size, _SAMPLES)).reshape(_SAMPLES, groups, 2)
    ratios = np.sort(
        np.divide(sums[..., 0], sums[..., 1], out=np.full(sums.shape[:2], np.nan), where=sums[..., 1] > 0), axis=0
    )  # samples without the group are sorted last
    valid = np.maximum(1, (~np.isnan(ratios)).sum(0))
    return np.stack(
        [ratios[(share * (valid - 1)).round().astype(int), np.arange(groups)] for share in (0.025, 0.975)], 1
    )


def range_of(value: int, edges: Sequence[int]) -> str:
    r"""The range that holds a number; `edges` are the last numbers of all but the open one.

    >>> [range_of(number, (1, 2, 4)).replace("\N{EN DASH}", "-") for number in (1, 3, 4, 9)]
    ['1', '3-4', '3-4', '5+']
    """
    first = 1
    for edge in edges:
        if value <= edge:
            return str(edge) if first >= edge else f"{first}\N{EN DASH}{edge}"
        first = edge + 1
    return f"{first}+"


def ranges(edges: Sequence[int]) -> list[str]:
    """All of them, in order."""
    return [range_of(value, edges) for value in (*edges, edges[-1] + 1)]


def by_label(
    counts: Mapping[str, Sequence[Mapping[str, int]]], title: str, question: str, *, what: str, most: int = 20
) -> list[dict[str, Any]]:
    """Precision and recall of each label, the most frequent first.

    Args:
        counts: `gold`, `predicted` and `matched`: for each example how often it has each label.
        title, question: of the panel.
        what: a label's name on the axis.
        most: labels shown; the note says how many there are.
    """
    total = sum(map(Counter, counts["gold"]), Counter[str]())
    names = [name for name, _ in sorted(total.items(), key=lambda item: (-item[1], item[0]))]
    series = [
        {
            "name": name,
            "role": "",
            "points": rates(
                [
                    {label: (matched.get(label, 0), whole) for label, whole in wholes.items()}
                    for matched, wholes in zip(counts["matched"], counts[side], strict=True)
                ],
                names[:most],
            ),
        }
        for name, side in (("precision", "predicted"), ("recall", "gold"))
    ]
    note = f"The {most} most frequent of {len(names)}." if len(names) > most else ""
    return [panel("dots", title, question, x=what, y="% ↑", series=series, note=note)] if names else []


def confusion(
    pairs: Iterable[tuple[str, str]], title: str, question: str, *, x: str, y: str, most: int = 12
) -> list[dict[str, Any]]:
    """A matrix of the most frequent errors, from pairs (right, given); empty where there are none.

    >>> found = confusion([("NN", "VB"), ("NN", "VB"), ("JJ", "NN")], "t", "q", x="given", y="right")[0]
    >>> found["rows"], found["columns"], found["cells"]
    (['NN', 'JJ'], ['NN', 'VB'], [[0, 2], [1, 0]])
    """
    counts = Counter(pairs)
    if not counts:
        return []
    kept = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: 2 * most])
    rows, columns = (list(dict.fromkeys(pair[side] for pair in kept))[:most] for side in (0, 1))
    order = {name: place for place, name in enumerate(rows)}
    columns.sort(key=lambda name: (order.get(name, len(rows)), name))  # a name that is in both is at the same place
    covered = sum(counts[row, column] for row in rows for column in columns)
    return [
        panel(
            "matrix",
            title,
            question,
            x=x,
            y=y,
            rows=rows,
            columns=columns,
            cells=[[counts[row, column] for column in columns] for row in rows],
            note=f"{covered:,} of {counts.total():,} errors.",
        )
    ]


def calibration(given: Sequence[Mapping[str, float]], right: Sequence[Collection[str]]) -> list[dict[str, Any]]:
    """How often labels are right, by the probability that they were given.

    Args:
        given: of each example label -> probability.
        right: the labels of each.

    Source: Guo et al. 2017, section 2 (reliability diagrams, expected calibration error).
    """
    groups = [f"{100 * low // _BINS}\N{EN DASH}{100 * (low + 1) // _BINS}" for low in range(_BINS)]
    shares: list[tuple[dict[str, tuple[float, float]], ...]] = []
    for probabilities, labels in zip(given, right, strict=True):
        shares.append(({}, {}))
        for name, probability in probabilities.items():
            group = groups[min(_BINS - 1, int(_BINS * probability))]
            for share, value in zip(shares[-1], (float(name in labels), probability), strict=True):
                part, whole = share.get(group, (0.0, 0.0))
                if probability >= LEAST_PROBABILITY:
                    share[group] = (part + value, whole + 1.0)
    observed, exact = (rates([pair[side] for pair in shares], groups) for side in (0, 1))
    if not observed:
        return []
    error = sum(one[4] * abs(one[1] - two[1]) for one, two in zip(observed, exact, strict=True))
    error /= sum(one[4] for one in observed)
    exact = [[*one[:2], None, None, one[4]] for one in exact]
    return [
        panel(
            "dots",
            "Calibration",
            "Is a label right as often as its probability says?",
            x="probability given, %",
            y="labels right, %",
            series=[
                {"name": "right", "role": "", "points": observed},
                {"name": "if it were exact", "role": "", "points": exact},
            ],
            note=f"Expected calibration error {error:.1f} points, of labels given at least "
            f"{100 * LEAST_PROBABILITY:.0f} %.",
        )
    ]
