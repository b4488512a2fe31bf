"""Translation: a sentence in one language in, the sentence in another out, BLEU as the metric."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from seq2seq_suite.config_section import Fraction, NotNegativeFloat, Section, Symbols
from seq2seq_suite.data.formats import BadRows, Row
from seq2seq_suite.data.options import Data
from seq2seq_suite.data.parallel import find_parallel, read_parallel
from seq2seq_suite.data.subwords import Characters, Subwords, clean_text, load_subwords, train_subwords
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.files import read_lines
from seq2seq_suite.metrics.bleu import complaints, score_translations, tokenised_share
from seq2seq_suite.sizes import Sizes
from seq2seq_suite.tasks.free_text import FreeText
from seq2seq_suite.tasks.options import TaskOptions
from seq2seq_suite.tasks.reading import open_split, place_of, read_examples
from seq2seq_suite.types import END, DataError, Encoded, Example, Score, brief

_COLUMNS = (("src", "tgt"), ("source", "target"))  # read where no column is named by its language
_MANY_TOKENISED = 0.2
_VIEW = "translations"


class TranslationOptions(TaskOptions):
    """Options of the translation task."""

    source_language: str = "en"  # what columns and files are called: `en`, train.en; a language of the embedded data
    target_language: str = "de"
    source_subwords: Literal["bpe", "unigram", "characters"] = "bpe"
    target_subwords: Literal["bpe", "unigram", "characters"] = "bpe"
    vocabulary_size: Symbols = 4000  # of each side, or of both together; at most
    joint: bool = True  # one vocabulary for both languages: source, target and output share an embedding
    bpe_dropout: Fraction = 0.0  # in training each merge is left out with this probability
    unigram_alpha: NotNegativeFloat = 0.0  # in training segmentations are drawn with p^alpha; 0 is off
    lowercase: Literal["none", "source", "both"] = "none"  # with `both` the figures disregard case, too
    metric_tokenizer: Literal["13a", "zh", "none"] = "13a"  # of sacreBLEU; none only for text tokenised already
    tokenised_lowercase_bleu: bool = False  # as many papers print it, besides

    @model_validator(mode="after")
    def _sides_agree(self) -> TranslationOptions:
        kinds = {self.source_subwords, self.target_subwords}
        if self.joint and len(kinds) > 1:
            raise ValueError("translation.joint needs the same translation.source_subwords and "
                             "translation.target_subwords")
        for key, kind in (("bpe_dropout", "bpe"), ("unigram_alpha", "unigram")):
            if getattr(self, key) and kind not in kinds:
                raise ValueError(f"translation.{key} acts on {kind} subwords, but translation.source_subwords is "
                                 f"{self.source_subwords} and translation.target_subwords {self.target_subwords}")
        if self.source_language == self.target_language:
            raise ValueError(f"translation.source_language and translation.target_language are both "
                             f"{brief(self.source_language)}")
        if self.target_language == "zh" and (self.metric_tokenizer == "13a" or self.tokenised_lowercase_bleu):
            raise ValueError("translation.target_language zh has no spaces between words: "
                             "translation.metric_tokenizer must be zh, and translation.tokenised_lowercase_bleu false")
        return self


class TranslationTask(FreeText):
    """Sentence -> sentence.

    Source and target are subwords, both end in END. Texts are kept as they are but for their blanks.

    Args:
        options: the configuration's `translation`.
        data: the configuration's `data`.
        seed: of the segmentations drawn in training.
        pieces_from: a run whose subwords are used, those of the weights that training begins with; empty to learn them.
    """

    name = "translation"
    sections: ClassVar[Mapping[str, type[Section]]] = {"translation": TranslationOptions}
    primary_metric = "bleu"
    higher_is_better = True
    label_weights: Mapping[str, float] = {}

    def __init__(self, options: TranslationOptions, data: Data, *, seed: int = 1, pieces_from: str = ""):
        self.options, self.data, self.seed, self.pieces_from = options, data, seed, pieces_from
        self.languages = (options.source_language, options.target_language)
        self.source: Subwords = Characters(Vocabulary.build([]))
        self.target: Subwords = self.source

    # -- data ---------------------------------------------------------------------------------------------------

    def read(self, split: str) -> list[Example]:
        """The pairs of a split.

        Raises:
            DataError: a file is missing, the split is empty, or more rows than `data.max_bad_rows` are broken.
        """
        return read_examples(self.data, split, self._example, view=_VIEW, open_rows=lambda bad: self._rows(split, bad),
                             item="pair", expected="rows with a sentence in each language")

    def _rows(self, split: str, bad: BadRows) -> Iterator[Row]:
        files = find_parallel(self.data.path, split, self.languages, splits=self.data.splits, subset=self.data.subset)
        if files is not None:
            return read_parallel(files, self.languages, bad=bad)
        return open_split(self.data, split, bad, view=_VIEW)

    def _example(self, row: Row) -> Example:
        source, target = (clean_text(text) for text in _pair(row, self.languages))
        place = {"file": row.file, "line": row.line}
        for text, language in ((source, self.languages[0]), (target, self.languages[1])):
            if not text:
                raise DataError(f"the {language} side is empty", **place, expected="a sentence in each language",
                                remedy="remove the pair")
        self._check_length(source, self.options.source_subwords, **place)
        self._check_length(target, self.options.target_subwords, **place)
        return Example(source, target, f"{row.file}:{row.line}")

    def _check_length(self, text: str, subwords: str, *, file: str, line: int) -> None:
        """Refuse what is too long whatever the pieces: its words, where pieces end with words, or its characters."""
        unit, length = ("characters", len(text)) if subwords == "characters" else ("words", text.count(" ") + 1)
        self._refuse_long(length, unit, file=file, line=line)

    def _refuse_long(self, length: int, unit: str, *, file: str, line: int) -> None:
        if length > self.data.max_length:
            raise DataError(f"a sentence of {length} {unit}", file=file, line=line,
                            expected=f"at most {self.data.max_length}",
                            remedy="raise data.max_length (and backbone.max_positions), or split the sentence")

    def from_text(self, text: str, *, origin: str = "") -> Example:
        """A sentence to translate, as people write it."""
        place, sentence = place_of(origin), clean_text(text)
        if not sentence:
            raise DataError("an empty sentence", **place, expected="a sentence on each line")
        self._check_length(sentence, self.options.source_subwords, **place)
        return Example(sentence, None, origin)

    def row(self, example: Example, text: str) -> dict[str, str]:
        """A row of parallel text."""
        return {"src": example.source, "tgt": text}

    def read_references(self, path: Path) -> list[str]:
        """A sentence on each line; an empty line is an empty translation."""
        return [clean_text(line) for line in read_lines(path)]

    def inspect(self, split: str, examples: Sequence[Example]) -> list[str]:
        """What looks wrong in a split: tokenised text, empty or untranslated targets."""
        sources = [example.source for example in examples]
        targets = [example.reference for example in examples]
        found = complaints(targets, tokenizer=self.options.metric_tokenizer)
        if not found and tokenised_share(sources) > _MANY_TOKENISED:
            found.append("the sources look tokenised already: sentences to translate must then be, too")
        same = sum(source == target for source, target in zip(sources, targets, strict=True))
        if same > _MANY_TOKENISED * len(examples):
            found.append(f"{same} of {len(examples)} targets are their sources: untranslated, or the wrong columns")
        return found

    # -- numbers ------------------------------------------------------------------------------------------------

    def fit(self, examples: Sequence[Example]) -> None:
        """Subwords of each language, or of both together, from the training split or another run.

        Raises:
            DataError: that run has none of this kind.
        """
        if self.pieces_from:
            try:
                self.load(Path(self.pieces_from) / "vocabulary")
            except DataError:
                raise DataError("this run, of which init_from speaks, has no such subwords", file=self.pieces_from,
                                expected="a translation run whose subwords are of the same kind",
                                remedy="correct init_from, give both runs the same options under `translation`, or "
                                       "leave `frontend` out of init_parts") from None
            return
        sources = [self._source_text(example.source) for example in examples]
        targets = [self.written(example.reference) for example in examples]
        self.source, self.target = (
            (self._train(self.options.source_subwords, sources + targets),) * 2 if self.options.joint else
            (self._train(self.options.source_subwords, sources), self._train(self.options.target_subwords, targets)))

    def _train(self, kind: str, texts: Iterable[str]) -> Subwords:
        return train_subwords(kind, texts, size=self.options.vocabulary_size, alpha=self._alpha(kind))

    def _alpha(self, kind: str) -> float:
        return {"bpe": self.options.bpe_dropout, "unigram": self.options.unigram_alpha}.get(kind, 0.0)

    def save(self, folder: Path) -> None:
        """Write the subwords."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.options.joint:
            self.source.save(folder, "joint")
        else:
            self.source.save(folder, "source")
            self.target.save(folder, "target")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        source, target = self.options.source_subwords, self.options.target_subwords
        name = "joint" if self.options.joint else "source"
        self.source = load_subwords(source, folder, name, alpha=self._alpha(source))
        self.target = self.source if self.options.joint else \
            load_subwords(target, folder, "target", alpha=self._alpha(target))

    def sizes(self) -> Sizes:
        """What the vocabularies ask of a model."""
        return Sizes(target_symbols=len(self.target), source_symbols=len(self.source),
                     shared_symbols=self.options.joint)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Examples as numbers, each text in its best segmentation.

        Raises:
            DataError: a text has more pieces than `data.max_length`.
        """
        return [self._encode_one(index, example) for index, example in enumerate(examples)]

    @property
    def varies(self) -> bool:
        """Whether segmentations are drawn in training."""
        return bool(self.options.bpe_dropout or self.options.unigram_alpha)

    def encode_epoch(self, examples: Sequence[Example], epoch: int) -> list[Encoded]:
        """Examples with segmentations drawn for an epoch."""
        return [self._draw_one(index, example, epoch) for index, example in enumerate(examples)]

    def _encode_one(self, index: int, example: Example) -> Encoded:
        source = self.source.encode(self._source_text(example.source))
        target = [] if example.reference is None else self.target.encode(self.written(example.reference))
        for pieces in (source, target):
            self._refuse_long(len(pieces), "pieces", **place_of(example.origin))
        return self._encoded(index, source, target if example.reference is not None else None)

    def _draw_one(self, index: int, example: Example, epoch: int) -> Encoded:
        drawn = []
        for side, subwords, text in ((0, self.source, self._source_text(example.source)),
                                     (1, self.target, self.written(example.reference))):
            pieces = subwords.sample(text, zlib.crc32(f"{self.seed}/{epoch}/{index}/{side}".encode()))
            # The best segmentation is short enough, a drawn one may be too long for the model's positions.
            drawn.append(pieces if len(pieces) <= self.data.max_length else subwords.encode(text))
        return self._encoded(index, *drawn)

    @staticmethod
    def _encoded(index: int, source: list[int], target: list[int] | None) -> Encoded:
        return Encoded(np.array([*source, END], dtype=np.int64),
                       np.array([] if target is None else [*target, END], dtype=np.int64), index=index)

    def _source_text(self, text: str) -> str:
        return text if self.options.lowercase == "none" else text.lower()

    def written(self, reference: str) -> str:
        """A translation as it is learned: in lower case where the options say so."""
        return reference.lower() if self.options.lowercase == "both" else reference

    # -- judging and showing ------------------------------------------------------------------------------------

    def score(self, predictions: Sequence[str | None], references: Sequence[str]) -> Score:
        """BLEU and chrF with sacreBLEU's signatures, and what else the options ask for."""
        options = self.options
        return score_translations(
            predictions, references, tokenizer=options.metric_tokenizer, lowercase=options.lowercase == "both",
            tokenised_lowercase=options.target_language if options.tokenised_lowercase_bleu else "")

    def to_text(self, prediction: str | None) -> str:
        """The translation on one line."""
        return prediction or ""

    def draw(self, prediction: str | None) -> str:
        """The translation."""
        return prediction or "(nothing)"


