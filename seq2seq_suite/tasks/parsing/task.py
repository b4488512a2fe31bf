"""Constituency parsing: from a sentence to a linearised tree, scored by EVALB's F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Encoded, Example, Score
from seq2seq_suite.common.files import read_lines
from seq2seq_suite.common.shapes import TargetShape
from seq2seq_suite.common.text import split_blanks
from seq2seq_suite.common.trees import TRACE, Tree, clean, read_trees
from seq2seq_suite.common.types import SPECIALS, UNKNOWN, Constraint, Hypothesis
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.metrics.evalb import evalb
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import NotNegativeFloat, Positive, Section, ShareOrNone, Use
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.fields.text import Symbols, Words
from seq2seq_suite.tasks.options import NO_TRANSCRIPT, TaskOptions
from seq2seq_suite.tasks.parsing.linearisation import Bracketing, Brackets, InOrder
from seq2seq_suite.tasks.parsing.presentation import ParsingPresentation
from seq2seq_suite.tasks.parsing.tetra_tags import TetraTags, guided
from seq2seq_suite.tasks.rows import text_in

_TRACE_ROWS = 1024  # examples whose automata are run together
TAG_WITHOUT_MODEL = "XX"
_MIN_MOVE_COUNT = 5  # rarer ones hardly matter; GENIA's 425 others cover 99.6 %
_MAX_UNARY = 3  # longest chain of nodes with one child
_FAILED, _NOTHING = ("(())", "()"), f"({TRACE} *)"  # no tree, as parsers and as treebanks write it
_LINEARISATIONS = {"in_order": InOrder, "brackets": Brackets, "tetra_tags": TetraTags}


class ParsingOptions(TaskOptions):
    """Options of the parsing task."""

    tree_column: str = "tree"  # of the bracketed tree
    linearisation: Literal["in_order", "brackets", "tetra_tags"] = "in_order"  # tetra_tags: of known length
    guide: bool = True  # the decoder's input includes the parser's state: focus words and open labels;
    # of tetra_tags the words that each stands at
    characters: bool = True  # words are also read letter by letter
    max_characters: Positive = 20  # of a word: the first and last halves of a longer one are kept
    min_count: Positive = 2  # rarer words are <unknown>, read by their letters
    unknown_rate: ShareOrNone = 0.5  # word dropped to <unknown> with rate * min(1, 2/count)
    tag_loss: NotNegativeFloat = 0.5  # weight of predicting part-of-speech tags from the encoder
    move_loss: NotNegativeFloat = 0.5  # weight of predicting the parser's moves after each word
    span_loss: NotNegativeFloat = 0.0  # weight of predicting which spans of words are brackets

    target: ClassVar[str] = "structures"
    constrained: ClassVar[bool] = True
    uses: ClassVar[tuple[Use, ...]] = (
        *NO_TRANSCRIPT,
        Use(
            ("search.beam_size", "search.num_hypotheses", "search.rescorer", "search.risk"),
            "parsing.linearisation",
            "other than tetra_tags, whose length and best output are known",
            "tetra_tags".__ne__,
            lambda config: config.strategy_class.predicts_length and config.search.constraint,
        ),
    )

    def check(self, config: Any) -> None:
        """Only left-to-right decoding has a parser's state; the words of tetra-tags are known before."""
        if self.guide and config.in_parallel and self.linearisation != "tetra_tags":
            raise ValueError(
                f"strategy.kind {config.strategy.kind} predicts all symbols in parallel, so there is no "
                "parser's state to guide it: set parsing.guide=false or parsing.linearisation=tetra_tags"
            )


