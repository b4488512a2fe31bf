"""What every task that hears has in common: recordings, their features and the transcript that CTC spells."""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from seq2seq_suite.config_section import Few, FewOrNone, Fraction, NotNegative, Section
from seq2seq_suite.data.audio import Features, Recording, Sound, Stored
from seq2seq_suite.data.formats import BadRows, Row
from seq2seq_suite.data.options import Data
from seq2seq_suite.data.subwords import Characters, Subwords
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.files import read_arrays
from seq2seq_suite.metrics.error_rate import normalise
from seq2seq_suite.sizes import SoundShape
from seq2seq_suite.tasks.free_text import FreeText
from seq2seq_suite.tasks.options import TaskOptions, Zoom
from seq2seq_suite.tasks.reading import columns, file_of, open_split, place_of, read_examples
from seq2seq_suite.types import END, DataError, Encoded, Example

_VIEW = "speech"
_LEAST_DEVIATION = 0.1  # of a bin's log energy: bands above what a recording holds are constant


class Audio(Section):
    """How sound is read, in every task that hears."""

    bins: Few = 80  # of the mel scale
    subsampling: Literal[2, 4] = 4  # frames of 10 ms that become one vector
    speeds: Annotated[tuple[Zoom, ...], Field(min_length=1)] = (1.0,)  # in training each sound is played at one of
    # these, drawn each epoch
    pad_seconds: Annotated[float, Field(ge=0.0, le=600.0)] = 0.0  # shorter sounds get silence on both sides
    frequency_bars: FewOrNone = 2  # SpecAugment, in training: bands of mel bins silenced
    frequency_width: NotNegative = 27  # the widest, in bins
    time_bars: FewOrNone = 5  # and spans of time
    time_share: Fraction = 0.05  # the longest, as a share of the sound
    cache: str = ""  # folder where features are kept; empty: seq2seq_suite/features in the user's folder for caches


