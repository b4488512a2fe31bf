"""EVALB: labelled bracketing precision, recall and F1 of constituency trees, by the rules of COLLINS.prm.

    precision = matched / predicted      recall = matched / gold      F1 = 2 matched / (gold + predicted)

where the three counts are summed over the corpus before they are divided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seq2seq_suite import __version__
from seq2seq_suite.common.examples import Score
from seq2seq_suite.common.trees import Tree

COLLINS_DELETED = frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."})
ADDED_ROOTS = ("ROOT", "S1", "VROOT")
DELETED = COLLINS_DELETED | frozenset(ADDED_ROOTS)
EQUAL_LABELS = {"PRT": "ADVP"}

Bracket = tuple[int, int, str]


@dataclass(frozen=True)
class Scorable:
    """What EVALB sees of a tree: the words it keeps, their tags, and the brackets over them, children first."""

    words: list[str]
    tags: list[str]
    brackets: list[Bracket]


@dataclass(frozen=True)
class _Sentence:
    """One sentence's counts. `kind` is scored, empty (no words left to score) or invalid."""

    kind: str
    matched: Counter[Bracket]
    gold: list[Bracket]
    predicted: list[Bracket]
    crossing: int = 0
    correct_tags: int = 0
    words: int = 0


def evalb(gold: Sequence[Tree], predicted: Sequence[Tree | None]) -> Score:
    """Score predicted trees against gold trees.

    The rules: brackets match as a multiset of (start, end, label); labels lose everything from the first `-` or
    `=`; `PRT` equals `ADVP`; a pre-terminal labelled with one of `DELETED` is deleted with its word, a non-terminal
    only as a bracket; brackets that are left without words do not count. Pre-terminals are tags, never brackets.

    Give both trees the gold tags. Which words are deleted depends on the tags, so a wrong
    tag on a comma makes a sentence invalid and a wrong comma elsewhere deletes a word; figures from predicted tags
    can be too high as well as too low. The signature says `tags:predicted` when any tag differs.

    An invalid prediction is None, or its words (after deletion) are not the gold tree's. All gold brackets of the
    sentence are then missed, it has no predicted brackets, its words are wrongly tagged, it is no exact match and
    counts among neither `no_crossing` nor `two_or_less_crossing`. Only `average_crossing`, which needs brackets, is
    taken over the other sentences.

    Args:
        gold: the treebank's trees.
        predicted: one tree for each gold tree, None for an output that is no tree.

    Returns:
        A score with `figures` f1, precision, recall, exact_match, invalid_rate, no_crossing, two_or_less_crossing,
        tagging_accuracy in percent and average_crossing in brackets per sentence. `details` has
        `labels`: label -> (gold, predicted, matched), with PRT counted under ADVP;
        `sentences`: (matched, gold, predicted) of every sentence;
        `invalid`: the places of invalid predictions; and `counts`: how many sentences were
        given (`sentences`), invalid, empty (nothing left to score) and scored.

    Raises:
        ValueError: the two sequences differ in length.

    Source: Sekine and Collins, EVALB (1997), with the parameter file COLLINS.prm.
    Differs: ROOT, S1, VROOT and unlabelled brackets are deleted like TOP, for they match always and would raise
    every figure; a non-terminal -NONE- is deleted as COLLINS.prm says (the C program strips it to an empty label
    first and counts it); invalid predictions count, where the C program leaves them
    out and a parser gains by failing on hard sentences; F1 of nothing matched is 0, not NaN.

    >>> from seq2seq_suite.common.trees import read_trees
    >>> def tree(text): return next(read_trees(text))[1]
    >>> gold = tree("(TOP (S (NP (NNP Ann)) (VP (VBZ reads) (NP (NNS books))) (. .)))")
    >>> flat = tree("(TOP (S (NP (NNP Ann)) (VBZ reads) (NP (NNS books)) (. .)))")
    >>> score = evalb([gold], [flat])
    >>> [round(score.figures[name], 2) for name in ("precision", "recall", "f1")]
    [100.0, 75.0, 85.71]
    >>> score.details["labels"]
    {'NP': (2, 2, 2), 'S': (1, 1, 1), 'VP': (1, 0, 0)}
    >>> evalb([gold, gold], [gold, None]).figures["recall"]
    50.0
    """
    sentences = [_compare(*pair) for pair in zip(gold, predicted, strict=True)]
    tags = (
        "gold"
        if all(sentence.correct_tags == sentence.words for sentence in sentences if sentence.kind == "scored")
        else "predicted"
    )
    signature = f"evalb|prm:COLLINS+{','.join(ADDED_ROOTS)}|tags:{tags}|errors:count|len:all|version:{__version__}"

    figures = _figures(sentences)
    figures["invalid_rate"] = _percent(sum(sentence.kind == "invalid" for sentence in sentences), len(sentences))
    details = _details(sentences)
    return Score(figures, signature, details, formula="f1", counts=tuple(details["sentences"]))


