"""Speech translation: sound in one language in, text in another out, BLEU as the metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from seq2seq_suite.config_section import Section, Symbols
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.options import Data
from seq2seq_suite.data.subwords import clean_text, load_subwords, train_subwords
from seq2seq_suite.files import read_lines
from seq2seq_suite.metrics.bleu import score_translations
from seq2seq_suite.metrics.error_rate import normalise
from seq2seq_suite.sizes import Sizes
from seq2seq_suite.tasks.sound import Audio, SoundOptions, SoundTask, spoken_words
from seq2seq_suite.types import Example, Score


@dataclass(frozen=True)
class Translated:
    """A translation and, where it is known, what was said."""

    text: str
    transcript: str = ""


class SpeechTranslationOptions(SoundOptions):
    """Options of speech translation."""

    text_column: str = "text"  # of the transcript, for CTC
    translation_column: str = "translation"
    subwords: Literal["characters", "bpe", "unigram"] = "characters"  # of the translation
    vocabulary_size: Symbols = 1000  # at most
    metric_tokenizer: Literal["13a", "zh", "none"] = "zh"  # of sacreBLEU


class SpeechTranslationTask(SoundTask):
    """Sound -> text in another language.

    The target is characters or subwords of the translation; CTC spells the transcript in characters.

    Args:
        options: the configuration's `speech_translation`.
        audio, data, seed: see `SoundTask`.
    """

    name = "speech_translation"
    sections: ClassVar[Mapping[str, type[Section]]] = {"speech_translation": SpeechTranslationOptions, "audio": Audio}
    primary_metric = "bleu"
    higher_is_better = True

    def __init__(self, options: SpeechTranslationOptions, audio: Audio, data: Data, *, seed: int = 1,
                 pieces_from: str = ""):
        super().__init__(audio, data, seed=seed)
        self.options = options

    # -- data ---------------------------------------------------------------------------------------------------

    def read(self, split: str) -> list[Example]:
        """The recordings of a split with their translations."""
        return self.read_recordings(split)

    def reference(self, row: Row) -> Translated:
        """Translation and transcript."""
        keys = self.options
        said = self.column(row, keys.text_column, "speech_translation.text_column")
        text = self.column(row, keys.translation_column, "speech_translation.translation_column")
        return Translated(clean_text(text), spoken_words(said, row))

    def spoken(self, reference: Translated) -> str:
        """The transcript's words."""
        return normalise(reference.transcript)

    def written(self, reference: Translated) -> str:
        """The translation."""
        return reference.text

    def row(self, example: Example, text: str) -> dict[str, str]:
        """The sound file, what is said, and the translation."""
        return {**self.sound_row(example), self.options.text_column: example.reference.transcript,
                self.options.translation_column: text}

    def read_references(self, path: Path) -> list[Translated]:
        """A translation on each line; an empty line is an empty one."""
        return [Translated(clean_text(line)) for line in read_lines(path)]

    # -- numbers ------------------------------------------------------------------------------------------------

    def fit(self, examples: Sequence[Example]) -> None:
        """Symbols of both languages, and the features' statistics, from the training split."""
        self.target = train_subwords(self.options.subwords, [example.reference.text for example in examples],
                                     size=self.options.vocabulary_size)
        self.transcript = train_subwords("characters", [self.spoken(example.reference) for example in examples],
                                         size=self.options.vocabulary_size)
        self.measure(examples)
        self.report_short("train", examples)

    def save(self, folder: Path) -> None:
        """Write symbols and statistics."""
        self.save_statistics(folder)
        self.target.save(folder, "target")
        self.transcript.save(folder, "symbols")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        self.target = load_subwords(self.options.subwords, folder, "target")
        self.transcript = load_subwords("characters", folder, "symbols")
        self.load_statistics(folder)

    def sizes(self) -> Sizes:
        """What the vocabularies ask of a model."""
        return Sizes(target_symbols=len(self.target), source_symbols=0, sound=self.sound_shape(),
                     ctc_symbols=len(self.transcript))

    # -- judging and showing ------------------------------------------------------------------------------------

    def score(self, predictions: Sequence[str | Translated | None], references: Sequence[Translated]) -> Score:
        """BLEU and chrF."""
        given = [found.text if isinstance(found, Translated) else found for found in predictions]
        return score_translations(given, [reference.text for reference in references],
                                  tokenizer=self.options.metric_tokenizer)

    def to_text(self, prediction: str | Translated | None) -> str:
        """The translation on one line."""
        return prediction.text if isinstance(prediction, Translated) else prediction or ""

    def draw(self, prediction: str | None) -> str:
        """The translation."""
        return self.to_text(prediction) or "(nothing)"
