"""The miniworld's sentences spoken by eSpeak NG: many voices, rates, pitches and noise, all seeded.

eSpeak NG is free software under the GPL and comes as the optional package `espeakng-loader`; what it speaks is sound,
not code. Voices of validation and test do not occur in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from seq2seq_suite.common.trees import Tree
from seq2seq_suite.miniworld.sentences import scenes_with_trees
from seq2seq_suite.miniworld.speaker import SPEAKERS
from seq2seq_suite.miniworld.world import Scene

# Variants of the English voice that sound like people; those left out whisper, croak or sing.
_VOICES = (
    "Alex",
    "Alicia",
    "Andrea",
    "Andy",
    "Annie",
    "Denis",
    "Diogo",
    "Gene",
    "Gene2",
    "Henrique",
    "Hugo",
    "Jacky",
    "Lee",
    "Marco",
    "Mario",
    "Michael",
    "Mike",
    "Reed",
    "adam",
    "anika",
    "antonio",
    "belinda",
    "benjamin",
    "boris",
    "caleb",
    "david",
    "ed",
    "edward",
    "f1",
    "f2",
    "f3",
    "f4",
    "f5",
    "ian",
    "iven",
    "john",
    "linda",
    "m1",
    "m2",
    "m3",
    "m4",
    "m5",
    "m6",
    "m7",
    "m8",
    "marcelo",
    "max",
    "michel",
    "miguel",
    "norbert",
    "pablo",
    "paul",
    "pedro",
    "quincy",
    "rob",
    "robert",
    "sandro",
    "shelby",
    "steph",
    "travis",
    "victor",
    "zac",
)
VOICES = {"validation": _VOICES[::10], "test": _VOICES[5::10]}
VOICES["train"] = tuple(voice for voice in _VOICES if voice not in VOICES["validation"] + VOICES["test"])
VOICES["compositional"] = VOICES["test"]
ACCENTS = ("en-us", "en")
_RATES, _PITCHES, _NOISE = (140, 200), (30, 70), (15.0, 35.0)  # words a minute; 0 to 99; decibels over the noise
_MORE_NOISE = (0.0, 25.0)


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


@dataclass(frozen=True)
class InRoom(Spoken):
    """A sentence said in a room in which someone else speaks.

    Args:
        echo: seconds until the room's sound has lost 60 dB.
        other, other_voice: what someone else says at the same time, and who.
        other_level: how many decibels below the sentence.
    """

    echo: float = 0.0
    other: str = ""
    other_voice: str = ""
    other_level: float = 20.0

    def samples(self) -> tuple[np.ndarray, int]:
        """As of `Spoken`, with the room's echo and the other voice."""
        from scipy.signal import fftconvolve

        said, rate = super().samples()
        rng = np.random.default_rng(self.seed)
        at = np.arange(1, int(self.echo * rate)) / rate  # 10^-3 of the amplitude after `echo` seconds
        tail = rng.standard_normal(len(at)) * 10 ** (-3 * at / self.echo) * (0.5 / np.sqrt(0.15 * self.echo * rate))
        said = fftconvolve(said, np.concatenate(([1.0], tail)))[: len(said)]
        besides = SPEAKERS.say(self.other, self.other_voice, rate=160, pitch=50)[0]
        besides = np.resize(besides, len(said))  # it says the same again, if it is shorter
        level = np.sqrt(np.square(said).mean() / max(np.square(besides).mean(), 1e-12)) * 10 ** (-self.other_level / 20)
        return (said + level * besides).astype(np.float32), rate


def utterances(split: str, *, seed: int = 0, sizes: dict[str, int] | None = None) -> Iterator[tuple[Scene, Spoken]]:
    """Scenes of a split with what is said of them, each by a voice of that split; see `miniworld.scenes`."""
    from seq2seq_suite.miniworld.text import spaced

    rng = Random(f"speech/{seed}/{split}")
    for number, (scene, tree) in enumerate(scenes_with_trees(split, seed=seed, sizes=sizes)):
        yield (
            scene,
            Spoken(
                spaced(tree.words()),
                f"{rng.choice(ACCENTS)}+{rng.choice(VOICES[split])}",
                rng.randint(*_RATES),
                rng.randint(*_PITCHES),
                round(rng.uniform(*_NOISE), 1),
                number,
            ),
        )


def in_rooms(scenes: Iterable[tuple[Scene, Tree]], split: str) -> Iterator[tuple[Scene, InRoom]]:
    """The same for other scenes, in rooms with echo, other voices and more noise."""
    from seq2seq_suite.miniworld.text import spaced

    rng, other = Random(f"rooms/{split}"), "There was a story about a king."
    for number, (scene, tree) in enumerate(scenes):
        text, voices = spaced(tree.words()), [f"{rng.choice(ACCENTS)}+{rng.choice(VOICES[split])}" for _ in range(2)]
        yield (
            scene,
            InRoom(
                text,
                voices[0],
                rng.randint(*_RATES),
                rng.randint(*_PITCHES),
                round(rng.uniform(*_MORE_NOISE), 1),
                number,
                round(rng.uniform(0.1, 0.6), 2),
                other,
                voices[1],
                round(rng.uniform(3.0, 25.0), 1),
            ),
        )
        other = text
