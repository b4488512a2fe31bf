"""Sound files as samples, and samples as log-mel features, which are cached on disk."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import wave
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from seq2seq_suite.common.errors import DataError, RunError
from seq2seq_suite.common.files import atomic_write_bytes, cache_root, read_bytes
from seq2seq_suite.data import cache
from seq2seq_suite.data.sound_checks import WINDOW, Level, mixed, promised_frames, windows, with_a_length
from seq2seq_suite.data.torchaudio_import import load_torchaudio

RATE = 16_000  # samples a second that features are computed from
HOP, FFT = 160, 512  # samples; a hop is 10 ms
RATES = (1_000, 384_000)  # samples a second that recordings may have
LONGEST = 2**28  # samples of a recording, all channels together: 46 minutes of stereo at 48 kHz
_PIECE = 2**23  # samples that are resampled at a time
_KERNEL = 2**20  # most weights of a resampling filter: 8 MB, and some 40 MB while it is computed
_LEVEL, _QUIETER = 0.05, 0.01  # what `leveled` aims at, and the share of the loudest window's power that counts
_FLOOR = 1e-6  # of a mel band's energy: silence is log(1e-6), not minus infinity


@runtime_checkable
class Sound(Protocol):
    """A sound to read samples from."""

    @property
    def name(self) -> str:
        """Its name in messages and reports."""
        raise NotImplementedError

    def key(self) -> bytes:
        """Bytes that determine the samples; raises DataError if they cannot be read."""
        raise NotImplementedError

    def samples(self) -> tuple[np.ndarray, int]:
        """Samples (N,) float32 in [-1, 1] and their rate; raises DataError if they cannot be read."""
        raise NotImplementedError


@dataclass(frozen=True)
class Recording:
    """A sound file: its path, or its bytes with their name."""

    name: str
    content: bytes = b""

    def key(self) -> bytes:
        """The file's bytes."""
        remedy = "correct the path, or remove the row"
        return self.content or read_bytes(Path(self.name), expected="a sound file", remedy=remedy)

    def samples(self) -> tuple[np.ndarray, int]:
        """Channels averaged, see `mixed`; any format that libsndfile reads."""
        samples, rate, _ = self.decoded()
        return samples, rate

    def decoded(self) -> tuple[np.ndarray, int, tuple[str, ...]]:
        """The samples, their rate, and remarks about the channels."""
        import soundfile

        try:
            content = with_a_length(self.key())
            with soundfile.SoundFile(io.BytesIO(content)) as sound:
                self._refuse(sound.samplerate, sound.frames * sound.channels)
                sound.seek(0)  # without it mp3 differs in the last bits
                samples, rate = sound.read(dtype="float32", always_2d=True), sound.samplerate
                promised, log = promised_frames(sound.frames, sound.extra_info, content), sound.extra_info
        except (soundfile.LibsndfileError, RuntimeError, TypeError) as error:  # TypeError: of headerless files
            reason = str(error).rpartition(": ")[2]
            raise DataError(
                f"the sound cannot be read: {reason.rstrip('.')}",
                file=self.name,
                expected="wav, flac, ogg, mp3 or NIST sphere",
                remedy="convert the file, or remove the row",
            ) from None
        if not len(samples):
            raise DataError(
                "the recording is empty", file=self.name, expected="at least one sample", remedy="remove the row"
            )
        if (promised - len(samples)) * RATE > WINDOW * rate:
            raise DataError(
                f"the recording is cut: {len(samples) / rate:.2f} of {promised / rate:.2f} seconds are there",
                file=self.name,
                expected="as much sound as the file's header says",
                remedy="copy or download the file again, or remove the row",
            )
        found, remarks = mixed(samples)
        return found, rate, (*remarks, *("more bytes than the header names",) * ("Unknown chunk marker" in log))

    def _refuse(self, rate: int, size: int) -> None:
        """Raises DataError for what a header says."""
        if not RATES[0] <= rate <= RATES[1]:
            raise DataError(
                f"{rate:,} samples a second",
                file=self.name,
                expected=f"from {RATES[0]:,} to {RATES[1]:,}",
                remedy="correct the file's header, or remove the row",
            )
        if size > LONGEST:
            raise DataError(
                f"a recording of {size:,} samples",
                file=self.name,
                expected=f"at most {LONGEST:,}",
                remedy="cut the recording, or write it at a lower rate",
            )


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
        pieces = [piece for part in self.parts for piece in (pause, resample(*part.samples()))]
        return np.concatenate(pieces[1:]), RATE


