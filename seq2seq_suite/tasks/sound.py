"""What audio tasks share: recordings, their features and the transcript for CTC."""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field as Bounds

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Encoded, Example
from seq2seq_suite.common.files import read_arrays
from seq2seq_suite.common.shapes import Shape, SoundShape
from seq2seq_suite.data.audio import Features, Recording, Sound, Stored
from seq2seq_suite.data.formats import BadRows, Row
from seq2seq_suite.data.sources import EMBEDDED
from seq2seq_suite.data.subwords import IMPORTED
from seq2seq_suite.metrics.error_rate import normalise
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import Few, FewOrNone, Fraction, NotNegative, Section
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.fields.base import Field, Place, Source, refuse_long
from seq2seq_suite.tasks.fields.text import Text
from seq2seq_suite.tasks.options import TaskOptions, Zoom
from seq2seq_suite.tasks.rows import medium_in, of_file, required_medium

_LEAST_DEVIATION = 0.1  # of a bin's log energy: bands above a recording's range are constant


class Audio(Section):
    """How sound is read, in every audio task."""

    frontend: Literal["subsampled", "whisper"] = "subsampled"  # whisper: its features of 30 seconds and its two
    # convolutions over time, with audio.subsampling=2 and data.max_length=3000
    bins: Few = 80  # of the mel scale
    subsampling: Literal[2, 4] = 4  # frames of 10 ms that become one vector
    speeds: Annotated[tuple[Zoom, ...], Bounds(min_length=1)] = (1.0,)  # speed perturbation: one of these
    # for each sound and epoch
    pad_seconds: Annotated[float, Bounds(ge=0.0, le=600.0)] = 0.0  # shorter sounds get silence on both sides
    level: bool = False  # scale each sound to one level: speakers and microphones differ in loudness
    frequency_bars: FewOrNone = 2  # SpecAugment: masked bands of mel bins
    frequency_width: NotNegative = 27  # largest width of a band, in bins
    time_bars: FewOrNone = 5  # SpecAugment: masked spans of time
    time_share: Fraction = 0.05  # longest span, as a share of the sound
    cache: str = ""  # folder for features; empty: seq2seq_suite/features in the user's folder for caches