class Trees(Symbols):
    """A linearised tree whose words are one symbol, and the encoder's auxiliary labels."""

    def __init__(self, options: ParsingOptions):
        super().__init__()
        self.options = options
        self.linearisation: Bracketing | TetraTags = _LINEARISATIONS[options.linearisation]()
        self.tags = self.moves = Vocabulary.build([])
        weights = {"tags": options.tag_loss, "moves": options.move_loss}
        self.label_weights = {kind: weight for kind, weight in weights.items() if weight}

    def fit(self, values: Sequence[Tree]) -> None:
        """Symbols, tags, and the parser's moves between words."""
        super().fit(values)
        self.tags = Vocabulary.build(Counter(tag for tree in values for tag in tree.tags()))
        self.moves = Vocabulary.build(
            Counter(move for tree in values for move in self._moves(tree)), min_count=_MIN_MOVE_COUNT
        )

    def save(self, folder: Path) -> None:
        """Write the vocabularies."""
        super().save(folder)
        self.tags.save(folder / "tags.json")
        self.moves.save(folder / "moves.json")

    def load(self, folder: Path) -> None:
        """Load a file of `save`."""
        super().load(folder)
        self.tags, self.moves = (Vocabulary.load(folder / f"{name}.json") for name in ("tags", "moves"))

    def shape(self) -> TargetShape:
        """An output for each symbol, classifiers of tags and moves, and the guide with the parser's state."""
        labels = {"tags": len(self.tags), "moves": len(self.moves)}
        taught = tuple((kind, labels[kind], weight) for kind, weight in self.label_weights.items())
        if not self.options.guide:
            return TargetShape(len(self), source_labels=taught, span_weight=self.options.span_loss)
        guide = self.constraint()
        return TargetShape(len(self), guide.num_focus, guide.num_context, taught, self.options.span_loss)

    def symbols(self, reference: Tree) -> list[str]:
        """The symbols of a tree."""
        return self.linearisation.write(reference)

    def parse(self, symbols: Sequence[str], example: Example) -> Tree | None:
        """The tree of symbols over the example's words, with its gold tags if it has any."""
        tags = example.reference.tags() if example.reference is not None else [TAG_WITHOUT_MODEL] * len(example.source)
        return self.linearisation.read(symbols, example.source, tags)

    def with_tags(self, hypothesis: Hypothesis, example: Example) -> Tree | None:
        """A search's output as a tree, the tags that the model predicts over its words."""
        likeliest = self.tags.symbols[0]  # for specials, which only an untrained model predicts
        tags = [likeliest if tag in SPECIALS else tag for tag in self.tags.decode(hypothesis.details["tags"][1:-1])]
        return self.linearisation.read(self.names(hypothesis.symbols), example.source, tags)

    def constraint(self) -> Constraint:
        """The automaton that keeps every output one tree over exactly the sentence's words."""
        from seq2seq_suite.tasks.parsing.automaton import ParserAutomaton  # here, for they import torch
        from seq2seq_suite.tasks.parsing.tetra_automaton import TetraAutomaton

        write, names = self.linearisation, self.names(range(len(self)))
        if not isinstance(write, Bracketing):
            return TetraAutomaton(names)
        shift, close = self.vocabulary.encode([write.shift, write.close])
        opens = [
            index
            for index, name in enumerate(names)
            if index >= len(SPECIALS) and name not in (write.shift, write.close)
        ]
        longest = 2 * _MAX_UNARY + 2 if write.top_down else _MAX_UNARY
        return ParserAutomaton(
            top_down=write.top_down, shift=shift, close=close, opens=opens, num_symbols=len(self), max_run=longest
        )

    def source_labels(self, reference: Tree) -> dict[str, np.ndarray]:
        """(S,) each: tags and moves of the words, -1 at the sentinels and for moves that are too rare."""
        moves = self.moves.encode(self._moves(reference))
        columns = {
            "tags": [-1, *self.tags.encode(reference.tags()), -1],
            "moves": [*(-1 if move == UNKNOWN else move for move in moves), -1],
        }
        found = {kind: np.array(columns[kind], dtype=np.int64) for kind in self.label_weights}
        if self.options.span_loss:
            found["spans"] = np.array(sorted(set(reference.spans(1))), dtype=np.int64)
        return found

    def _moves(self, reference: Tree) -> list[str]:
        """The parser's symbols before the first word and after each word, including the word's SHIFT.

        Predicting them needs the tree's structure from the words alone: the encoder learns what the decoder could
        otherwise guess from its own past, and greedy search can rely on it.
        """
        moves: list[list[str]] = [["START"]]
        for symbol in self.symbols(reference):
            if self.linearisation.takes_word(symbol):
                moves.append([])
            moves[-1].append(symbol)
        return [" ".join(move) for move in moves]

    def to_text(self, prediction: Tree | None) -> str:
        """The tree in brackets on one line; `(())`, as other parsers write it, for none."""
        return "(())" if prediction is None else str(prediction)


