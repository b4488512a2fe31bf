"""What a page says in words. A sentence is printed only where its figures support it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from seq2seq_suite.report.outputs import Outputs, split_name

Words = list[tuple[str, bool]]  # text, and whether it stands out

_ENOUGH = 20  # examples in a bin that a sentence compares


def lede(outputs: Sequence[Outputs], lengths: dict[str, Any] | None, figure: str) -> Words:
    """What was reached and what fails most often.

    Args:
        outputs: of all splits, the first the one that matters most.
        lengths: the chart of the metric by length.
        figure: the primary metric as words, for a run without outputs that could be equal to their reference.
    """
    if not any(one.is_judged for one in outputs):
        return [(figure, False)] if figure else []
    said: Words = []
    for place, one in enumerate(outputs[:2]):
        of_what = f" {split_name(one.split)} outputs equal their reference" if not place else (
            f" of {split_name(one.split)}" if one.split not in ("test", "validation") else f" of the {one.split} split")
        said += [(", " if place else "", False), (f"{sum(one.equal):,} of {len(one.rows):,}", True), (of_what, False)]
    said.append((". ", False))
    return [*said, *_kind(outputs), *_long(lengths)]


def _kind(outputs: Sequence[Outputs]) -> Words:
    """The kind of error that leads, if one does."""
    kinds: Counter[str] = sum((one.kinds for one in outputs), Counter())
    wrong = sum(not same for one in outputs for same in one.equal)
    first, second = ([*kinds.most_common(2), ("", 0), ("", 0)])[:2]
    if wrong < 5 or first[1] < 1.2 * second[1] or first[1] < wrong / 4:
        return []
    return [(f"Of the {wrong:,} that differ, ", False), (f"{first[1]:,} have the error “{first[0]}”", True),
            (", the most frequent kind. ", False)]


def _long(lengths: dict[str, Any] | None) -> Words:
    """That the longest sources fail most often, if their interval and that of the shortest lie apart."""
    points = [point for point in (lengths or {"series": [{"points": []}]})["series"][0]["points"]
              if point[4] >= _ENOUGH and point[2] is not None]
    if lengths is None or len(points) < 2:
        return []
    (first, short, low, high, _), (last, long, least, most, _) = points[0], points[-1]
    better = lengths["y"].endswith("↑")
    worst = (min if better else max)(point[1] for point in points)
    if long != worst or not (most < low if better else least > high):
        return []
    name = lengths["y"].rstrip(" ↑↓").removesuffix(", %")
    return [(f"Long sources are harder: {name} is {short:.1f} at {first} {lengths['x']} and ", False),
            (f"{long:.1f} at {last}", True), (".", False)]


def on_training(losses: Sequence[dict[str, Any]], figures: Sequence[Sequence[Any]], best: Any) -> list[str]:
    """Whether a run overfitted and whether it was finished.

    Args:
        losses: the curves of the losses; those of validation are `dashed`.
        figures: points (update, minutes, symbols, figure) of the primary metric on validation.
        best: the update of the checkpoint that was kept.
    """
    said = []
    for one in losses:
        values = [(point[3], point[0]) for point in one["points"]]
        if one.get("dashed") and len(values) >= 3 and values[-1][0] > 1.05 * min(values)[0] > 0:
            said.append(f"The {one['name']} loss was least at update {min(values)[1]:,} and has risen since: "
                        "the run began to overfit.")
    if len(figures) >= 3 and best == figures[-1][0] != figures[0][0]:
        said.append("The last checkpoint was the best: longer training may help.")
    return said[:2]
