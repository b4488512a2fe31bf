"""How two trees differ: kinds of errors, charts, and the trees as a page draws them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from seq2seq_suite.common.trees import Tree
from seq2seq_suite.metrics.evalb import DELETED, EQUAL_LABELS, Bracket, Scorable, scorable
from seq2seq_suite.tasks.charts.common import by_label, one_series, range_of, ranges, rates

CLAUSES = frozenset({"S", "SBAR", "SBARQ", "SINV", "SQ"})
CONJUNCTIONS = frozenset({"CC", "CONJP"})
_EDGES = (1, 2, 4, 8, 16)  # words of a bracket


def kinds_of(gold: Tree, predicted: Tree) -> tuple[str, ...] | None:
    """The kinds of errors, that of most brackets first; empty if EVALB sees equal trees, None if other words.

    Brackets that only one tree has are explained one after another:

    label: the other tree has a bracket of another label, which differs too, over the same words.
    unary: both trees have a bracket over these words, one of them one more.
    coordination: a conjunction stands directly in it.
    PP attachment, clause attachment: a PP (S, SBAR, SBARQ, SINV, SQ) that both trees have is a child of it here and of
        a bracket over other words there; and brackets that begin or end with such a phrase or coordination.
    span: all others.

    >>> from seq2seq_suite.common.trees import read_trees
    >>> high, low = (next(read_trees(text))[1] for text in (
    ...     "(S (NP (PRP I)) (VP (VBD saw) (NP (NN her)) (PP (IN in) (NP (NN town)))))",
    ...     "(S (NP (PRP I)) (VP (VBD saw) (NP (NP (NN her)) (PP (IN in) (NP (NN town))))))"))
    >>> kinds_of(high, low)
    ('PP attachment',)
    """
    trees = (scorable(gold), scorable(predicted))
    if trees[0].words != trees[1].words:
        return None
    counts = [Counter(tree.brackets) for tree in trees]
    only = [counts[0] - counts[1], counts[1] - counts[0]]
    found: Counter[str] = Counter()
    for start, end, label in list(only[0].elements()):  # the same words, another label
        other = next((one for one in only[1] if one[:2] == (start, end)), None)
        if other is not None:
            found["label"] += 2
            only[0] -= Counter([(start, end, label)])
            only[1] -= Counter([other])
    spans = [{bracket[:2] for bracket in tree.brackets} for tree in trees]
    for side in (0, 1):
        for bracket in [one for one in only[side] if one[:2] in spans[1 - side]]:
            found["unary"] += only[side].pop(bracket)
    _explain_moves(trees, only, found)
    return tuple(kind for kind, _ in found.most_common())


def _explain_moves(trees: Sequence[Scorable], only: Sequence[Counter[Bracket]], found: Counter[str]) -> None:
    """Count the kinds of brackets whose words differ."""
    parents = [_parents(tree.brackets) for tree in trees]
    moved: list[tuple[int, int, str]] = []  # what explains brackets around it
    for side, tree in enumerate(trees):
        for place, tag in enumerate(tree.tags):
            around = next((bracket for bracket in tree.brackets if bracket[0] <= place < bracket[1]), None)
            if tag in CONJUNCTIONS and around is not None and around in only[side]:
                moved.append((around[0], around[1], "coordination"))
        for bracket, parent in parents[side].items():
            kind = "PP attachment" if bracket[2] == "PP" else "clause attachment" if bracket[2] in CLAUSES else ""
            other = parents[1 - side].get(bracket)
            if (
                kind
                and parent is not None
                and parent in only[side]
                and bracket in parents[1 - side]
                and (other or parent)[:2] != parent[:2]
            ):
                moved.append((*bracket[:2], kind))
    for bracket in [*only[0].elements(), *only[1].elements()]:
        start, end, _ = bracket
        found[
            next(
                (
                    kind
                    for first, last, kind in moved
                    if (first, last) == (start, end)
                    or (start <= first and last <= end and (first == start or last == end))
                ),
                "span",
            )
        ] += 1


def _parents(brackets: Sequence[Bracket]) -> dict[Bracket, Bracket | None]:
    """The bracket directly above each, from brackets with a parent after its children."""
    return {
        bracket: next(
            (above for above in brackets[place + 1 :] if above[0] <= bracket[0] and bracket[1] <= above[1]), None
        )
        for place, bracket in enumerate(brackets)
    }


def drawn(tree: Tree | None) -> dict[str, Any] | None:
    """A tree as plain data: nodes with `label`, `children` and, if EVALB counts it, `bracket`; `tag` and `word`."""
    place = 0

    def plain(node: Tree | str) -> dict[str, Any]:
        nonlocal place
        if isinstance(node, str):
            node = Tree("XX", (node,))
        if node.is_preterminal():
            place += node.label not in DELETED
            return {"tag": node.label, "word": node.children[0]}
        start = place
        children = [plain(child) for child in node.children]
        label = node.label.partition("-")[0].partition("=")[0]
        counted = label and label not in DELETED and place > start
        return {
            "label": node.label,
            "children": children,
            **({"bracket": [start, place, EQUAL_LABELS.get(label, label)]} if counted else {}),
        }

    return None if tree is None else plain(tree)


def charts(gold: Sequence[Tree], predicted: Sequence[Tree | None]) -> list[dict[str, Any]]:
    """F1 by the length of brackets, precision and recall by label."""
    lengths, labels = [], {side: [] for side in ("gold", "predicted", "matched")}
    for wanted, found in zip(map(scorable, gold), predicted, strict=True):
        given = scorable(found) if found is not None else None
        right, guess = (
            Counter(wanted.brackets),
            Counter(given.brackets if given is not None and given.words == wanted.words else ()),
        )
        sums: dict[str, list[float]] = {}
        for counts, (part, whole) in ((right, (0.0, 0.5)), (guess, (0.0, 0.5)), (right & guess, (1.0, 0.0))):
            for (start, end, _), count in counts.items():
                two = sums.setdefault(range_of(end - start, _EDGES), [0.0, 0.0])
                two[0] += part * count
                two[1] += whole * count
        lengths.append({group: tuple(two) for group, two in sums.items()})
        for side, counts in zip(labels, (right, guess, right & guess), strict=True):
            labels[side].append(Counter(label for _, _, label in counts.elements()))
    return [
        one_series(
            "dots",
            "F1 by length of the bracket",
            "Do long brackets fail?",
            rates(lengths, ranges(_EDGES)),
            x="words",
            y="F1 ↑",
            note="n: brackets, the mean of gold and predicted",
        ),
        *by_label(labels, "Precision and recall by label", "Which brackets fail?", what="label"),
    ]
