"""Multi-label classification as a sequence: from a text to its labels, one after another."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from seq2seq_suite.common.errors import DataError, repr_short
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.common.files import atomic_write_text, read_json
from seq2seq_suite.common.shapes import SetShape
from seq2seq_suite.common.types import SPECIALS, Constraint, Hypothesis
from seq2seq_suite.data.formats import BadRows, Row
from seq2seq_suite.data.sources import read_rows
from seq2seq_suite.data.subwords import clean_text
from seq2seq_suite.data.words import split_words
from seq2seq_suite.metrics.labels import score_labels
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import (
    Fraction,
    NotNegative,
    NotNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    Use,
    among,
)
from seq2seq_suite.options.section import Symbols as Size
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.fields.base import Place, refuse_long
from seq2seq_suite.tasks.fields.text import Parts, Symbols, Words
from seq2seq_suite.tasks.multilabel.label_names import INVALID, from_line, read_labels, read_names, to_line
from seq2seq_suite.tasks.multilabel.marginals import Labels, ScoredLabels, above
from seq2seq_suite.tasks.multilabel.presentation import MultilabelPresentation
from seq2seq_suite.tasks.options import NO_TRANSCRIPT, TaskOptions, left_to_right
from seq2seq_suite.tasks.rows import in_form, place_of, text_in

_THRESHOLD, _UNTUNED = "threshold.json", 0.5
_LETTERS = 20  # of a word
_THRESHOLDS = tuple(1.0 / (1.0 + math.exp(-step / 4)) for step in range(-24, 13))  # from 0.002 to 0.95


class MultilabelOptions(TaskOptions):
    """Options of the multi-label task."""

    target: ClassVar[str] = "labels"
    constrained: ClassVar[bool] = True
    uses: ClassVar[tuple[Use, ...]] = (
        *NO_TRANSCRIPT,
        Use(
            ("strategy.label_smoothing", "strategy.scheduled_sampling"),
            "multilabel.order",
            "other than free",
            "free".__ne__,
            left_to_right,
        ),
        among(("strategy.consistency",), "multilabel.order", "frequency", "given"),
        among(("search.length_penalty", "search.rescorer"), "multilabel.decision", "best", where=left_to_right),
        Use(
            ("search.length_penalty", "search.rescorer"),
            "multilabel.head_mixture",
            "0.0",
            lambda share: share == 0.0,
            left_to_right,
        ),
    )

    text_column: str = "text"  # of the text
    labels_column: str = "labels"  # lists of names or numbers, or text with commas, semicolons or | between
    order: Literal["frequency", "given", "random", "free"] = "frequency"  # of labels in the target; random: in each
    # epoch; free: any order is right, by a loss over the set of labels not yet predicted
    encoding: Literal["words", "pieces"] = "words"  # pieces: subwords of the raw text, as a language model reads it
    pieces: Size = 4000  # of encoding `pieces`, at most; init_from's, if given
    max_words: NotNegative = 0  # most words that the network reads of a text, the first ones; 0: all
    min_count: Positive = 2  # rarer words are <unknown>
    characters: bool = False  # words are also read letter by letter, the first and last ten of them
    word_dropout: Fraction = 0.1  # chance of each word to be <unknown> in training
    allow_empty: bool = False  # texts without a label are examples, and outputs may be empty; otherwise bad rows
    head: Literal["none", "pooled", "label_wise"] = "none"  # classifier of each label on the encoder
    head_weight: PositiveFloat = 0.5  # of its binary cross-entropy in the loss
    head_mixture: NotNegativeFloat = 0.0  # mu: a set's score = log p(sequence) + mu * log p(head)
    pointer: bool = False  # the decoder's logits see the label-wise head's predictions
    decision: Literal["best", "marginals"] = "best"  # best: the most probable set; marginals: every label whose
    # probability, summed over the sets in the beam and mixed with the head's by mu, exceeds the threshold
    prior_adjustment: NotNegativeFloat = 0.0  # of `marginals`: subtracts lambda * log prior from a label's log-odds

    @model_validator(mode="after")
    def _parts_are_there(self) -> MultilabelOptions:
        if self.pointer and self.head != "label_wise":
            raise ValueError("multilabel.pointer needs multilabel.head=label_wise")
        if self.head_mixture and self.head == "none":
            raise ValueError("multilabel.head_mixture needs multilabel.head=pooled or label_wise")
        if self.prior_adjustment and self.decision != "marginals":
            raise ValueError("multilabel.prior_adjustment needs multilabel.decision=marginals")
        return self

    def check(self, config: Any) -> None:
        """Only the autoregressive strategy scores sets and has no fixed order."""
        kind = config.strategy.kind
        if config.in_parallel and (self.head, self.decision) != ("none", "best"):
            raise ValueError(
                f"strategy.kind {kind} scores no sets: set multilabel.head=none, "
                "multilabel.pointer=false, multilabel.head_mixture=0.0 and multilabel.decision=best"
            )
        if config.in_parallel and self.order in ("random", "free"):
            raise ValueError(f"strategy.kind {kind} gives each label a place: multilabel.order {self.order} has none")


class LabelSets(Symbols):
    """Labels, each one symbol, in an order that is an option; that of a prediction has no meaning."""

    def __init__(self, options: MultilabelOptions):
        super().__init__("labels")
        self.options = options

    def symbols(self, reference: Labels) -> list[str]:
        """The labels in the order that the decoder learns, by descending frequency or as given.

        For a random or a free order the strategy rearranges them as it trains.
        """
        if self.options.order == "given":
            return list(reference)
        number = dict(zip(reference, self.vocabulary.encode(reference), strict=True))
        return sorted(reference, key=lambda label: (label not in self.vocabulary, number[label], label))

    def parse(self, symbols: Sequence[str], example: Example) -> Labels | None:
        """The labels; None if one is repeated or unknown, or if there must be one but is none."""
        labels = tuple(symbols)
        if len(set(labels)) < len(labels) or set(labels) & set(SPECIALS):
            return None
        return labels if labels or self.options.allow_empty else None

    def shape(self) -> SetShape:
        """An output for each label, the classifier beside them, and how sets are learned and searched for."""
        options = self.options
        has_head = options.head != "none"
        return SetShape(
            len(self),
            order=options.order if options.order in ("random", "free") else "fixed",
            head=options.head if has_head else "",
            head_weight=options.head_weight if has_head else 0.0,
            head_mixture=options.head_mixture,
            pointer=options.pointer,
            marginals=options.decision == "marginals",
        )

    def constraint(self) -> Constraint:
        """The automaton that keeps outputs sets of labels."""
        from seq2seq_suite.tasks.multilabel.label_automaton import LabelAutomaton  # here, for it imports torch

        return LabelAutomaton(len(self), allow_empty=self.options.allow_empty)

    def to_text(self, prediction: Labels | None) -> str:
        """The labels with commas between, as in `class 9, class 7`."""
        return INVALID if prediction is None else to_line(prediction)

    def from_line(self, line: str, place: Place) -> Labels | None:
        """The inverse of `to_text`."""
        labels = tuple(from_line(line, **place))
        return None if line.strip() == INVALID or not (labels or self.options.allow_empty) else labels


class MultilabelTask(Task[Words | Parts, LabelSets]):
    """Text -> labels.

    The source is words between two sentinels, the target a sequence of labels; every label is one symbol. The order of
    the target's labels is an option, that of a prediction has no meaning.

    Source: sequence generation for multi-label classification: Yang et al. 2018 (SGM), labels by falling frequency.
    """

    name, presented_by, rewritable = "multilabel", MultilabelPresentation, True
    sections: ClassVar[Mapping[str, type[Section]]] = {"multilabel": MultilabelOptions}
    primary_metric = "micro_f1"
    view, item, expected = "topics", "text", "rows with text and labels"

    def __init__(self, options: MultilabelOptions, data: Data, **others: Any):
        super().__init__(options, data, **others)
        if options.encoding == "pieces":
            self.source = Parts(
                options.pieces,
                longest=data.max_length,
                pieces_from=self.pieces_from,
                parts=lambda words: [" ".join(self._kept(words))],
            )
        else:
            self.source = Words(
                longest=data.max_length,
                kept=options.max_words,
                min_count=options.min_count,
                dropped=lambda count: options.word_dropout,
                max_characters=_LETTERS if options.characters else 0,
            )
        self.target = LabelSets(options)
        self.threshold = _UNTUNED  # once tuned, the best on the validation split
        self.override: float | None = None  # the user's, in its place

    # -- data ---------------------------------------------------------------------------------------------------

    def read(self, split: str) -> list[Example]:
        """The texts of a split with their labels; prints how many are cut to `multilabel.max_words`."""
        examples = super().read(split)
        cut = sum(len(self._kept(example.source)) < len(example.source) for example in examples)
        if cut:
            print(
                f"{split}: {cut:,} of {len(examples):,} texts are cut to their first {self.options.max_words} words "
                "(multilabel.max_words)"
            )
        return examples

    @cached_property
    def _numbered(self) -> tuple[str, ...]:
        return self.in_form(read_names(self.data.path, self.data.subset))

    def example(self, row: Row) -> Example:
        """The words and the labels of a row."""
        labels = read_labels(row, self._numbered, self.options.labels_column, allow_empty=self.options.allow_empty)
        words = self._words(text_in(row, self.options.text_column, "multilabel.text_column"), **row.place)
        true = row.fields.get("true")
        return Example(words, labels, row.origin, also={"oracle": tuple(true)} if true is not None else {})

    def row(self, example: Example, text: str) -> dict[str, Any]:
        """The words, the labels, and the true ones where they are known."""
        true = {"true": example.also["oracle"]} if example.also else {}
        return {
            self.options.text_column: " ".join(example.source),
            self.options.labels_column: from_line(text),
            **true,
        }

    def _words(self, text: str, file: str, line: int) -> tuple[str, ...]:
        if self.options.encoding == "pieces":
            words = tuple(clean_text(text.lower()).split())
        else:
            words = split_words(text, lower_case=True, marks=self.data.unicode == "nfc")
        if not words:
            raise DataError(
                "the text is empty", file=file, line=line, expected="at least one word", remedy="remove the row"
            )
        read = len(self._kept(words))
        refuse_long(
            read,
            self.data.max_length,
            f"a text of {read} words",
            {"file": file, "line": line},
            otherwise="let multilabel.max_words cut long texts",
        )
        return words

    def _kept(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The part of a text that the network reads."""
        return words[: self.options.max_words] if self.options.max_words else words

    def from_text(self, text: str, *, origin: str = "") -> Example:
        """A text, to be split into words."""
        return Example(self._words(text, **place_of(origin)), None, origin)

    def read_references(self, path: Path) -> list[Labels | None]:
        """A set of labels on each line with commas between, or the column `labels` of a file of rows."""
        if ".jsonl" in path.suffixes:
            names = self.in_form(read_names(str(path)))
            rows = in_form(self.data, "train", BadRows(0), read_rows(str(path), "train", splits={}))
            return [read_labels(row, names, self.options.labels_column, allow_empty=True) for row in rows]
        return super().read_references(path)

    # -- symbols ------------------------------------------------------------------------------------------------

    @property
    def names(self) -> Sequence[str]:
        """The labels of the training split."""
        return self.target.vocabulary.symbols

    def save(self, folder: Path) -> None:
        """Write the vocabularies, and the threshold once it is tuned."""
        super().save(folder)
        if self.threshold != _UNTUNED:
            atomic_write_text(folder / _THRESHOLD, json.dumps({"threshold": self.threshold}) + "\n")

    def load(self, folder: Path) -> None:
        """Load a file of `save`."""
        super().load(folder)
        if self.options.decision == "marginals" and (folder / _THRESHOLD).is_file():
            found = read_json(folder / _THRESHOLD)
            threshold = found.get("threshold") if isinstance(found, dict) else None
            if type(threshold) is not float or not 0 < threshold < 1:
                raise DataError(
                    f"the threshold is {repr_short(threshold)}",
                    file=str(folder / _THRESHOLD),
                    expected='{"threshold": 0.5}, between 0 and 1',
                    remedy="restore the file",
                )
            self.threshold = threshold

    def read_hypothesis(self, hypothesis: Hypothesis, example: Example) -> Labels | None:
        """A search's output as labels: the best set, or all labels above the threshold (the likeliest if none is)."""
        if "marginals" in hypothesis.details:
            scores, threshold = self._adjusted(hypothesis), self.threshold if self.override is None else self.override
            found = ScoredLabels(above(self.names, scores, threshold, allow_empty=self.options.allow_empty))
            found.probabilities = dict(zip(self.names, scores.tolist(), strict=True))
            return found
        return super().read_hypothesis(hypothesis, example)

    def leave_out_below(self, threshold: float | None) -> None:
        if self.options.decision == "best":
            super().leave_out_below(threshold)
        self.override = threshold

    def _adjusted(self, hypothesis: Hypothesis) -> np.ndarray:
        """The labels' marginals, their log-odds less prior_adjustment * (log prior - its mean)."""
        marginals = np.array(hypothesis.details["marginals"][len(SPECIALS) :])
        share = self.options.prior_adjustment
        if not share:
            return marginals
        clipped = marginals.clip(1e-6, 1 - 1e-6)
        odds = np.log(clipped / (1 - clipped))
        prior = np.log(np.array(self.target.vocabulary.symbol_counts))
        return 1 / (1 + np.exp(share * (prior - prior.mean()) - odds))

    def tune(self, examples: Sequence[Example], decode: Callable[[Sequence[Example]], list[list[Hypothesis]]]) -> str:
        """Tune the threshold for the highest micro-F1 on the validation split.

        Args:
            examples: of the validation split.
            decode: returns the hypotheses of each.

        Returns:
            A message for the log; empty if there is nothing to tune.
        """
        if self.options.decision != "marginals":
            return ""
        scores = np.array([self._adjusted(hypotheses[0]) for hypotheses in decode(examples)])
        true = [example.reference for example in examples]

        def figure(threshold: float) -> float:
            chosen = [above(self.names, row, threshold, allow_empty=self.options.allow_empty) for row in scores]
            return self.score(chosen, true).figures[self.primary_metric]

        figures = {threshold: figure(threshold) for threshold in _THRESHOLDS}
        self.threshold = max(figures, key=figures.__getitem__)
        return f"threshold {self.threshold:g}: validation {self.primary_metric} {figures[self.threshold]:.2f}"

    def score(self, predictions: Sequence[Labels | None], references: Sequence[Labels]) -> Score:
        """F1 in three averages, Hamming loss and subset accuracy over all labels of the training split."""
        return score_labels(references, predictions, labels=self.names)

    def score_examples(self, predictions: Sequence[Labels | None], examples: Sequence[Example]) -> Score:
        """With `true_micro_f1`, against the labels without an annotator's mistakes, where these are known."""
        score = super().score_examples(predictions, examples)
        if not any("oracle" in example.also for example in examples):
            return score
        true = self.score(predictions, [example.also.get("oracle", example.reference) for example in examples])
        return replace(score, figures=score.figures | {"true_micro_f1": true.figures["micro_f1"]})
