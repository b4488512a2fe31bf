"""Speech recognition: from sound to words, scored by word error rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field as Bounds

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.common.types import Constraint
from seq2seq_suite.data.audio import Composed
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.subwords import IMPORTED
from seq2seq_suite.metrics.error_rate import error_rates, normalise, word_errors
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import Section, Symbols, Use, among
from seq2seq_suite.tasks.charts.common import Point, one_series, panel, rates
from seq2seq_suite.tasks.fields.base import Field
from seq2seq_suite.tasks.language_models.words import WordModel, WordPairs
from seq2seq_suite.tasks.presentation import Judgement
from seq2seq_suite.tasks.rows import place_of, text_in
from seq2seq_suite.tasks.sound import Audio, SoundOptions, SoundTask, Spoken, spoken_words
from seq2seq_suite.tasks.sound_presentation import SoundPresentation

COMPOSED = "composed"  # the split made from the test split's recordings
_KINDS = {
    "substitution": ("substituted", "wrong"),
    "deletion": ("deleted", "missed"),
    "insertion": ("inserted", "inserted"),
}  # as word_errors names them; on pages, and their colour
_FACTS = (
    ("speaker", "By speaker", "speaker", 0),
    ("rate", "By speaking rate", "words a minute", 20),
    ("noise", "By noise", "signal-to-noise ratio in dB", 5),
)
_WHO = "When do recognition errors occur?"
_MOST_SUBSTITUTED = 12  # pairs of words in the table
_GAP, _PARTS = 0.1, (3, 7)  # of a composed sequence: seconds between its parts, and fewest and most of them


class ASROptions(SoundOptions):
    """Options of speech recognition."""

    uses: ClassVar[tuple[Use, ...]] = (
        Use(
            ("search.ctc_weight",),
            "strategy.ctc_weight",
            "above 0, so that there is a CTC head",
            lambda weight: weight > 0.0,
        ),
        among(("asr.word_weight",), "asr.subwords", "characters"),
        among(("asr.word_weight",), "strategy.kind", "autoregressive"),
        Use(("asr.new_word",), "asr.word_weight", "above 0", lambda weight: weight > 0.0),
    )

    text_column: str = "text"  # of the transcript
    subwords: Literal["characters", "bpe", "unigram", "imported"] = "characters"  # imported: those of init_from, or of
    # the run itself, which `import` wrote; the text is learned as it is
    vocabulary_size: Symbols = 500  # of bpe and unigram, at most
    leave_out_speaker: str = ""  # train and validate without this speaker, test on it alone (column `speaker`)
    composed: Annotated[int, Bounds(ge=0, le=10**7)] = 0  # sequences of one speaker's recordings, added to training
    word_weight: Annotated[float, Bounds(ge=0.0, le=100.0)] = 0.0  # of a bigram of the training transcripts' words, in
    # a search for characters; 0: none
    new_word: Annotated[float, Bounds(ge=-1000.0, le=0.0)] = -8.0  # added to the score for a word that is not in
    # them, in place of weight * log p


class SpeechRecognitionPresentation(SoundPresentation):
    """A recording and its transcript, compared as the error rate compares them."""

    verb, no_output, baselines = "Transcribe", "(silence)", ("empty output", "most frequent word")

    def judge(self, prediction: str | None, reference: str, example: Example) -> Judgement:
        """Words as the error rate compares them, without case and punctuation."""
        errors = word_errors(reference, prediction or "")
        kinds = Counter(_KINDS[kind][0] for kind, _, _ in errors)
        return Judgement(not errors, tuple(kind for kind, _ in kinds.most_common()))

    def facts(self, example: Example) -> dict[str, str | float]:
        """With the speaker of a recording, if its row named one."""
        speaker = self.task.speakers.get(example.origin)
        return super().facts(example) | ({"speaker": speaker} if speaker else {})

    def output_data(self, example: Example, prediction: str | None) -> dict[str, Any]:
        """The words as they are scored."""
        return {"text": normalise(prediction or "")}

    def charts(self, examples: Sequence[Example], predictions: Sequence[str | None]) -> list[dict[str, Any]]:
        """Word error rate by speaker, speaking rate and noise, and the most frequent substitutions."""
        errors = [
            word_errors(example.reference, found or "") for example, found in zip(examples, predictions, strict=True)
        ]
        counts = [
            (Counter(kind for kind, _, _ in found), len(normalise(example.reference).split()))
            for found, example in zip(errors, examples, strict=True)
        ]
        return [*_by_fact([self.facts(example) for example in examples], counts), *_substituted(errors)]


class SpeechRecognitionTask(SoundTask):
    """Sound -> text in lower case without punctuation.

    The source is log-mel features, the target characters or subwords, and so is the transcript for CTC.
    """

    name, presented_by = "asr", SpeechRecognitionPresentation
    sections: ClassVar[Mapping[str, type[Section]]] = {"asr": ASROptions, "audio": Audio}
    primary_metric = "wer"
    packages = ("torchaudio", "jiwer")
    higher_is_better = False

    def __init__(self, options: ASROptions, audio: Audio, data: Data, **others: Any):
        super().__init__(options, audio, data, **others)
        self.target = self.transcript = Spoken(
            "symbols",
            options.subwords,
            options.vocabulary_size,
            unified=data.unicode == "nfc",
            pieces_from=self.pieces_from if options.subwords == IMPORTED else "",
        )
        self.words = WordPairs(lambda text: self.target.normalised(text).split())
        self.speakers: dict[str, str] = {}
        self._left_out = 0

    # -- data ---------------------------------------------------------------------------------------------------

    def read(self, split: str) -> list[Example]:
        """The recordings of a split; `composed` has sequences of the test split's recordings."""
        if split == COMPOSED:
            return self._compose(self._recordings("test"), split, count=0)
        examples = self._recordings(split)
        if split == "train" and self.options.composed:
            examples += self._compose(examples, split, count=self.options.composed)
        return examples

    def _recordings(self, split: str) -> list[Example]:
        self._left_out = 0
        examples = super().read(split)
        if self._left_out:
            print(
                f"{split}: {self._left_out} recordings left out "
                f"(asr.leave_out_speaker={self.options.leave_out_speaker})"
            )
        return examples

    def keep(self, row: Row, split: str) -> bool:
        """Whether the speaker belongs to this split."""
        alone = self.options.leave_out_speaker
        unwanted = bool(alone) and (row.fields.get("speaker") == alone) == (split in ("train", "validation"))
        self._left_out += unwanted
        return not unwanted

    def reference(self, row: Row) -> str:
        """The transcript."""
        self.speakers[row.origin] = str(row.fields.get("speaker", ""))
        return spoken_words(text_in(row, self.options.text_column, "asr.text_column"), row)

    def _compose(self, examples: Sequence[Example], split: str, *, count: int) -> list[Example]:
        """Sequences of one speaker's recordings; if `count` is 0, as many as there are recordings."""
        by_speaker = grouped((self.speakers[example.origin], example) for example in examples)
        rng = Random(f"composed/{self.seed}/{split}")
        made = []
        for number in range(count or len(examples)):
            parts = rng.choices(by_speaker[rng.choice(sorted(by_speaker))], k=rng.randint(*_PARTS))
            sound = Composed(tuple(part.source for part in parts), _GAP)
            made.append(Example(sound, " ".join(part.reference for part in parts), f"{split}/composed:{number + 1}"))
        self.source.features_of([example.source for example in made])
        for example in made:
            self.source.check(example.source, place_of(example.origin))
        return made

    def row(self, example: Example, text: str) -> dict[str, str]:
        """The sound file and its transcript."""
        return {**self.sound_row(example), self.options.text_column: text}

    def score(self, predictions: Sequence[str | None], *references: Sequence[str]) -> Score:
        """Error rates."""
        return error_rates(predictions, *references)

    # -- numbers ------------------------------------------------------------------------------------------------

    @property
    def target_fields(self) -> tuple[Field, ...]:
        """With the transcripts' words, for a search for characters."""
        return (*super().target_fields, self.words) if self.options.subwords == "characters" else super().target_fields

    def constraint(self) -> Constraint | None:
        """The model of words; raises ConfigError if they were not counted."""
        return self._word_model if self.options.word_weight else None

    @cached_property
    def _word_model(self) -> WordModel:
        pairs, options = self.words.counts(), self.options
        if not pairs:
            raise ConfigError(
                f"asr.word_weight {options.word_weight:g}, but the run has no counts of words",
                expected="a run of this version or a later one",
                remedy="train it again, or leave asr.word_weight at 0",
            )
        return WordModel(
            pairs, self.target.pieces.encode, len(self.target), weight=options.word_weight, new_word=options.new_word
        )


