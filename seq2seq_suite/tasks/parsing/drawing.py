"""Two trees side by side on a page, with what differs marked."""

from __future__ import annotations

from collections import Counter
from html import escape

from seq2seq_suite.trees import Tree, read_trees
from seq2seq_suite.types import DataError

Span = tuple[int, int, str]


def marked(gold: str, predicted: str) -> tuple[str, str] | None:
    """Two trees in brackets as HTML, with the phrases that the other has not marked; None if one is no tree."""
    try:
        (wanted,), (found,) = ([tree for _, tree in read_trees(text)] for text in (gold, predicted))
    except (DataError, ValueError):  # none, or several
        return None
    right, given = Counter(_spans(wanted)), Counter(_spans(found))
    return _draw(wanted, right - given, "missed"), _draw(found, given - right, "wrong")


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


def _draw(tree: Tree, different: Counter[Span], kind: str) -> str:
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
