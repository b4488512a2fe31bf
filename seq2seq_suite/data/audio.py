"""Sound files as samples, and samples as log-mel features, kept on disk once they are computed."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from seq2seq_suite.data.torchaudio_import import load_torchaudio
from seq2seq_suite.types import DataError

RATE = 16_000  # samples a second that features are computed from
WINDOW, HOP, FFT = 400, 160, 512  # samples: 25 and 10 ms
_FLOOR = 1e-6  # of a mel band's energy: silence is log(1e-6), not minus infinity


class Sound(Protocol):
    """Something that can be heard."""

    name: str  # what messages and reports call it

    def key(self) -> bytes:
        """What the samples depend on; raises DataError if it cannot be read."""

    def samples(self) -> tuple[np.ndarray, int]:
        """Samples (N,) float32 in [-1, 1] and their rate; raises DataError if they cannot be had."""


@dataclass(frozen=True)
class Recording:
    """A sound file: its path, or its bytes with the name they came under."""

    name: str
    content: bytes = b""

    def key(self) -> bytes:
        """The file's bytes."""
        if self.content:
            return self.content
        try:
            return Path(self.name).read_bytes()
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", file=self.name,
                            remedy="correct the path, or remove the row") from None

    def samples(self) -> tuple[np.ndarray, int]:
        """Channels averaged; any format that libsndfile reads."""
        import soundfile

        try:
            samples, rate = soundfile.read(io.BytesIO(self.key()), dtype="float32", always_2d=True)
        except (soundfile.LibsndfileError, RuntimeError) as error:
            reason = str(error).rpartition(": ")[2]
            raise DataError(f"no sound that can be read: {reason.rstrip('.')}", file=self.name,
                            expected="wav, flac, ogg, mp3 or NIST sphere",
                            remedy="convert the file, or remove the row") from None
        if not len(samples):
            raise DataError("the recording is empty", file=self.name, expected="at least one sample",
                            remedy="remove the row")
        return samples.mean(1), rate


@dataclass(frozen=True)
class Composed:
    """Recordings one after another, with a pause of `gap` seconds between them."""

    parts: tuple[Sound, ...]
    gap: float

    @property
    def name(self) -> str:
        """The names of its parts."""
        return "composed of " + ", ".join(part.name for part in self.parts)

    def key(self) -> bytes:
        """Those of its parts."""
        return b"%.3f " % self.gap + b"".join(hashlib.sha256(part.key()).digest() for part in self.parts)

    def samples(self) -> tuple[np.ndarray, int]:
        """At `RATE`."""
        pause = np.zeros(round(self.gap * RATE), dtype=np.float32)
        heard = [piece for part in self.parts for piece in (pause, resample(*part.samples()))]
        return np.concatenate(heard[1:]), RATE


def resample(samples: np.ndarray, rate: int, *, speed: float = 1.0) -> np.ndarray:
    """Samples at `RATE`, played `speed` times as fast, pitch and all.

    Source of speed perturbation: Ko et al. 2015.
    """
    source = round(rate * speed)
    if source == RATE:
        return samples
    functional = load_torchaudio().functional
    return functional.resample(torch.from_numpy(samples), source, RATE).numpy()


class LogMel:
    """log(mel energy + 1e-6) of windows of 25 ms every 10 ms, samples at `RATE` -> (S,F) float32.

    S = 1 + N // 160; windows are centred, the ends mirrored.
    """

    def __init__(self, bins: int):
        self.bins = bins
        self._transform = load_torchaudio().transforms.MelSpectrogram(
            RATE, n_fft=FFT, win_length=WINDOW, hop_length=HOP, n_mels=bins)

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """The features of samples (N,), N > 256: shorter ones are padded with silence."""
        shortest = FFT // 2 + 1  # what mirroring the ends needs
        if len(samples) < shortest:
            samples = np.pad(samples, (0, shortest - len(samples)))
        with torch.inference_mode():
            return (self._transform(torch.from_numpy(samples)).T + _FLOOR).log().numpy()


class Stored:
    """An array on disk that is read when it is needed; to numpy it looks like the array.

    Args:
        file: written by `numpy.save`.
    """

    def __init__(self, file: Path):
        self.file = file
        with open(file, "rb") as stream:
            np.lib.format.read_magic(stream)
            self.shape, _, self.dtype = np.lib.format.read_array_header_1_0(stream)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.load(self.file)
        return array if dtype is None else array.astype(dtype)


class Features:
    """Features of many recordings, computed by several threads and kept in a folder from run to run.

    Args:
        bins: F.
        pad: shortest length in seconds; shorter sounds get silence on both sides.
        folder: where they are kept; empty is `seq2seq_suite/features` in the user's folder for caches.
    """

    def __init__(self, bins: int, *, pad: float = 0.0, folder: str = ""):
        self.log_mel, self.pad = LogMel(bins), pad
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = Path(folder).expanduser() if folder else cache / "seq2seq_suite" / "features"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"no folder for features can be made: {error.strerror}", file=str(self.folder),
                            remedy="name another one under audio.cache") from None

    def of(self, sounds: Sequence[Sound], *, speeds: Sequence[float] = ()) -> list[Stored | DataError]:
        """(S,F) of each sound, in order, or what is wrong with it.

        Args:
            sounds: what to hear.
            speeds: of each of them; empty leaves all as they are.
        """
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return list(pool.map(self._one, sounds, speeds or [1.0] * len(sounds)))

    def _one(self, sound: Sound, speed: float) -> Stored | DataError:
        try:
            name = hashlib.sha256(b"%d %d %d %d %.3f %.3f 1 " % (RATE, WINDOW, HOP, self.log_mel.bins, speed, self.pad)
                                  + sound.key()).hexdigest()
            file = self.folder / name[:2] / f"{name}.npy"
            if not file.is_file():
                file.parent.mkdir(exist_ok=True)
                samples = resample(*sound.samples(), speed=speed)
                missing = max(0, round(self.pad * RATE) - len(samples))
                features = self.log_mel(np.pad(samples, (missing // 2, missing - missing // 2)))
                with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as stream:  # two runs may write it
                    np.save(stream, features)
                os.replace(stream.name, file)
        except DataError as error:
            return error
        return Stored(file)