def _by_fact(
    facts: Sequence[Mapping[str, str | float]], counts: Sequence[tuple[Counter[str], int]]
) -> list[dict[str, Any]]:
    """Charts of the word error rate; `counts` are errors by kind, and words, of each recording."""
    panels = []
    for fact, title, x, step in _FACTS:
        groups = [
            None if fact not in known else int(float(known[fact]) // step * step) if step else known[fact]
            for known in facts
        ]
        names = sorted({group for group in groups if group is not None})
        if len(names) < 2:
            continue

        def shares(*kinds: str, groups: Sequence[Any] = groups, names: Sequence[Any] = names) -> list[Point]:
            return rates(
                [
                    {group: (sum(map(errors.__getitem__, kinds)), words)}
                    for group, (errors, words) in zip(groups, counts, strict=True)
                ],
                names,
            )

        points = shares(*_KINDS)
        about = {"x": x, "y": "WER, % \u2193", "note": "n: words. Lines are 95 % bootstrap intervals."}
        if step:
            points = [[f"{name}\u2013{name + step - 1}", *others] for name, *others in points]
            panels.append(one_series("dots", title, _WHO, points, **about))
            continue
        place = {name: number for number, (name, *_) in enumerate(sorted(points, key=lambda point: -point[1]))}
        series = [
            {
                "name": label,
                "role": role,
                "points": sorted((point[:2] for point in shares(kind)), key=lambda point: place[point[0]]),
            }
            for kind, (label, role) in _KINDS.items()
        ]
        panels.append(panel("bars", title, _WHO, series=series, stacked=True, totals=points, **about))
    return panels


def _substituted(errors: Sequence[Sequence[tuple[str, str, str]]]) -> list[dict[str, Any]]:
    """A table of the most frequent substitutions."""
    pairs = Counter((spoken, output) for found in errors for kind, spoken, output in found if kind == "substitution")
    if not pairs:
        return []
    return [
        panel(
            "table",
            "Words misrecognised most",
            "Which words are confused with others?",
            columns=["reference", "output", "times"],
            rows=[[*two, n] for two, n in pairs.most_common(_MOST_SUBSTITUTED)],
        )
    ]