class SoundOptions(TaskOptions):
    """Options of an audio task; those of the features are in the section `audio`."""

    reads_symbols: ClassVar[bool] = False

    def check(self, config: Any) -> None:
        """Whisper's front-end reads windows of one length."""
        audio, frames = config.audio, config.data.max_length
        if audio.frontend == "whisper" and (audio.subsampling, frames) != (2, 3000):
            raise ValueError(
                f"audio.frontend whisper reads 3000 frames, of which two become one vector, but audio.subsampling is "
                f"{audio.subsampling} and data.max_length {frames}: set audio.subsampling=2 and data.max_length=3000"
            )
        if audio.frontend == "whisper" and config.backbone.width % 2:
            raise ValueError(f"audio.frontend whisper needs an even backbone.width, not {config.backbone.width}")

    def source_positions(self, config: Any) -> int:
        """Vectors of `audio.subsampling` frames, at the slowest speed."""
        if config.audio.frontend == "whisper":  # which has positions of its own
            return 0
        return -(-math.ceil(config.data.max_length / min(1.0, *config.audio.speeds)) // config.audio.subsampling)


class Sounds(Source):
    """Log-mel features of recordings.

    Args:
        audio: the configuration's `audio`.
        longest: most frames of 10 ms.
    """

    def __init__(self, audio: Audio, *, longest: int):
        self.audio, self.longest = audio, longest
        self.mean = self.deviation = np.zeros(audio.bins, dtype=np.float32)
        self.varies = audio.speeds != (1.0,)
        self._known: dict[Sound, Stored | DataError] = {}

    def read(self, row: Row) -> Sound:
        """The sound of a row."""
        return required_medium(row, "audio", Sound, Recording)

    def from_text(self, text: str, place: Place) -> Sound:
        """The path of a sound file."""
        return self.check(Recording(text.strip()), place)

    def to_text(self, value: Sound) -> str:
        """Its name."""
        return value.name

    def check(self, sound: Sound, place: Place) -> Sound:
        """Refuse sounds that cannot be read or are too long."""
        features = self.features_of([sound])[0]
        if isinstance(features, DataError):
            raise of_file(features, sound.name, place)
        refuse_long(
            len(features),
            self.longest,
            f"a recording of {len(features) / 100:.1f} seconds, {len(features)} frames of 10 ms",
            place,
            otherwise="cut the recording",
        )
        return sound

    def stored(self, value: Sound, place: Path) -> Recording:
        """The sound in a file; of embedded ones, and those of tables, a WAV file with the same samples is written."""
        if isinstance(value, Recording) and not value.content:
            return value
        import soundfile

        place.parent.mkdir(exist_ok=True)
        soundfile.write(place.with_suffix(".wav"), *value.samples(), subtype="FLOAT")
        return Recording(str(place.with_suffix(".wav")))

    def forget(self) -> None:
        self._known.clear()

    def features_of(self, sounds: Sequence[Sound]) -> list[Stored | DataError]:
        """Their features, or their errors; cached, new ones computed by several threads."""
        new = [sound for sound in dict.fromkeys(sounds) if sound not in self._known]
        self._known.update(zip(new, self.features.of(new), strict=True))
        return [self._known[sound] for sound in sounds]

    @cached_property
    def features(self) -> Features:
        """Computes and caches features."""
        audio = self.audio
        whisper = audio.frontend == "whisper"
        return Features(audio.bins, pad=audio.pad_seconds, level=audio.level, whisper=whisper, folder=audio.cache)

    def fit(self, values: Sequence[Sound]) -> None:
        """Mean and deviation of each mel bin over the training split."""
        count, total, squares = 0, np.zeros(self.audio.bins), np.zeros(self.audio.bins)
        for features in self.features_of(values):
            frames = np.asarray(features, dtype=np.float64)
            count, total, squares = count + len(frames), total + frames.sum(0), squares + np.square(frames).sum(0)
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - np.square(mean), _LEAST_DEVIATION**2))
        self.mean, self.deviation = mean.astype(np.float32), deviation.astype(np.float32)

    def save(self, folder: Path) -> None:
        """Write mean and deviation."""
        np.savez(folder / "features.npz", mean=self.mean, deviation=self.deviation)

    def load(self, folder: Path) -> None:
        """Load a file of `save`."""
        file, remedy = folder / "features.npz", "train the run again, or copy the file from where it was trained"
        found = read_arrays(file, remedy=remedy)
        self.mean, self.deviation = (found.get(name, np.zeros(0)) for name in ("mean", "deviation"))
        for array in (self.mean, self.deviation):
            if array.shape != (self.audio.bins,) or array.dtype != np.float32 or not np.isfinite(array).all():
                raise DataError(
                    f"no statistics of {self.audio.bins} bins",
                    file=str(file),
                    remedy=remedy,
                    expected=f"finite arrays mean and deviation of {self.audio.bins} figures",
                )

    def shape(self) -> SoundShape:
        audio = self.audio
        return SoundShape(
            mean=tuple(self.mean.tolist()),
            deviation=tuple(self.deviation.tolist()),
            subsampling=audio.subsampling,
            masking=(audio.frequency_bars, audio.frequency_width, audio.time_bars, audio.time_share),
            whisper=audio.frontend == "whisper",
        )

    unit, of_file = "frame", True

    def names(self, value: Sound, count: int) -> list[str]:
        """Where each vector begins, in seconds."""
        return [f"{number * self.audio.subsampling / 100:.2f} s" for number in range(count)]

    def encode(self, value: Sound, place: Place) -> Stored:
        """(S,F) features."""
        return _readable(self.features_of([value]))[0]


class Spoken(Text):
    """The transcript in the form that is learned: lower case, without punctuation.

    Args:
        unified: see `metrics.error_rate.normalise`.
        others: see `Pieces`.
    """

    def __init__(self, *given: Any, unified: bool = True, **others: Any):
        super().__init__(*given, **others)
        self.unified = unified

    def normalised(self, value: Any) -> str:
        """The words; pieces of a model that was imported have the text as it is."""
        return value if self.kind == IMPORTED else normalise(value, unified=self.unified)


