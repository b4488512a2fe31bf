"""Speech recognition: sound in, its words out, word error rate as the metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from seq2seq_suite.config_section import Few, Section, Symbols
from seq2seq_suite.data.audio import Composed
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.options import Data
from seq2seq_suite.data.subwords import load_subwords, train_subwords
from seq2seq_suite.files import read_lines
from seq2seq_suite.metrics.error_rate import error_rates, normalise
from seq2seq_suite.sizes import Sizes
from seq2seq_suite.tasks.reading import place_of
from seq2seq_suite.tasks.sound import Audio, SoundOptions, SoundTask, spoken_words
from seq2seq_suite.types import Example, Score

COMPOSED = "composed"  # the split made of the test split's recordings
_GAP = 0.1  # seconds between the parts of a composed sequence


class ASROptions(SoundOptions):
    """Options of speech recognition."""

    text_column: str = "text"
    subwords: Literal["characters", "bpe", "unigram"] = "characters"
    vocabulary_size: Symbols = 500  # of bpe and unigram, at most
    leave_out_speaker: str = ""  # train and validate without this one, test on it alone (column `speaker`)
    composed: Annotated[int, Field(ge=0, le=10**7)] = 0  # sequences of one speaker's recordings, added to training
    composed_parts: tuple[Few, Few] = (3, 7)  # fewest and most recordings in one

    @model_validator(mode="after")
    def _some_parts(self) -> ASROptions:
        if self.composed_parts[0] > self.composed_parts[1]:
            raise ValueError(f"asr.composed_parts {list(self.composed_parts)}: the fewest are more than the most")
        return self


class SpeechRecognitionTask(SoundTask):
    """Sound -> text in lower case without punctuation.

    The source is log-mel features, the target characters or subwords, and so is the transcript for CTC.

    Args:
        options: the configuration's `asr`.
        audio, data, seed: see `SoundTask`; the seed is that of composed sequences, too.
    """

    name = "asr"
    sections: ClassVar[Mapping[str, type[Section]]] = {"asr": ASROptions, "audio": Audio}
    primary_metric = "wer"
    higher_is_better = False

    def __init__(self, options: ASROptions, audio: Audio, data: Data, *, seed: int = 1, pieces_from: str = ""):
        super().__init__(audio, data, seed=seed)
        self.options = options
        self._speakers: dict[str, str] = {}

    # -- data ---------------------------------------------------------------------------------------------------

    def read(self, split: str) -> list[Example]:
        """The recordings of a split, or sequences composed of the test split's where it is called `composed`."""
        if split == COMPOSED:
            return self._compose(self._recordings("test"), split, count=0)
        examples = self._recordings(split)
        if split == "train" and self.options.composed:
            examples += self._compose(examples, split, count=self.options.composed)
        return examples

    def _recordings(self, split: str) -> list[Example]:
        left_out = 0

        def keep(row: Row) -> bool:
            nonlocal left_out
            alone = self.options.leave_out_speaker
            unwanted = bool(alone) and (row.fields.get("speaker") == alone) == (split in ("train", "validation"))
            left_out += unwanted
            return not unwanted

        examples = self.read_recordings(split, keep=keep)
        if left_out:
            print(f"{split}: {left_out} recordings left out (asr.leave_out_speaker={self.options.leave_out_speaker})")
        return examples

    def reference(self, row: Row) -> str:
        """The transcript."""
        self._speakers[f"{row.file}:{row.line}"] = str(row.fields.get("speaker", ""))
        return spoken_words(self.column(row, self.options.text_column, "asr.text_column"), row)

    def spoken(self, reference: str) -> str:
        """The transcript's words."""
        return normalise(reference)

    def written(self, reference: str) -> str:
        """The same."""
        return normalise(reference)

    def _compose(self, examples: Sequence[Example], split: str, *, count: int) -> list[Example]:
        """Sequences of one speaker's recordings; as many as there are recordings where `count` is 0."""
        by_speaker: Mapping[str, list[Example]] = defaultdict(list)
        for example in examples:
            by_speaker[self._speakers[example.origin]].append(example)
        rng, (fewest, most) = Random(f"composed/{self.seed}/{split}"), self.options.composed_parts
        made = []
        for number in range(count or len(examples)):
            parts = rng.choices(by_speaker[rng.choice(sorted(by_speaker))], k=rng.randint(fewest, most))
            sound = Composed(tuple(part.source for part in parts), _GAP)
            made.append(Example(sound, " ".join(part.reference for part in parts), f"{split}/composed:{number + 1}"))
        self.heard([example.source for example in made])
        for example in made:
            self.check(example.source, place_of(example.origin))
        return made

    def row(self, example: Example, text: str) -> dict[str, str]:
        """The sound file and its transcript."""
        return {**self.sound_row(example), self.options.text_column: text}

    def read_references(self, path: Path) -> list[str]:
        """A transcript on each line; an empty line is an empty one."""
        return read_lines(path)

    # -- numbers ------------------------------------------------------------------------------------------------

    def fit(self, examples: Sequence[Example]) -> None:
        """Symbols, and the features' statistics, from the training split; says what is too short for CTC."""
        texts = [normalise(example.reference) for example in examples]
        self.target = self.transcript = train_subwords(self.options.subwords, texts, size=self.options.vocabulary_size)
        self.measure(examples)
        self.report_short("train", examples)

    def save(self, folder: Path) -> None:
        """Write symbols and statistics."""
        self.save_statistics(folder)
        self.target.save(folder, "symbols")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        self.target = self.transcript = load_subwords(self.options.subwords, folder, "symbols")
        self.load_statistics(folder)

    def sizes(self) -> Sizes:
        """What the vocabularies ask of a model."""
        return Sizes(target_symbols=len(self.target), source_symbols=0, sound=self.sound_shape(),
                     ctc_symbols=len(self.transcript))

    # -- judging and showing ------------------------------------------------------------------------------------

    def score(self, predictions: Sequence[str | None], references: Sequence[str]) -> Score:
        """Error rates."""
        return error_rates(predictions, references)

    def to_text(self, prediction: str | None) -> str:
        """The transcript on one line."""
        return prediction or ""

    def draw(self, prediction: str | None) -> str:
        """The transcript."""
        return prediction or "(silence)"
