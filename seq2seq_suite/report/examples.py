"""Gold and predicted outputs side by side, with what differs marked."""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from seq2seq_suite.report.tables import is_number

Marker = Callable[[str, str], tuple[str, str] | None]  # as `Target.marked` of a task

_RANDOM, _WORST = 5, 10
_SEED = 1


def choose(rows: Sequence[dict[str, Any]], metric: str, *, higher_is_better: bool
           ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows worth looking at.

    Args:
        rows: of a file of predictions.
        metric: the figure that each row is judged by, if it has it.
        higher_is_better: of that figure.

    Returns:
        (the worst, some at random); an output equal to its reference is never among the worst.
    """
    wrong = [row for row in rows if row.get("reference") != row.get("prediction")]
    judged = [row for row in wrong if figure_of(row, metric) is not None]
    judged.sort(key=lambda row: figure_of(row, metric), reverse=not higher_is_better)
    some = random.Random(_SEED).sample(range(len(rows)), min(_RANDOM, len(rows)))
    return judged[:_WORST], [rows[place] for place in sorted(some)]


def figure_of(row: dict[str, Any], metric: str) -> float | None:
    """A row's own figure, None if it has none."""
    figures = row.get("figures")
    figure = figures.get(metric) if isinstance(figures, dict) else None
    return figure if is_number(figure) else None


def example(row: dict[str, Any], metric: str, mark: Marker) -> str:
    """An example as HTML: the source, then gold and prediction side by side, as `mark` draws them or word by word."""
    gold, predicted = str(row.get("reference", "")), str(row.get("prediction", ""))
    figure = figure_of(row, metric)
    value = "-" if figure is None else f"{figure:.2f}"
    if gold == predicted:
        same = (mark(gold, gold) or _marked_words(gold, gold))[0]
        body = f'<div class="pair"><div><h4>reference and prediction agree</h4>{same}</div></div>'
    else:
        left, right = mark(gold, predicted) or _marked_words(gold, predicted)
        body = (f'<div class="pair"><div><h4>reference</h4>{left}</div>'
                f'<div><h4>prediction</h4>{right}</div></div>')
    return (f'<details class="example"><summary><span class="figure">{escape(metric)} {value}</span> '
            f'{escape(str(row.get("source", "")))}</summary>'
            f'<p class="muted">{escape(str(row.get("origin", "")))}</p>{body}</details>')


def _marked_words(*texts: str) -> tuple[str, str]:
    """Words that the other text has not at that place are marked."""
    gold, predicted = map(str.split, texts)
    sides: tuple[list[str], list[str]] = ([], [])
    for operation, *(places) in difflib.SequenceMatcher(None, gold, predicted, autojunk=False).get_opcodes():
        for side, words, kind, (first, last) in zip(sides, (gold, predicted), ("missed", "wrong"),
                                                    (places[:2], places[2:]), strict=True):
            part = escape(" ".join(words[first:last]))
            if part:
                side.append(part if operation == "equal" else f'<span class="{kind}">{part}</span>')
    return f"<p>{' '.join(sides[0])}</p>", f"<p>{' '.join(sides[1])}</p>"
