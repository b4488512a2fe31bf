"""Gold and predicted outputs side by side, with what differs marked."""

from __future__ import annotations

import difflib
import random
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from seq2seq_suite.report.tables import is_number
from seq2seq_suite.trees import Tree, read_trees
from seq2seq_suite.types import DataError

Span = tuple[int, int, str]

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


def example(row: dict[str, Any], metric: str) -> str:
    """An example as HTML: the source, then gold and prediction side by side."""
    gold, predicted = str(row.get("reference", "")), str(row.get("prediction", ""))
    figure = figure_of(row, metric)
    value = "-" if figure is None else f"{figure:.2f}"
    if gold == predicted:
        same = _marked(gold, gold)[0]
        body = f'<div class="pair"><div><h4>reference and prediction agree</h4>{same}</div></div>'
    else:
        left, right = _marked(gold, predicted)
        body = (f'<div class="pair"><div><h4>reference</h4>{left}</div>'
                f'<div><h4>prediction</h4>{right}</div></div>')
    return (f'<details class="example"><summary><span class="figure">{escape(metric)} {value}</span> '
            f'{escape(str(row.get("source", "")))}</summary>'
            f'<p class="muted">{escape(str(row.get("origin", "")))}</p>{body}</details>')


def _marked(gold: str, predicted: str) -> tuple[str, str]:
    """Both texts as HTML, with what the other has not marked."""
    trees = _tree(gold), _tree(predicted)
    if trees[0] is not None and trees[1] is not None:
        spans = [Counter(_spans(tree)) for tree in trees]
        return (_draw_tree(trees[0], spans[0] - spans[1], "missed"), _draw_tree(trees[1], spans[1] - spans[0], "wrong"))
    return _marked_words(gold.split(), predicted.split())


def _tree(text: str) -> Tree | None:
    try:
        trees = [tree for _, tree in read_trees(text)] if text.startswith("(") else []
    except DataError:
        return None
    return trees[0] if len(trees) == 1 else None


def _spans(node: Tree, start: int = 0) -> list[Span]:
    """(first word, word after the last, label) of every bracket above the tags."""
    if node.is_preterminal():
        return []
    found, end = [], start
    for child in node.children:
        width = 1 if isinstance(child, str) else len(child.preterminals())
        if not isinstance(child, str):
            found += _spans(child, end)
        end += width
    return [(start, end, node.label), *found]


def _draw_tree(tree: Tree, different: Counter[Span], kind: str) -> str:
    """The tree with a line for each phrase that holds phrases, indented."""
    left = Counter(different)
    lines: list[str] = []

    def text(node: Tree | str, start: int, depth: int) -> int:
        """Append the node's text to `lines`; the place after its last word."""
        if isinstance(node, str):
            lines[-1] += f" {escape(node)}"
            return start + 1
        if node.is_preterminal():
            lines[-1] += f' <span class="tag">{escape(node.label)}</span>&nbsp;{escape(str(node.children[0]))}'
            return start + 1
        span = (start, start + len(node.preterminals()), node.label)
        marked = left[span] > 0
        left[span] -= marked
        css = f"bracket {kind}" if marked else "bracket"
        lines.append("  " * depth + f'<span class="{css}">({escape(node.label)}</span>')
        end, after_phrase = start, False
        for child in node.children:
            is_word = isinstance(child, str) or child.is_preterminal()
            if is_word and after_phrase:
                lines.append("  " * depth + " ")
            end, after_phrase = text(child, end, depth + 1), not is_word
        lines[-1] += f'<span class="{css}">)</span>'
        return end

    text(tree, 0, 0)
    return f'<pre class="tree">{chr(10).join(lines)}</pre>'


def _marked_words(gold: Sequence[str], predicted: Sequence[str]) -> tuple[str, str]:
    """Words that the other text has not at that place are marked."""
    sides: tuple[list[str], list[str]] = ([], [])
    for operation, *(places) in difflib.SequenceMatcher(None, gold, predicted, autojunk=False).get_opcodes():
        for side, words, kind, (first, last) in zip(sides, (gold, predicted), ("missed", "wrong"),
                                                    (places[:2], places[2:]), strict=True):
            part = escape(" ".join(words[first:last]))
            if part:
                side.append(part if operation == "equal" else f'<span class="{kind}">{part}</span>')
    return f"<p>{' '.join(sides[0])}</p>", f"<p>{' '.join(sides[1])}</p>"
