"""Speech translation: from sound to text in another language, scored by BLEU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Literal

from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.subwords import IMPORTED, clean_text
from seq2seq_suite.metrics.bleu import JUDGED, Tokenizer, need_tokenizer, score_translations, shortness
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import Section, Symbols, Use
from seq2seq_suite.tasks.charts.words import judge_words, lengths
from seq2seq_suite.tasks.fields.base import Place
from seq2seq_suite.tasks.fields.text import Text
from seq2seq_suite.tasks.options import NO_SEARCH_BY_CTC
from seq2seq_suite.tasks.presentation import Judgement
from seq2seq_suite.tasks.rows import text_in
from seq2seq_suite.tasks.sound import Audio, SoundOptions, SoundTask, Spoken, spoken_words
from seq2seq_suite.tasks.sound_presentation import SoundPresentation


@dataclass(frozen=True)
class Translated:
    """A translation and, if known, the transcript."""

    text: str
    transcript: str = ""


class SpeechTranslationOptions(SoundOptions):
    """Options of speech translation."""

    uses: ClassVar[tuple[Use, ...]] = NO_SEARCH_BY_CTC

    text_column: str = "text"  # of the transcript, for CTC
    translation_column: str = "translation"  # of the target
    subwords: Literal["characters", "bpe", "unigram", "imported"] = "characters"  # of the translation; imported: those
    # of init_from, or of the run itself, which `import` wrote
    vocabulary_size: Symbols = 1000  # at most
    metric_tokenizer: Tokenizer = "auto"  # of sacreBLEU, as for translation


class _Translations(Text):
    def normalised(self, value: Translated) -> str:
        return value.text

    def from_line(self, line: str, place: Place) -> Translated:
        return Translated(clean_text(line))

    def to_text(self, prediction: str | Translated | None) -> str:
        return prediction.text if isinstance(prediction, Translated) else prediction or ""


class _Transcripts(Spoken):
    def normalised(self, value: Translated) -> str:
        return super().normalised(value.transcript)


class SpeechTranslationPresentation(SoundPresentation):
    """A recording and its translation, compared word by word."""

    verb = "Translate speech"

    def judge(self, prediction: str | Translated | None, reference: Translated, example: Example) -> Judgement:
        """By words, see `judge_words`."""
        return judge_words(prediction and self.task.to_text(prediction), reference.text)

    def charts(self, examples: Sequence[Example], predictions: Sequence[str | None]) -> list[dict[str, Any]]:
        """Lengths of outputs."""
        return [lengths([example.reference.text for example in examples], predictions)]


class SpeechTranslationTask(SoundTask):
    """Sound -> text in another language.

    The target is characters or subwords of the translation; CTC predicts the transcript's characters.
    """

    name, presented_by = "speech_translation", SpeechTranslationPresentation
    sections: ClassVar[Mapping[str, type[Section]]] = {"speech_translation": SpeechTranslationOptions, "audio": Audio}
    primary_metric = "bleu"
    packages = ("torchaudio",)

    def __init__(self, options: SpeechTranslationOptions, audio: Audio, data: Data, **others: Any):
        super().__init__(options, audio, data, **others)
        others = {"pieces_from": self.pieces_from} if options.subwords == IMPORTED else {}
        self.target = _Translations("target", options.subwords, options.vocabulary_size, **others)
        self.transcript = _Transcripts("symbols", "characters", options.vocabulary_size, unified=data.unicode == "nfc")

    def reference(self, row: Row) -> Translated:
        """Translation and transcript."""
        keys = self.options
        said = text_in(row, keys.text_column, "speech_translation.text_column")
        text = text_in(row, keys.translation_column, "speech_translation.translation_column")
        return Translated(clean_text(text), spoken_words(said, row))

    def row(self, example: Example, text: str) -> dict[str, str]:
        """The sound file, its transcript and the translation."""
        said = {self.options.text_column: example.reference.transcript} if example.reference is not None else {}
        return {**self.sound_row(example), **said, self.options.translation_column: text}

    def inspect(self, split: str, examples: Sequence[Example]) -> list[str]:
        """Warnings about a split: those of sounds, and references that the metric does not suit."""
        found = [example.reference.text for example in islice(examples, JUDGED)]
        return [*super().inspect(split, examples), *shortness(found, tokenizer=self.options.metric_tokenizer)]

    def check_installed(self) -> None:
        super().check_installed()
        need_tokenizer(self.options.metric_tokenizer)

    def score(self, predictions: Sequence[str | Translated | None], *references: Sequence[str | Translated]) -> Score:
        """BLEU and chrF."""
        given, *right = ([self.to_text(one) for one in some] for some in (predictions, *references))
        return score_translations(given, *right, tokenizer=self.options.metric_tokenizer)
