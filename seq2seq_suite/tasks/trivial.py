"""Trivial baselines and ceilings: predictions without learning and the best possible ones, beside a run's metrics."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.common.trees import Tree
from seq2seq_suite.data.pictures import Objects, fit
from seq2seq_suite.metrics.error_rate import normalise
from seq2seq_suite.tasks.charts.words import words_of

if TYPE_CHECKING:
    from seq2seq_suite.tasks.base import Task

MOST, MOST_PICTURES = 10_000, 1_000  # training examples that are looked at, and pictures


def majority(train: Sequence[Example], examples: Sequence[Example]) -> list[Any]:
    """The most frequent reference, whatever the input; of equal ones the first.

    >>> majority([Example("a", "x", ""), Example("b", "y", ""), Example("c", "y", "")], [Example("d", None, "")])
    ['y']
    """
    return [Counter(example.reference for example in train).most_common(1)[0][0]] * len(examples)


def nearest(train: Sequence[Example], examples: Sequence[Example]) -> list[Any]:
    """The reference of the most similar training source: cosine of words, weighted by how rare they are (TF-IDF).

    >>> train = [Example("a red cat", "x", ""), Example("a blue dog", "y", ""), Example("a bird", "z", "")]
    >>> nearest(train, [Example("the dog", None, "")])
    ['y']
    """
    known = [set(words_of(str(example.source).lower())) for example in train]
    places = grouped((word, place) for place, words in enumerate(known) for word in words)
    where = {word: np.array(found) for word, found in places.items()}
    weight = {word: math.log((1 + len(train)) / len(found)) ** 2 for word, found in where.items()}
    lengths = np.sqrt([sum(weight[word] for word in words) or 1.0 for words in known])
    found = []
    for example in examples:
        shared = np.zeros(len(train))
        for word in sorted(where.keys() & set(words_of(str(example.source).lower()))):
            shared[where[word]] += weight[word]
        found.append(train[int((shared / lengths).argmax())].reference)
    return found


def nearest_picture(train: Sequence[Example], examples: Sequence[Example]) -> list[Objects]:
    """The objects of the training picture that is the most similar in 8 x 8 pixels, by the squares of differences."""
    known, asked = (
        np.array([fit(one.source.pixels(), 8, 8)[0].ravel() for one in some], dtype=np.float64)
        for some in (train[:MOST_PICTURES], examples)
    )
    return [train[int(np.square(known - pixels).sum(1).argmin())].reference for pixels in asked]


def frequent_word(train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The most frequent word, alone: no worse than silence, and one error less in each transcript that has it.

    >>> frequent_word([Example("", "the cat", ""), Example("", "The dog", "")], [Example("", None, "")])
    ['the']
    """
    return majority([Example("", word) for example in train for word in normalise(example.reference).split()], examples)


def tags_of_words(train: Sequence[Example], examples: Sequence[Example]) -> list[tuple[str, ...]]:
    """Each word's most frequent tag; for an unknown word the most frequent one of all."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in train:
        for word, tag in zip(example.source, example.reference, strict=True):
            counts[word][tag] += 1
    overall = sum(counts.values(), Counter()).most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    return [tuple(best.get(word, overall) for word in example.source) for example in examples]


def right_branching(train: Sequence[Example], examples: Sequence[Example]) -> list[Tree]:
    """A bracket over each word and all that follow it, with the most frequent label; tags are those of the reference.

    >>> from seq2seq_suite.common.trees import read_trees
    >>> tree = next(read_trees("(S (A a) (B b) (C c))"))[1]
    >>> print(right_branching([Example((), tree, "")], [Example((), tree, "")])[0])
    (S (A a) (S (B b) (C c)))
    """

    def labels(tree: Tree) -> list[str]:
        below = [one for one in tree.children if isinstance(one, Tree) and not one.is_preterminal()]
        return [tree.label, *(label for one in below for label in labels(one))]

    label = Counter(label for example in train for label in labels(example.reference)).most_common(1)[0][0]
    found = []
    for example in examples:
        *before, last = example.reference.preterminals()
        tree = last if before else Tree(label, (last,))
        for leaf in reversed(before):
            tree = Tree(label, (leaf, tree))
        found.append(tree)
    return found


def likelihood_of_letters(train: Sequence[Example], examples: Sequence[Example]) -> list[float]:
    """Log-probability (nats) of each text and its end if letters did not depend on each other, one added to each."""
    counts = Counter(letter for example in train for letter in example.reference)
    whole = counts.total() + len(train) + len(counts) + 2  # an end for each text; one for letters that are unknown
    end = math.log((len(train) + 1) / whole)
    return [end + sum(math.log((counts[letter] + 1) / whole) for letter in example.reference) for example in examples]


def copied(train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The source itself."""
    return [example.source for example in examples]


BASELINES: dict[str, Callable[[Sequence[Example], Sequence[Example]], list[Any]]] = {
    "empty output": lambda train, examples: [None] * len(examples),
    "most frequent word": frequent_word,
    "most frequent output": majority,
    "nearest training example": nearest,
    "nearest training picture": nearest_picture,
    "copied source": copied,
    "most frequent tag of each word": tags_of_words,
    "right-branching trees": right_branching,
    "frequency of each letter": likelihood_of_letters,
}


def figures(task: Task, train: Iterable[Example], examples: Sequence[Example]) -> dict[str, float]:
    """The primary metric of each of the task's baselines, by its name."""
    names = task.presentation.baselines
    seen = list(islice(train, MOST)) if names else []
    return {
        name: task.score_examples(BASELINES[name](seen, examples), examples).figures[task.primary_metric]
        for name in names
        if seen and examples
    }


def ceiling(task: Task, train: Iterable[Example], examples: Sequence[Example]) -> float | None:
    """The primary metric of the best possible outputs given the training data; None if they are not known.

    They are of the rich embedded data, where chance or an annotator may have had a part in a reference.
    """
    if task.world is None or not task.has_ceiling or not examples:
        return None
    return task.score_examples(task.oracle(list(train), examples), examples).figures[task.primary_metric]


def limits(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> dict[str, float]:
    """`figures` and, where it is known, the `ceiling` as the best possible."""
    best = ceiling(task, train, examples)
    return figures(task, train, examples) | ({} if best is None else {"best possible": best})
