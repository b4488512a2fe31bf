"""The miniworld's sentences spoken by eSpeak NG: many voices, rates, pitches and noise, all seeded.

eSpeak NG is free software under the GPL and comes as the optional package `espeakng-loader`; what it speaks is sound,
not code. Voices of validation and test do not occur in training.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from seq2seq_suite.miniworld.sentences import told
from seq2seq_suite.miniworld.speaker import SPEAKERS
from seq2seq_suite.miniworld.world import Scene

# Variants of the English voice that sound like people; those left out whisper, croak or sing.
_VOICES = ("Alex", "Alicia", "Andrea", "Andy", "Annie", "Denis", "Diogo", "Gene", "Gene2", "Henrique", "Hugo", "Jacky",
           "Lee", "Marco", "Mario", "Michael", "Mike", "Reed", "adam", "anika", "antonio", "belinda", "benjamin",
           "boris", "caleb", "david", "ed", "edward", "f1", "f2", "f3", "f4", "f5", "ian", "iven", "john", "linda",
           "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "marcelo", "max", "michel", "miguel", "norbert", "pablo",
           "paul", "pedro", "quincy", "rob", "robert", "sandro", "shelby", "steph", "travis", "victor", "zac")
VOICES = {"validation": _VOICES[::10], "test": _VOICES[5::10]}
VOICES["train"] = tuple(voice for voice in _VOICES if voice not in VOICES["validation"] + VOICES["test"])
VOICES["compositional"] = VOICES["test"]
ACCENTS = ("en-us", "en")
_RATES, _PITCHES, _NOISE = (140, 200), (30, 70), (15.0, 35.0)  # words a minute; 0 to 99; decibels over the noise


@dataclass(frozen=True)
class Spoken:
    """A sentence and how it is said.

    Args:
        text: the sentence.
        voice: as eSpeak names it, accent and variant.
        rate: words a minute.
        pitch: 0 to 99.
        noise: signal-to-noise ratio in decibels.
        seed: of the noise.
    """

    text: str
    voice: str
    rate: int
    pitch: int
    noise: float
    seed: int

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"{self.text} [{self.voice}, {self.rate} words/min, pitch {self.pitch}, {self.noise:.0f} dB]"

    def key(self) -> bytes:
        """What the samples depend on."""
        return repr(self).encode()

    def samples(self) -> tuple[np.ndarray, int]:
        """Samples (N,) float32 and their rate; raises DataError without eSpeak NG."""
        clean, rate = SPEAKERS.say(self.text, self.voice, rate=self.rate, pitch=self.pitch)
        power = float(np.square(clean).mean()) / 10.0 ** (self.noise / 10.0)
        noise = np.random.default_rng(self.seed).standard_normal(len(clean), dtype=np.float32)
        return clean + noise * np.float32(power**0.5), rate


def utterances(split: str, *, seed: int = 0, sizes: dict[str, int] | None = None) -> Iterator[tuple[Scene, Spoken]]:
    """Scenes of a split with what is said of them, each by a voice of that split; see `miniworld.scenes`."""
    from seq2seq_suite.miniworld.text import spaced

    rng = Random(f"speech/{seed}/{split}")
    for number, (scene, tree) in enumerate(told(split, seed=seed, sizes=sizes)):
        yield scene, Spoken(spaced(tree.words()), f"{rng.choice(ACCENTS)}+{rng.choice(VOICES[split])}",
                            rng.randint(*_RATES), rng.randint(*_PITCHES), round(rng.uniform(*_NOISE), 1), number)
