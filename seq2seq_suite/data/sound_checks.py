"""Checks of sounds: length, channels and level."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seq2seq_suite.common.errors import DataError

WINDOW = 400  # samples: 25 ms
_SILENT = 2**-15  # a step of 16 bits: sounds that move by no more are silent
_LOUDEST, _BEYOND, _FULL = 16.0, 1.2, 32_767 / 32_768  # peaks that are refused and remarked on; full scale
_CANCELLED = 0.1  # of the power that a mean of C unlike channels has
_PAUSE, _MOSTLY = 1e-4, 0.95  # of the loudest window's power; share of silence that is remarked on
_CLIPPED, _QUIET, _OFFSET = 1e-2, -60, 0.05  # shares, decibels and offsets that are remarked on
_HEADER, _ENDLESS = 4096, 2**31 - 2**16  # bytes in which a header lies; lengths that mean "not known"
_SIZE = re.compile(r"^ *(?:data|Data Size|SSND) *: (\d+)(?: \(should be (\d+)\))?", re.MULTILINE)  # of libsndfile's log
_FRAMES, _SPHERE = re.compile(r"'ds64' chunk of (\d+)"), re.compile(rb"sample_count -i (\d+)")


def with_a_length(content: bytes) -> bytes:
    """A sound file whose header names no length, because its writer could not return to it, so that all of it is read.

    >>> with_a_length(b"RIFF....WAVEdata" + bytes(8))[16:]
    b'\\xff\\xff\\xff\\xff\\x00\\x00\\x00\\x00'
    """
    if content[:4] == b"RF64" and content[28:36] == bytes(8):  # of the chunk ds64, the data's length
        return b"RIFF" + content[4:]
    place = 8 if content[:4] == b".snd" else content.find(b"data" + bytes(4), 12, _HEADER) + 4
    if (
        content[:4] not in (b"RIFF", b".snd")
        or place < 8
        or content[place : place + 4] != bytes(4)
        or content[place + 4 : place + 8].isalnum()
    ):  # another chunk follows: the sound is empty
        return content
    return content[:place] + b"\xff" * 4 + content[place + 4 :]


def promised_frames(frames: int, log: str, content: bytes) -> float:
    """The number of frames in a sound file's header.

    Args:
        frames: that libsndfile found.
        log: its report on the header.
        content: of the file.
    """
    for found in (_FRAMES.search(log), _SPHERE.search(content[:_HEADER])):
        if found is not None:
            return int(found[1])
    found = _SIZE.search(log)
    size = int(found[1]) if found else 0
    there = min(len(content), int(found[2] or size)) if found and size else 0
    return frames * size / there if there < size < _ENDLESS else frames


def mixed(channels: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Samples (N,) of channels (N,C), and remarks: their mean, or where they cancel each other the loudest one."""
    count = channels.shape[1]
    if count == 1:
        return channels[:, 0], ()
    mean = channels.mean(1)
    with np.errstate(all="ignore"):  # of samples that are not finite, which are refused later
        power = np.square(channels, dtype=np.float32).mean(0, dtype=np.float64) - np.square(channels.mean(0))
        left = np.square(mean).mean(dtype=np.float64) - np.square(mean.mean())
    if left < _CANCELLED * power.mean() / count:
        return channels[:, power.argmax()], ("channels that cancel each other, of which the loudest is read,",)
    return mean, ("a silent channel",) if (power <= _SILENT**2).any() else ()


@dataclass(frozen=True)
class Level:
    """How loud a sound is.

    Args:
        level: root mean square, in decibels below full scale (negative).
        peak: the largest absolute sample; 1 is full scale.
        silence: share of windows of 25 ms that are 40 dB or more below the loudest.
        clipped: share of samples at full scale or beyond.
        offset: mean of the samples.
        remarks: what stands out.
    """

    level: float
    peak: float
    silence: float
    clipped: float
    offset: float
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, samples: np.ndarray, rate: int, name: str, remarks: Sequence[str] = ()) -> Level:
        """Of samples (N,), N > 0, at their own rate; raises DataError if the sound is unusable."""
        remedy = "write the file again, or remove the row"
        low, high = float(samples.min()), float(samples.max())
        peak = max(-low, high)
        if not peak <= _LOUDEST:
            raise DataError(
                f"the sound has samples that are not finite or too large: up to {peak:,.4g}",
                file=name,
                expected="samples from -1 to 1",
                remedy=remedy,
            )
        if high - low <= 2 * _SILENT:
            raise DataError(
                "the recording is silent" + f": all samples are {high:.3g}" * (peak > 2 * _SILENT),
                file=name,
                expected="sound",
                remedy="record it again, or remove the row",
            )
        power = windows(samples, max(1, rate // 40))
        offset = float(samples.mean(dtype=np.float64))
        clipped = float((np.abs(samples) >= _FULL).mean())
        level = 10.0 * math.log10(max(1e-30, float(np.square(samples, dtype=np.float64).mean()) - offset**2))
        silence = float((power <= _PAUSE * power.max()).mean())
        holds = {
            "clipping": clipped > _CLIPPED,
            "samples beyond -1 to 1": peak > _BEYOND,
            f"a level below {_QUIET} dB": level < _QUIET,
            "a DC offset": abs(offset) > _OFFSET,
            "hardly any sound, but silence,": silence >= _MOSTLY,
        }
        return cls(level, peak, silence, clipped, offset, (*remarks, *(one for one, so in holds.items() if so)))


def windows(samples: np.ndarray, size: int) -> np.ndarray:
    """Mean power of each `size` of samples (N,), float64, the last ones padded with zeros."""
    return np.square(np.pad(samples, (0, -len(samples) % size)).reshape(-1, size), dtype=np.float64).mean(1)