def _compare(gold: Tree, predicted: Tree | None) -> _Sentence:
    """The counts of one sentence."""
    wanted = scorable(gold)
    found = None if predicted is None else scorable(predicted)
    if found is None or found.words != wanted.words:
        return _Sentence("invalid", Counter(), wanted.brackets, [], words=len(wanted.words))
    if not wanted.words:
        return _Sentence("empty", Counter(), [], [])

    gold_spans = {(start, end) for start, end, _ in wanted.brackets}
    crossing = sum(
        any(_cross(start, end, *span) for span in gold_spans)
        for start, end, _ in found.brackets
        if (start, end) not in gold_spans
    )
    correct_tags = sum(
        EQUAL_LABELS.get(one, one) == EQUAL_LABELS.get(other, other)
        for one, other in zip(wanted.tags, found.tags, strict=True)
    )
    return _Sentence(
        "scored",
        Counter(wanted.brackets) & Counter(found.brackets),
        wanted.brackets,
        found.brackets,
        crossing,
        correct_tags,
        len(wanted.words),
    )


def _cross(start: int, end: int, other_start: int, other_end: int) -> bool:
    """Whether two spans overlap without one containing the other."""
    return start < other_start < end < other_end or other_start < start < other_end < end


def scorable(tree: Tree) -> Scorable:
    """A tree without the words and brackets that COLLINS.prm deletes."""
    seen = Scorable([], [], [])
    _collect(tree, seen)
    return seen


def _collect(node: Tree, seen: Scorable) -> None:
    """Append the words, tags and brackets under `node`."""
    if node.is_preterminal():
        if node.label not in DELETED:
            seen.words.append(node.children[0])  # type: ignore[arg-type]
            seen.tags.append(node.label)
        return
    start = len(seen.words)
    for child in node.children:
        _collect(Tree("XX", (child,)) if isinstance(child, str) else child, seen)

    label = node.label.partition("-")[0].partition("=")[0]
    emptied = start == len(seen.words)
    if label and not emptied and label not in DELETED:
        seen.brackets.append((start, len(seen.words), EQUAL_LABELS.get(label, label)))


def _figures(sentences: Sequence[_Sentence]) -> dict[str, float]:
    """The corpus metrics except `invalid_rate`."""
    matched = sum(sentence.matched.total() for sentence in sentences)
    gold = sum(len(sentence.gold) for sentence in sentences)
    predicted = sum(len(sentence.predicted) for sentence in sentences)

    rated = [sentence for sentence in sentences if sentence.kind != "empty"]
    scored = [sentence for sentence in rated if sentence.kind == "scored"]
    exact = sum(sentence.matched.total() == len(sentence.gold) == len(sentence.predicted) for sentence in scored)
    crossing = sum(sentence.crossing for sentence in scored)
    return {
        "f1": _percent(2 * matched, gold + predicted),
        "precision": _percent(matched, predicted),
        "recall": _percent(matched, gold),
        "exact_match": _percent(exact, len(rated)),
        "average_crossing": crossing / len(scored) if scored else 0.0,
        "no_crossing": _percent(sum(sentence.crossing == 0 for sentence in scored), len(rated)),
        "two_or_less_crossing": _percent(sum(sentence.crossing <= 2 for sentence in scored), len(rated)),
        "tagging_accuracy": _percent(
            sum(sentence.correct_tags for sentence in rated), sum(sentence.words for sentence in rated)
        ),
    }


def _details(sentences: Sequence[_Sentence]) -> dict[str, Any]:
    """The tables by label and by sentence."""
    gold, predicted, matched = (
        Counter(label for brackets in side for _, _, label in brackets)
        for side in (
            [one.gold for one in sentences],
            [one.predicted for one in sentences],
            [one.matched.elements() for one in sentences],
        )
    )
    kinds = Counter(sentence.kind for sentence in sentences)
    return {
        "labels": {label: (gold[label], predicted[label], matched[label]) for label in sorted(gold | predicted)},
        "sentences": [(one.matched.total(), len(one.gold), len(one.predicted)) for one in sentences],
        "invalid": [place for place, sentence in enumerate(sentences) if sentence.kind == "invalid"],
        "counts": {"sentences": len(sentences), **{kind: kinds[kind] for kind in ("invalid", "empty", "scored")}},
    }


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
