"""Translation: from a sentence to one in another language, scored by BLEU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field as Bounds
from pydantic import model_validator

from seq2seq_suite.common.errors import ConfigError, DataError, truncate
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.common.types import END, SymbolGain
from seq2seq_suite.data.lines import NoColumn, Row
from seq2seq_suite.data.printed import unprinted
from seq2seq_suite.data.subwords import clean_text
from seq2seq_suite.metrics.bleu import (
    JUDGED,
    Tokenizer,
    need_tokenizer,
    score_of_several,
    score_translations,
    shortness,
    tokenised_share,
)
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import Section, Symbols, Use, among
from seq2seq_suite.tasks.charts.words import words_of
from seq2seq_suite.tasks.fields.base import Field
from seq2seq_suite.tasks.fields.text import Subwords, Text
from seq2seq_suite.tasks.language_models.ngrams import Ngrams
from seq2seq_suite.tasks.options import NO_TRANSCRIPT, TaskOptions
from seq2seq_suite.tasks.rows import named
from seq2seq_suite.tasks.text_to_text import TextPresentation, TextToText

_COLUMNS = (("src", "tgt"), ("source", "target"))  # used if no column is named by its language
_MANY_TOKENISED = 0.2


class TranslationOptions(TaskOptions):
    """Options of the translation task."""

    source_language: str = "en"  # names of columns and files: `en`, train.en; a language of the embedded data;
    # columns src and tgt are source and target whatever the languages
    target_language: str = "de"  # the same for the target
    source_column: str = ""  # of the source; empty: the language, src or source
    target_column: str = ""  # of the target; empty: the language, tgt or target
    source_subwords: Literal["bpe", "unigram", "characters", "imported"] = "bpe"  # imported: those of init_from, or of
    # the run itself, which `import` wrote
    target_subwords: Literal["bpe", "unigram", "characters", "imported"] = "bpe"
    vocabulary_size: Symbols = 4000  # of each side, or of both together; at most
    joint: bool = True  # one vocabulary for both languages: source, target and output share an embedding
    lowercase: Literal["none", "source", "both"] = "none"  # with `both` metrics ignore case, too
    metric_tokenizer: Tokenizer = "auto"  # of sacreBLEU; auto: zh of Chinese references, char of others without blanks
    # between words, else 13a; none only for text tokenised already
    tokenised_lowercase_bleu: bool = False  # also report it, as many papers do
    ngrams: Annotated[int, Bounds(ge=0, le=3)] = 0  # n of the n-grams of target pieces that training counts for
    # the beam search of strategy.kind ctc; 0: none
    ngram_weight: Annotated[float, Bounds(ge=0.0, le=100.0)] = 0.6  # weight of the n-grams' log p in that search
    piece_bonus: Annotated[float, Bounds(ge=0.0, le=100.0)] = 4.0  # added to the score for each piece in that search

    uses: ClassVar[tuple[Use, ...]] = (
        *NO_TRANSCRIPT,
        among(("translation.ngrams",), "strategy.kind", "ctc"),
        Use(("translation.ngram_weight", "translation.piece_bonus"), "translation.ngrams", "above 0", bool),
        Use(
            ("translation.ngram_weight", "translation.piece_bonus"),
            "search.beam_size",
            "above 1",
            lambda size: size > 1,
        ),
    )

    @model_validator(mode="after")
    def _sides_agree(self) -> TranslationOptions:
        kinds = {self.source_subwords, self.target_subwords}
        if self.joint and len(kinds) > 1:
            raise ValueError(
                "translation.joint needs the same translation.source_subwords and translation.target_subwords"
            )
        if self.source_language == self.target_language:
            raise ValueError(
                f"translation.source_language and translation.target_language are both {truncate(self.source_language)}"
            )
        if self.target_language == "zh" and (self.metric_tokenizer == "13a" or self.tokenised_lowercase_bleu):
            raise ValueError(
                "translation.target_language zh has no spaces between words: "
                "translation.metric_tokenizer must not be 13a, nor translation.tokenised_lowercase_bleu "
                "true"
            )
        return self


class TranslationPresentation(TextPresentation):
    """Outputs are compared with the references word by word."""

    verb, pipeline_tag, input_text = "Translate", "translation", "The dog sleeps."

    def length(self, example: Example) -> float:
        """Words and signs; characters of Chinese."""
        return float(len(words_of(example.source)))


class TranslationTask(TextToText):
    """Sentence -> sentence.

    Source and target are subwords, both end in END. Texts are unchanged except for blanks.
    """

    name = "translation"
    sections: ClassVar[Mapping[str, type[Section]]] = {"translation": TranslationOptions}
    primary_metric = "bleu"
    presented_by = TranslationPresentation
    view, item, expected = "translations", "pair", "rows with a sentence in each language"

    def __init__(self, options: TranslationOptions, data: Data, **others: Any):
        super().__init__(options, data, **others)
        self.languages = (options.source_language, options.target_language)
        common = {"longest": data.max_length, "pieces_from": self.pieces_from}
        source, target = ("joint", "joint") if options.joint else ("source", "target")
        chosen = (options.source_column, options.target_column)
        self.named_so = (
            tuple(name or language for name, language in zip(chosen, self.languages, strict=True))
            if any(chosen)
            else ()
        )
        columns = self.named_so or _COLUMNS[0]
        self.source = Subwords(
            source,
            options.source_subwords,
            options.vocabulary_size,
            **common,
            column=columns[0],
            lower_case=options.lowercase != "none",
            shared=options.joint,
        )
        self.target = Text(
            target,
            options.target_subwords,
            options.vocabulary_size,
            **common,
            column=columns[1],
            lower_case=options.lowercase == "both",
        )
        self.ngrams = Ngrams(options.ngrams)

    def example(self, row: Row) -> Example:
        """Both sentences, neither empty nor too long."""
        languages = (self.options.source_language, self.options.target_language)
        place, texts = row.place, [clean_text(text) for text in _pair(row, languages, self.named_so)]
        for text, language in zip(texts, languages, strict=True):
            if not text:
                raise DataError(
                    f"the {language} side is empty",
                    **place,
                    expected="a sentence in each language",
                    remedy="remove the pair",
                )
        return Example(
            self.source.check_clean(texts[0], place),
            self.target.check_clean(texts[1], place),
            row.origin,
            also=self._also(row),
        )

    def _also(self, row: Row) -> dict[str, Any]:
        """All right texts of a row, from its column `LANGUAGE_references`, and the words that must have been seen."""
        found = {name: row.fields.get(f"{self.options.target_language}_{name}") for name in ("references", "lawless")}
        return {name: value for name, value in found.items() if isinstance(value, list) and value}

    def row(self, example: Example, text: str) -> dict[str, Any]:
        """Both sentences, and what `_also` reads."""
        also = {f"{self.options.target_language}_{name}": value for name, value in example.also.items()}
        return {**super().row(example, text), **also}

    def oracle(self, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
        """The references, with the source's word for each that neither a sound law nor a training source gives."""
        known = {word for example in train for word in re.findall(r"\w+", example.source)}
        found = []
        for example in examples:
            text = example.reference
            for given, wanted in example.also.get("lawless", ()):
                if not known & {form for word in given for form in (word, word.capitalize())}:
                    text = re.sub(rf"\b({'|'.join(wanted)})\b", given[0], text)
            found.append(text)
        return found

    @property
    def target_fields(self) -> tuple[Field, ...]:
        """With the n-grams, if they are counted."""
        return (self.target, self.ngrams) if self.options.ngrams else (self.target,)

    def count(self, examples: Iterable[Example]) -> None:
        """The n-grams of the targets' pieces."""
        if self.options.ngrams:
            texts = (self.target.normalised(example.reference) for example in examples)
            self.ngrams.count(map(self.target.pieces.encode, texts), symbols=len(self.target))

    def language(self) -> SymbolGain | None:
        """weight * log p(piece | those before) + bonus; END has no bonus. Raises ConfigError if none were counted.

        Source: Q(c) of Deep Speech, Hannun et al. 2014, with pieces in place of words.
        """
        options, probability = self.options, self.ngrams.probability
        if not options.ngrams:
            return None
        if not self.ngrams.symbols:
            raise ConfigError(
                f"translation.ngrams {options.ngrams}, but the run has counted none",
                expected="a run that was trained with translation.ngrams",
                remedy="train it so, or leave translation.ngrams at 0",
            )
        weight, bonus = options.ngram_weight, options.piece_bonus
        return lambda output, piece: weight * log(probability(output, piece)) + (bonus if piece != END else 0.0)

    def inspect(self, split: str, examples: Sequence[Example]) -> list[str]:
        """Warnings about a split: tokenised text, targets that the metric does not suit, or that are untranslated."""
        sources = [example.source for example in examples]
        targets = [example.reference for example in examples]
        found = shortness(targets[:JUDGED], tokenizer=self.options.metric_tokenizer)
        if tokenised_share(sources) > _MANY_TOKENISED >= tokenised_share(targets):
            found.append("the sources look tokenised: sentences to translate must be tokenised, too")
        same = sum(source == target for source, target in zip(sources, targets, strict=True))
        if same > _MANY_TOKENISED * len(examples):
            found.append(f"{same} of {len(examples)} targets are their sources: untranslated, or the wrong columns")
        return found

    def score(self, predictions: Sequence[str | None], *references: Sequence[str]) -> Score:
        """BLEU and chrF with sacreBLEU's signatures, and optional metrics."""
        options = self.options
        return score_translations(
            predictions,
            *references,
            tokenizer=options.metric_tokenizer,
            lowercase=options.lowercase == "both",
            tokenised_lowercase=options.target_language if options.tokenised_lowercase_bleu else "",
        )

    def score_each(self, predictions: Sequence[str | None], references: Sequence[Sequence[str]]) -> Score:
        options = self.options
        return score_of_several(
            predictions,
            references,
            tokenizer=options.metric_tokenizer,
            lowercase=options.lowercase == "both",
            tokenised_lowercase=options.target_language if options.tokenised_lowercase_bleu else "",
        )

    def check_installed(self) -> None:
        super().check_installed()
        need_tokenizer(self.options.metric_tokenizer)