class SoundTask(Task[Sounds, Text]):
    """Sound -> text; the source is log-mel features, and CTC predicts `transcript`.

    A task defines a row's reference; `target` and `transcript` derive the translation and the words from it.

    Args:
        options: the task's own section.
        audio: the configuration's `audio`.
        data: the configuration's `data`; `data.max_length` counts frames of 10 ms.
        others: see `Task`.
    """

    rewritable = several_references = True
    view, item, expected = "speech", "recording", "rows with audio (or file_name) and a text"
    transcript: Text

    def __init__(self, options: Any, audio: Audio, data: Data, **others: Any):
        super().__init__(options, data, **others)
        self.audio, self.source = audio, Sounds(audio, longest=data.max_length)

    @abstractmethod
    def reference(self, row: Row) -> Any:
        """A row's reference; raises DataError."""

    def keep(self, row: Row, split: str) -> bool:
        """Whether a row belongs to a split."""
        return True

    # -- data ---------------------------------------------------------------------------------------------------

    def open(self, split: str, bad: BadRows) -> Iterator[Row]:
        """The recordings of a split; features of many are computed together."""
        found = [row for row in super().open(split, bad) if self.keep(row, split)]
        sounds = (medium_in(row, "audio", Sound, Recording) for row in found)
        self.source.features_of([sound for sound in sounds if sound is not None])
        return iter(found)

    def example(self, row: Row) -> Example:
        """A recording and its reference."""
        sound, reference = self.source.read(row), self.reference(row)
        self.source.check(sound, row.place)
        (features,) = _readable(self.source.features_of([sound]))
        also = (
            {"oracle": self.reference(replace(row, fields={**row.fields, **likelier}))}
            if isinstance(likelier := row.fields.get("oracle"), Mapping)
            else {}
        )
        return Example(sound, reference, row.origin, remarks=features.level.remarks, also=also)

    def figures(self, examples: Sequence[Example]) -> str:
        """Their levels, the highest peak, and the shares of silence and of clipped samples."""
        found = [one.level for one in _readable(self.source.features_of([example.source for example in examples]))]
        levels = sorted(one.level for one in found)
        return (
            f"level {levels[len(levels) // 2]:.0f} dB ({levels[0]:.0f} to {levels[-1]:.0f}), "
            f"peak {max(one.peak for one in found):.2f}, {np.mean([one.silence for one in found]):.0%} silence, "
            f"{np.mean([one.clipped for one in found]):.2%} clipped"
        )

    def report_short(self, split: str, examples: Sequence[Example]) -> None:
        """Print which recordings have fewer vectors than CTC needs."""
        short = []
        found = _readable(self.source.features_of([one.source for one in examples]))
        for example, features in zip(examples, found, strict=True):
            pieces = self.transcript.symbols(example.reference)
            needed = len(pieces) + sum(one == other for one, other in pairwise(pieces))
            if -(-len(features) // self.audio.subsampling) < needed:
                short.append(example.origin)
        what = f"{len(short):,} of {len(examples):,} recordings {'are' if len(short) > 1 else 'is'} too short for CTC"
        if short and self.data.path == EMBEDDED:
            print(f"{split}: {what}, spoken fast by design; their CTC loss is 0, the decoder learns from them")
        elif short:
            print(
                f"{split}: {what} (their CTC loss is 0; audio.subsampling=2 or audio.pad_seconds helps): "
                f"{', '.join(short[:5])}{', ...' if len(short) > 5 else ''}"
            )

    def sound_row(self, example: Example) -> dict[str, str]:
        """The column of a row that names the sound file, see `Sounds.stored`."""
        return {"audio": str(Path(example.source.name).resolve())}

    # -- numbers ------------------------------------------------------------------------------------------------

    @property
    def target_fields(self) -> tuple[Field, ...]:
        """The target and the transcript, which may be one."""
        return tuple(dict.fromkeys((self.target, self.transcript)))

    def fit(self, examples: Iterable[Example]) -> None:
        """Symbols, and the features' statistics; prints which are too short for CTC."""
        super().fit(examples)
        self.report_short("train", list(examples))

    def shape(self) -> Shape:
        """With the transcript's symbols."""
        return Shape(replace(self.source.shape(), transcript=len(self.transcript)), self.target.shape())

    def auxiliary(self, example: Example) -> dict[str, np.ndarray]:
        """The transcript for CTC, if it is known."""
        if example.reference is None:
            return {}
        ids = self.transcript.pieces.encode(self.transcript.normalised(example.reference))
        return {"ctc": np.array(ids, dtype=np.int64)}

    def encode_epoch(self, examples: Sequence[Example], epoch: int) -> list[Encoded]:
        """Examples at the speeds drawn for an epoch."""
        speeds = [
            self.audio.speeds[zlib.crc32(f"{self.seed}/{epoch}/{index}".encode()) % len(self.audio.speeds)]
            for index in range(len(examples))
        ]
        frames = _readable(self.source.features.of([example.source for example in examples], speeds=speeds))
        targets = [
            None if example.reference is None else self.target.encode(example.reference, {}) for example in examples
        ]
        return list(map(self._encoded, range(len(examples)), examples, frames, targets))


def _readable(found: Sequence[Stored | DataError]) -> list[Stored]:
    """Features, none of them an error; raises the first error instead."""
    if (wrong := next((one for one in found if isinstance(one, DataError)), None)) is not None:
        raise wrong
    return [one for one in found if not isinstance(one, DataError)]


def spoken_words(text: str, row: Row) -> str:
    """A transcript that has at least one word; raises DataError."""
    if not normalise(text):
        raise DataError("the transcript has no word", **row.place, remedy="remove the row")
    return text