def _pair(row: Row, languages: tuple[str, str]) -> tuple[str, str]:
    """The two sentences of a row, by the names of its columns.

    >>> _pair(Row({"translation": {"de": "ein Hund", "en": "a dog"}}, "train.jsonl", 1), ("en", "de"))
    ('a dog', 'ein Hund')
    >>> _pair(Row({"target": "ein Hund", "source": "a dog", "id": 7}, "train.csv", 2), ("en", "de"))
    ('a dog', 'ein Hund')
    """
    fields = row.fields
    inner = fields.get("translation")
    candidates: list[tuple[dict[str, Any], tuple[str, str]]] = [(inner, languages)] if isinstance(inner, dict) else []
    candidates += [(fields, names) for names in (languages, *_COLUMNS)]
    for columns, names in candidates:
        if all(isinstance(columns.get(name), str) for name in names):
            return columns[names[0]], columns[names[1]]
    there = ", ".join(map(str, inner if isinstance(inner, dict) else fields))
    where = "languages under 'translation'" if isinstance(inner, dict) else "columns"
    first, second = languages
    raise DataError(f"no text in {first} and {second}; the {where} are {there}", file=row.file, line=row.line,
                    expected=f"columns {first} and {second}, src and tgt, or source and target, or a column "
                             f'translation with {{"{first}": ..., "{second}": ...}}',
                    remedy="name the columns so, or set translation.source_language and target_language to theirs")