class ParsingTask(Task[Words, Trees]):
    """Sentence -> tree.

    The source is words, each with its letters, between two sentinels; the target a linearised tree whose words are
    all one symbol. Trees are cleaned as parsers learn them: no traces, no function tags.
    """

    name = "parsing"
    sections: ClassVar[Mapping[str, type[Section]]] = {"parsing": ParsingOptions}
    primary_metric = "f1"
    presented_by, tokenised, rewritable = ParsingPresentation, True, True
    view, item, expected = "trees", "tree", "rows with a bracketed tree"

    def __init__(self, options: ParsingOptions, data: Data, **others: Any):
        super().__init__(options, data, **others)
        self.source = Words(
            longest=data.max_length,
            min_count=options.min_count,
            split=_split,
            tokens=True,
            max_characters=options.max_characters if options.characters else 0,
            dropped=lambda count: options.unknown_rate * min(1.0, 2.0 / count),
        )
        self.target = Trees(options)

    def example(self, row: Row) -> Example:
        """The tree of a row, cleaned, and its words."""
        remedy = 'write rows like {"tree": "(S (NP ...) (VP ...))"}, or a bracketed treebank file'
        text = text_in(row, self.options.tree_column, "parsing.tree_column", remedy=remedy)
        tree = _one_tree(text, row.file, row.line)
        if tree is None or tree.is_preterminal():
            raise DataError(
                "the tree has no bracket over a word",
                **row.place,
                expected="(LABEL (TAG word) ...)",
                remedy="remove the row",
            )
        also: dict[str, Any] = {}
        if sites := row.fields.get("sites"):
            also["sites"] = sites
        if likelier := row.fields.get("oracle"):
            also["oracle"] = _one_tree(likelier, row.file, row.line)
        return Example(self.source.check(tree.words(), row.place), tree, row.origin, also=also)

    def row(self, example: Example, text: str) -> dict[str, Any]:
        """The tree, its words in a column of their own, and what else the row had."""
        also = {name: str(value) if isinstance(value, Tree) else value for name, value in example.also.items()}
        return {"sentence": " ".join(example.source), self.options.tree_column: text, **also}

    def read_references(self, path: Path) -> list[Tree | None]:
        """Bracketed trees, one or several lines each; an empty pair of brackets is a prediction that failed.

        So is a blank line between trees of one line each; in a treebank's layout, over several lines, it is ignored.
        """
        lines = self.in_form(read_lines(path))
        whole = all(line.count("(") == line.count(")") for line in lines)  # trees, each on its line
        if whole and any(line.strip() in ("", *_FAILED) for line in lines):
            return [
                None if line.strip() in ("", *_FAILED) else _one_tree(line, str(path), number)
                for number, line in enumerate(lines, 1)
            ]
        text = "\n".join(_NOTHING if line.strip() in _FAILED else line for line in lines)
        return [clean(tree) for _, tree in read_trees(text, file=str(path))]

    def read_hypothesis(self, hypothesis: Hypothesis, example: Example) -> Tree | None:
        """A search's output as a tree; without gold tags those that the model predicts stand over the words."""
        if example.reference is None and "tags" in hypothesis.details:
            return self.target.with_tags(hypothesis, example)
        return super().read_hypothesis(hypothesis, example)

    def auxiliary(self, example: Example) -> dict[str, np.ndarray]:
        """Labels of the words, if there is a tree, and the words of tetra-tags."""
        labels = {} if example.reference is None else self.target.source_labels(example.reference)
        known = self.options.guide and isinstance(self.target.linearisation, TetraTags)
        return labels | guided(len(example.source)) if known else labels

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Examples as numbers, where the decoder is guided with the automaton's states along their trees."""
        encoded = list(super().encode(examples))
        if not self.options.guide or isinstance(self.target.linearisation, TetraTags):
            return encoded
        order = sorted(range(len(encoded)), key=lambda index: len(encoded[index].target))
        for first in range(0, len(order), _TRACE_ROWS):
            rows = [index for index in order[first : first + _TRACE_ROWS] if len(encoded[index].target)]
            if not rows:
                continue
            traced = trace(self.target.constraint(), [encoded[index] for index in rows])
            for index, focus, context in zip(rows, *traced, strict=True):
                known = {**encoded[index].auxiliary, "focus": focus, "context": context}
                encoded[index] = replace(encoded[index], auxiliary=known)
        return encoded

    def score(self, predictions: Sequence[Tree | None], references: Sequence[Tree]) -> Score:
        """EVALB's figures, without that of tags where these are the treebank's own, as over a run's outputs."""
        score = evalb(references, predictions)
        given = "|tags:gold|" in score.signature
        return replace(
            score,
            figures={
                name: figure for name, figure in score.figures.items() if not (given and name == "tagging_accuracy")
            },
        )

    def score_examples(self, predictions: Sequence[Tree | None], examples: Sequence[Example]) -> Score:
        """With `attachment`: the share (%) of doubtful phrases that hang where they do in the reference."""
        score = super().score_examples(predictions, examples)
        right = [
            attached(prediction, begin, end) == attached(example.reference, begin, end)
            for prediction, example in zip(predictions, examples, strict=True)
            for begin, end, _ in example.also.get("sites", ())
        ]
        found = {"attachment": 100.0 * sum(right) / len(right)} if right else {}
        return replace(score, figures=score.figures | found)