def resample(samples: np.ndarray, rate: int, *, speed: float = 1.0) -> np.ndarray:
    """Samples at `RATE`, played `speed` times as fast, which also changes the pitch.

    Recordings of up to 8 million samples are filtered in one piece, larger ones in several, whose results agree up to
    rounding.

    Source of speed perturbation: Ko et al. 2015.
    """
    import torch  # here: the command line reads configurations without it

    source = round(rate * speed)
    if source == RATE:
        return samples
    functional, ratio = load_torchaudio().functional, small_ratio(source)
    old_rate, new_rate = ratio.numerator, ratio.denominator
    # Pieces are whole periods, each with the neighbouring samples that the filter's seven zeros on either side need.
    step, margin = (-(-size // old_rate) * old_rate for size in (_PIECE, math.ceil(7 * max(1, ratio))))
    pieces = []
    for first in range(0, len(samples), step):
        begin = max(0, first - margin)
        part = torch.from_numpy(samples[begin : first + step + margin])
        found, skipped = functional.resample(part, old_rate, new_rate), (first - begin) // old_rate * new_rate
        pieces.append(found[skipped : skipped + step // old_rate * new_rate].numpy())
    return np.concatenate(pieces)


def as_wav(samples: np.ndarray, rate: int) -> bytes:
    """A WAV file of samples (N,), uint8 or little-endian int16, at `rate` a second."""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, samples.itemsize, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return content.getvalue()


def small_ratio(source: int) -> Fraction:
    """source / `RATE`, or where its filter would be too large the nearest ratio with a smaller one.

    The filter from p to q samples has q phases with weights for p samples each. For rates without a common divisor it
    would have gigabytes. Every rate of `RATES` is approximated within 0.05 %, less than a hundredth of a
    semitone; common rates are exact.

    >>> small_ratio(44_100), small_ratio(48_000), small_ratio(44_101)
    (Fraction(441, 160), Fraction(3, 1), Fraction(1527, 554))
    """
    ratio = Fraction(source, RATE)
    return ratio.limit_denominator(math.isqrt(int(_KERNEL / ratio)))  # p q = ratio q^2


def leveled(samples: np.ndarray) -> np.ndarray:
    """Scaled to a level of 26 dB below full scale, measured without pauses.

    The level is the root mean square of the windows of 25 ms that are at most 20 dB quieter than the loudest.

    Source: after the active speech level of ITU-T P.56.
    """
    power = windows(samples, WINDOW)
    loudest = power.max(initial=0.0)
    level = math.sqrt(power[power >= _QUIETER * loudest].mean()) if 0.0 < loudest < math.inf else _LEVEL
    return samples * np.float32(_LEVEL / level)


class LogMel:
    """log(mel energy + 1e-6) of windows of 25 ms every 10 ms, samples at `RATE` -> (S,F) float32.

    S = 1 + N // 160; windows are centred, the ends mirrored.
    """

    def __init__(self, bins: int):
        self.bins = bins
        self._transform = load_torchaudio().transforms.MelSpectrogram(
            RATE, n_fft=FFT, win_length=WINDOW, hop_length=HOP, n_mels=bins
        )

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """The features of samples (N,), N > 256: shorter ones are padded with silence."""
        import torch

        shortest = FFT // 2 + 1  # needed to mirror the ends
        if len(samples) < shortest:
            samples = np.pad(samples, (0, shortest - len(samples)))
        with torch.inference_mode():
            return (self._transform(torch.from_numpy(samples)).T + _FLOOR).log().numpy()


class WhisperLogMel:
    """log10(mel energy) of windows of 30 seconds, as Whisper was trained on it -> (3000,F) float32.

    Shorter sounds are followed by silence. Energies of less than 1e-8 of the largest count as that, and figures are
    (log10 + 4) / 4; the mel scale is Slaney's, the Fourier transform is of 25 ms.

    Source: Radford et al. 2023 (Whisper), section 2.2, and its program's `log_mel_spectrogram`.
    """

    seconds = 30

    def __init__(self, bins: int):
        self.bins = bins
        self._transform = load_torchaudio().transforms.MelSpectrogram(
            RATE, n_fft=WINDOW, hop_length=HOP, f_max=RATE / 2, n_mels=bins, norm="slaney", mel_scale="slaney"
        )

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """The features of samples (N,); raises DataError if they are longer."""
        import torch

        most = self.seconds * RATE
        if len(samples) > most:
            raise DataError(
                f"a recording of {len(samples) / RATE:.1f} seconds",
                expected=f"at most {self.seconds}, the window that Whisper reads",
                remedy="cut the recording",
            )
        with torch.inference_mode():
            mel = self._transform(torch.from_numpy(np.pad(samples, (0, most - len(samples)))))[:, :-1]
            figures = mel.clamp(min=1e-10).log10()
            return ((figures.maximum(figures.max() - 8.0) + 4.0) / 4.0).T.contiguous().numpy()


class Stored:
    """An array on disk that is read when it is needed; numpy can use it like an array.

    Args:
        file: a safetensors file with one array, `features`, and the sound's `Level`. (A .npy file's header is a Python
            expression, which Python 3.11 cannot parse in two threads: https://github.com/python/cpython/issues/106905.)

    Raises:
        OSError, SafetensorError, TypeError, ValueError, LookupError: there is no such file, or it is damaged.
    """

    def __init__(self, file: Path):
        self.file, self.dtype = file, np.dtype(np.float32)
        with safe_open(file, "numpy") as arrays:
            self.shape = tuple(arrays.get_slice("features").get_shape())
            self.level = Level(**json.loads(arrays.metadata()["level"]))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        try:
            array = load_file(self.file)["features"]
        except (OSError, SafetensorError) as error:
            raise RunError(f"{self.file}: the stored features can no longer be read: {error}") from None
        return array if dtype is None else array.astype(dtype)


class Features:
    """Features of many recordings, computed by several threads and cached in a folder across runs.

    Args:
        bins: F.
        pad: shortest length in seconds; shorter sounds get silence on both sides.
        level: scale each sound to one level.
        whisper: they are `WhisperLogMel`'s, not `LogMel`'s.
        folder: where they are kept; empty is `seq2seq_suite/features` in the user's folder for caches.
    """

    def __init__(self, bins: int, *, pad: float = 0.0, level: bool = False, whisper: bool = False, folder: str = ""):
        self.log_mel, self.pad, self.level = (WhisperLogMel if whisper else LogMel)(bins), pad, level
        self.folder = Path(folder).expanduser() if folder else cache_root() / cache.FEATURES
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"the folder for features cannot be created: {error.strerror}",
                file=str(self.folder),
                remedy="choose another one with audio.cache",
            ) from None

    def of(self, sounds: Sequence[Sound], *, speeds: Sequence[float] = ()) -> list[Stored | DataError]:
        """(S,F) of each sound, in order, or what is wrong with it.

        Args:
            sounds: to be read.
            speeds: of each of them; empty leaves all as they are.
        """
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return list(pool.map(self._one, sounds, speeds or [1.0] * len(sounds)))

    def _one(self, sound: Sound, speed: float) -> Stored | DataError:
        try:
            made = b"%d %d %d %d %.3f %.3f 3 " % (RATE, WINDOW, HOP, self.log_mel.bins, speed, self.pad)
            of_whisper = isinstance(self.log_mel, WhisperLogMel)
            digest = hashlib.sha256(made + b"leveled " * self.level + b"whisper " * of_whisper)
            digest.update(sound.key())
            name = digest.hexdigest()
            file = self.folder / name[:2] / f"{name}.safetensors"
            with contextlib.suppress(OSError, SafetensorError, TypeError, ValueError, LookupError):
                return Stored(file)  # unless it is not there yet, or damaged
            samples, rate, *remarks = sound.decoded() if isinstance(sound, Recording) else sound.samples()
            level = Level.of(samples, rate, sound.name, *remarks)
            samples = resample(samples, rate, speed=speed)
            samples = leveled(samples) if self.level else samples
            missing = max(0, round(self.pad * RATE) - len(samples))
            features = self.log_mel(np.pad(samples, (missing // 2, missing - missing // 2)))
        except DataError as error:
            return error
        self._keep(features, level, file)
        return Stored(file)

    def _keep(self, features: np.ndarray, level: Level, file: Path) -> None:
        try:
            file.parent.mkdir(exist_ok=True)
            atomic_write_bytes(file, save({"features": features}, {"level": json.dumps(asdict(level))}))
        except OSError as error:
            raise RunError(
                f"{self.folder}: features cannot be saved: {error.strerror or error} "
                "(choose another folder with audio.cache)"
            ) from None