class SoundOptions(TaskOptions):
    """Options of a task that hears; how is said in the section `audio`."""

    reads_symbols: ClassVar[bool] = False

    def source_positions(self, config: Any) -> int:
        """Vectors of `audio.subsampling` frames, at the slowest speed."""
        frames = config.data.max_length / min(1.0, *config.audio.speeds)
        return -(-math.ceil(frames) // config.audio.subsampling)


class SoundTask(FreeText):
    """Sound -> text; the source is log-mel features.

    A task says what a row's reference is, what is spoken (for CTC) and what is to be written.

    Args:
        audio: the configuration's `audio`.
        data: the configuration's `data`; `data.max_length` counts frames of 10 ms.
        seed: of the speeds drawn in training.
    """

    label_weights: Mapping[str, float] = {}

    def __init__(self, audio: Audio, data: Data, *, seed: int):
        self.audio, self.data, self.seed = audio, data, seed
        self.target: Subwords = Characters(Vocabulary.build([]))
        self.transcript: Subwords = self.target
        self.mean = self.deviation = np.zeros(audio.bins, dtype=np.float32)
        self._features: Features | None = None
        self._known: dict[Sound, Stored | DataError] = {}

    @abstractmethod
    def reference(self, row: Row) -> Any:
        """A row's reference; raises DataError."""

    @abstractmethod
    def spoken(self, reference: Any) -> str:
        """The words that are said, in lower case without punctuation."""

    # -- data ---------------------------------------------------------------------------------------------------

    def read_recordings(self, split: str, *, keep: Any = lambda row: True) -> list[Example]:
        """The recordings of a split that `keep` (Row -> bool) does not leave out.

        Raises:
            DataError: a file is missing, the split is empty, or more rows than `data.max_bad_rows` are broken.
        """
        def rows(bad: BadRows) -> Iterator[Row]:
            found = [row for row in open_split(self.data, split, bad, view=_VIEW) if keep(row)]
            self._hear([sound for row in found if (sound := sound_of(row)) is not None])
            return iter(found)

        return read_examples(self.data, split, self._example, view=_VIEW, open_rows=rows, item="recording",
                             expected="rows with audio (or file_name) and a text")

    def _example(self, row: Row) -> Example:
        place, sound = {"file": row.file, "line": row.line}, sound_of(row)
        if sound is None:
            raise DataError(columns(row), **place,
                            expected="audio (or file_name beside the sound files)",
                            remedy='write rows like {"file_name": "a.wav", "text": "hello"}')
        reference = self.reference(row)
        self.check(sound, place)
        return Example(sound, reference, f"{row.file}:{row.line}")

    def column(self, row: Row, name: str, key: str) -> str:
        """The text in a column; raises DataError, `key` being the option that names it."""
        text = row.fields.get(name)
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"no text in column '{name}'; {columns(row)}",
                            file=row.file, line=row.line, expected=f"a text in '{name}'",
                            remedy=f"fill it in, remove the row, or set {key}")
        return text

    def check(self, sound: Sound, place: Mapping[str, Any]) -> None:
        """Refuse what cannot be heard or is too long."""
        features = self.heard([sound])[0]
        if isinstance(features, DataError):
            raise DataError(f"{sound.name}: {features.got}", **place, expected=features.expected,
                            remedy=features.remedy)
        if len(features) > self.data.max_length:
            raise DataError(f"a recording of {len(features) / 100:.1f} seconds", **place,
                            expected=f"at most {self.data.max_length / 100:.1f} (data.max_length counts 10 ms)",
                            remedy="raise data.max_length (and backbone.max_positions), or cut the recording")

    def heard(self, sounds: Sequence[Sound]) -> list[Stored | DataError]:
        """Their features, or what is wrong with them; each is computed once, new ones by several threads."""
        self._hear(sounds)
        return [self._known[sound] for sound in sounds]

    def _hear(self, sounds: Sequence[Sound]) -> None:
        new = [sound for sound in dict.fromkeys(sounds) if sound not in self._known]
        self._known.update(zip(new, self.features.of(new), strict=True))

    @property
    def features(self) -> Features:
        """Where features are computed and kept."""
        if self._features is None:
            self._features = Features(self.audio.bins, pad=self.audio.pad_seconds, folder=self.audio.cache)
        return self._features

    def report_short(self, split: str, examples: Sequence[Example]) -> None:
        """Say which recordings have fewer vectors than CTC needs to spell them."""
        short = []
        for example, features in zip(examples, self.heard([item.source for item in examples]), strict=True):
            pieces = self.transcript.pieces(self.spoken(example.reference))
            needed = len(pieces) + sum(one == other for one, other in pairwise(pieces))
            if -(-len(features) // self.audio.subsampling) < needed:
                short.append(example.origin)
        if short:
            print(f"{split}: {len(short)} recordings are too short for CTC to spell their text (their CTC loss is 0; "
                  f"audio.subsampling=2 or audio.pad_seconds helps): {', '.join(short[:5])}"
                  f"{', ...' if len(short) > 5 else ''}")

    def from_text(self, text: str, *, origin: str = "") -> Example:
        """The path of a sound file."""
        sound = Recording(text.strip())
        self.check(sound, place_of(origin))
        return Example(sound, None, origin)

    def sound_row(self, example: Example) -> dict[str, str]:
        """The part of a row that names the sound file; raises DataError for a sound that is none."""
        if not isinstance(example.source, Recording) or example.source.content:
            raise DataError("the sounds are no files", **place_of(example.origin), expected="data of sound files",
                            remedy="embedded speech and sounds inside a table cannot be written out as rows")
        return {"audio": str(Path(example.source.name).resolve())}

    # -- numbers ------------------------------------------------------------------------------------------------

    def measure(self, examples: Sequence[Example]) -> None:
        """Mean and deviation of each mel bin over the training split."""
        count, total, squares = 0, np.zeros(self.audio.bins), np.zeros(self.audio.bins)
        for features in self.heard([example.source for example in examples]):
            frames = np.asarray(features, dtype=np.float64)
            count, total, squares = count + len(frames), total + frames.sum(0), squares + np.square(frames).sum(0)
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - np.square(mean), _LEAST_DEVIATION**2))
        self.mean, self.deviation = mean.astype(np.float32), deviation.astype(np.float32)

    def save_statistics(self, folder: Path) -> None:
        """Write what `measure` found."""
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "features.npz", mean=self.mean, deviation=self.deviation)

    def load_statistics(self, folder: Path) -> None:
        """Read what `save_statistics` wrote."""
        file, remedy = folder / "features.npz", "train the run anew, or copy the file from where it was trained"
        found = read_arrays(file, remedy=remedy)
        self.mean, self.deviation = (found.get(name, np.zeros(0)) for name in ("mean", "deviation"))
        for array in (self.mean, self.deviation):
            if array.shape != (self.audio.bins,) or array.dtype != np.float32 or not np.isfinite(array).all():
                raise DataError(f"no statistics of {self.audio.bins} bins", file=str(file), remedy=remedy,
                                expected=f"finite arrays mean and deviation of {self.audio.bins} figures")

    def sound_shape(self) -> SoundShape:
        """What the features ask of the front-end."""
        audio = self.audio
        return SoundShape(tuple(self.mean.tolist()), tuple(self.deviation.tolist()), audio.subsampling,
                          audio.frequency_bars, audio.frequency_width, audio.time_bars, audio.time_share)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Examples as numbers."""
        return self._encoded(examples, self.heard([example.source for example in examples]))

    @property
    def varies(self) -> bool:
        """Whether speeds are drawn in training."""
        return self.audio.speeds != (1.0,)

    def encode_epoch(self, examples: Sequence[Example], epoch: int) -> list[Encoded]:
        """Examples at the speeds drawn for an epoch."""
        speeds = [self.audio.speeds[zlib.crc32(f"{self.seed}/{epoch}/{index}".encode()) % len(self.audio.speeds)]
                  for index in range(len(examples))]
        return self._encoded(examples, self.features.of([example.source for example in examples], speeds=speeds))

    def _encoded(self, examples: Sequence[Example], features: Sequence[Stored | DataError]) -> list[Encoded]:
        encoded = []
        for index, (example, frames) in enumerate(zip(examples, features, strict=True)):
            if isinstance(frames, DataError):
                raise frames
            target, transcript = np.zeros(0, dtype=np.int64), None
            if example.reference is not None:
                transcript = np.array(self.transcript.encode(self.spoken(example.reference)), dtype=np.int64)
                target = np.array([*self.target.encode(self.written(example.reference)), END], dtype=np.int64)
            encoded.append(Encoded(frames, target, index=index, transcript=transcript))
        return encoded


def sound_of(row: Row) -> Sound | None:
    """The sound of a row, in `audio` or named by `file_name`."""
    if isinstance(row.fields.get("audio"), Sound):
        return row.fields["audio"]
    found = file_of(row, "audio")
    return None if found is None else Recording(*found)


def spoken_words(text: str, row: Row) -> str:
    """A transcript that has at least one word; raises DataError."""
    if not normalise(text):
        raise DataError("the transcript has no word", file=row.file, line=row.line, remedy="remove the row")
    return text