def attached(tree: Tree | None, begin: int, end: int) -> tuple[str, int] | None:
    """The label and the first word of the smallest bracket around words that is larger than they; None without a tree.

    >>> tree = next(read_trees("(S (NP (D the) (N man)) (VP (V saw) (NP (NP (N it)) (PP (P with) (N me)))))"))[1]
    >>> attached(tree, 4, 6), attached(tree, 3, 4)
    (('NP', 3), ('NP', 3))
    """
    found, first = None, 0
    while tree is not None:
        found, inside, at = (tree.label, first), None, first
        for child in tree.children:
            length = 1 if isinstance(child, str) else len(child.words())
            if isinstance(child, Tree) and at <= begin and end <= at + length and length > end - begin:
                inside, first = child, at
            at += length
        tree = inside
    return found


def _split(text: str) -> list[str]:
    """A tokenised sentence, words separated by spaces, brackets written -LRB- and -RRB- as in treebanks."""
    return split_blanks(text.replace("(", "-LRB-").replace(")", "-RRB-"))


def _one_tree(text: str, file: str, line: int) -> Tree | None:
    """The tree in a text, cleaned; None if nothing but traces was in it."""
    trees = [tree for _, tree in read_trees(text, file=file, first_line=line)]
    if len(trees) != 1:
        raise DataError(
            f"{len(trees)} trees in one row",
            file=file,
            line=line,
            expected="one tree",
            remedy="write each in a row of its own",
        )
    return clean(trees[0])


def trace(automaton: Constraint, encoded: Sequence[Encoded]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The automaton's focus and context before each symbol of the gold targets.

    Returns:
        For each example (T,K) and (T,M) int64.
    """
    import torch

    from seq2seq_suite.data.batching import collate

    batch = collate(encoded, "parsing")
    lengths = batch.target_mask.sum(1)
    state, focus, context = automaton.start(batch, lengths), [], []
    for symbols in batch.target.unbind(1):
        focus.append(automaton.focus(state))
        context.append(automaton.context(state))
        state = automaton.advance(state, symbols)
    focused, surrounding = (
        [row[:length].copy() for row, length in zip(torch.stack(steps, 1).numpy(), lengths.tolist(), strict=True)]
        for steps in (focus, context)
    )
    return focused, surrounding