def _pair(row: Row, languages: tuple[str, str], named_so: tuple[str, ...] = ()) -> list[str]:
    """The two sentences of a row, by the names of its columns; `named_so` are those that options name, if they do.

    >>> _pair(Row({"translation": {"de": "ein Hund", "en": "a dog"}}, "train.jsonl", 1), ("en", "de"))
    ['a dog', 'ein Hund']
    >>> _pair(Row({"target": "ein Hund", "source": "a dog", "id": 7}, "train.csv", 2), ("en", "de"))
    ['a dog', 'ein Hund']
    """
    fields = row.fields
    wanted: tuple[str, ...] = languages
    inner = unprinted(fields.get("translation"))
    candidates: list[tuple[Mapping[str, Any], tuple[str, ...]]] = [(fields, names) for names in (languages, *_COLUMNS)]
    if named_so:
        wanted, candidates = named_so, [(fields, named_so)]
    elif isinstance(inner, Mapping):
        candidates.insert(0, (inner, languages))
    for there, names in candidates:
        if all(name in there for name in names):
            for name in names:
                if not isinstance(there[name], str):
                    raise DataError(
                        f"'{name}' is {named(there[name])}",
                        **row.place,
                        expected="a sentence",
                        remedy="correct the row, or remove it",
                    )
            return [there[name] for name in names]
    if "translation" in fields and not isinstance(inner, Mapping) and not named_so:
        raise DataError(
            f"'translation' is {named(inner)}",
            **row.place,
            expected=f"an object with {languages[0]} and {languages[1]}",
            remedy="write such an object, or columns of these names",
        )
    there, where = (inner, "languages under 'translation'") if candidates[0][0] is inner else (fields, "columns")
    missing = [name for name in wanted if name not in there]
    found = truncate(", ".join(map(str, there)))
    raise NoColumn(
        f"no column {' and no column '.join(missing)}; the {where} are {found}",
        **row.place,
        expected=f"columns {wanted[0]} and {wanted[1]}, src and tgt, or source and target, or "
        f'a column translation with {{"{languages[0]}": ..., "{languages[1]}": ...}}',
        remedy="set translation.source_column and translation.target_column, or name the columns so",
    )
