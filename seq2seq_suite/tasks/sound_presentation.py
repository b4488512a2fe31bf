"""How recordings are presented: spectrograms, sound to play, facts about the voice."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.data.audio import RATE, Sound, as_wav, resample
from seq2seq_suite.tasks.presentation import Presentation

_MOST_COLUMNS, _LONGEST_PLAYED, _PLAYED = 300, 10, 8000  # of a spectrogram in a page; seconds of sound there, its rate


class SoundPresentation(Presentation):
    """A recording and a text."""

    drawing, length_unit = "sound", "seconds"
    pipeline_tag, input_text = "automatic-speech-recognition", "recording.wav"
    baselines = ("most frequent output",)

    def length(self, example: Example) -> float:
        """Seconds."""
        features = self.task.source.features_of([example.source])[0]
        return 0.0 if isinstance(features, DataError) else (len(features) - 1) / 100

    def media(self, example: Example) -> dict[str, Any]:
        """The spectrogram, 8 bits for a band and a frame, and the sound at 8 kHz."""
        features = self.task.source.features_of([example.source])[0]
        if isinstance(features, DataError):
            return {}
        frames = np.asarray(features, dtype=np.float32)
        frames = frames[:: -(-len(frames) // _MOST_COLUMNS)]
        low, high = np.quantile(frames, (0.05, 0.995))
        bytes_ = (255 * ((frames - low) / max(1e-6, high - low)).clip(0, 1)).astype(np.uint8)
        return {
            "seconds": self.length(example),
            "frames": bytes_.shape[0],
            "bins": bytes_.shape[1],
            "values": b64encode(bytes_.tobytes()).decode(),
            "sound": _wav(example.source),
        }

    def facts(self, example: Example) -> dict[str, str | float]:
        """Of embedded speech its voice, words a minute, pitch and decibels over the noise."""
        names = {"speaker": "voice", "rate": "rate", "pitch": "pitch", "noise": "noise"}
        return {fact: getattr(example.source, name) for fact, name in names.items() if hasattr(example.source, name)}


def _wav(sound: Sound) -> str:
    """A sound at 8 kHz and 8 bits, as a WAV file in a data URI; empty if it is long."""
    samples, rate = sound.samples()
    if len(samples) > _LONGEST_PLAYED * rate:
        return ""
    plain = resample(samples, rate, speed=RATE / _PLAYED)
    plain = plain / max(1e-6, float(np.abs(plain).max()))
    return f"data:audio/wav;base64,{b64encode(as_wav((127.5 * (1 + plain)).astype(np.uint8), _PLAYED)).decode()}"
