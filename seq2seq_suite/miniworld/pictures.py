"""Pictures of shapes and handwritten digits, several of them, in many colours and sizes, some behind others.

The digits are real: those of scikit-learn's `load_digits` (1,797 scans by 43 people), a tenth each for validation and
test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random

import numpy as np

from seq2seq_suite.miniworld.splits import size_of

SIZES = {"train": 3000, "validation": 200, "test": 400}
SHAPES = ("circle", "square", "triangle", "star")
SIDE = 96  # pixels of a picture
COLOURS = ((220, 50, 47), (38, 139, 210), (133, 153, 0), (181, 137, 0), (108, 113, 196), (42, 161, 152), (211, 54, 130))
CLUTTER = ("ring", "cross", "bar")  # of no class
_MOST, _MOST_CROWDED = 6, 9  # objects
_SMALLEST, _LARGEST = 14, 36  # pixels
_MOST_HIDDEN, _MOST_HIDDEN_CROWDED = 0.3, 0.6  # of an object, behind those in front of it
_DIGIT_SHARES = {"train": range(0, 8), "validation": range(8, 9), "test": range(9, 10)}  # of the number modulo 10


@dataclass(frozen=True)
class Thing:
    """One object: its class, corners, colour, and the number of its scan where it is a digit."""

    label: str
    box: tuple[int, int, int, int]
    colour: tuple[int, int, int]
    scan: int = -1


@dataclass(frozen=True)
class Drawn:
    """A picture that is drawn when it is first read; later things are in front."""

    name: str
    things: tuple[Thing, ...]
    ground: tuple[int, int, int]
    seed: int

    def size(self) -> tuple[int, int]:
        """Height and width; nothing is drawn for it."""
        return SIDE, SIDE

    def key(self) -> bytes:
        """What the pixels depend on."""
        return repr(self).encode()

    def visible_things(self) -> tuple[Thing, ...]:
        """All that is drawn, from the back to the front."""
        return self.things

    @cached_property
    def shares_shown(self) -> tuple[float, ...]:
        """How much of each thing's ink nothing hides, from 0 to 1."""
        clear, shown = np.ones((SIDE, SIDE)), dict.fromkeys(map(id, self.things), 0.0)
        for thing in reversed(self.visible_things()):
            x1, y1, x2, y2 = thing.box
            ink = _ink(thing)
            shown[id(thing)] = float((ink * clear[y1:y2, x1:x2]).sum() / ink.sum())
            clear[y1:y2, x1:x2] *= 1.0 - ink
        return tuple(shown[id(thing)] for thing in self.things)

    def pixels(self) -> np.ndarray:
        """(SIDE,SIDE,3) uint8, not to be written to."""
        return self._pixels

    @cached_property
    def _pixels(self) -> np.ndarray:
        noise = np.random.default_rng(self.seed).normal(0.0, 8.0, (SIDE, SIDE, 3))
        canvas = np.array(self.ground, dtype=np.float64) + noise
        for thing in self.visible_things():
            x1, y1, x2, y2 = thing.box
            ink = _ink(thing)[..., None]
            canvas[y1:y2, x1:x2] = canvas[y1:y2, x1:x2] * (1.0 - ink) + np.array(thing.colour) * ink
        drawn = canvas.clip(0, 255).astype(np.uint8)
        drawn.flags.writeable = False
        return drawn


@dataclass(frozen=True)
class Crowded(Drawn):
    """A picture with things that are none of the classes among the others: `clutter`, each with its place in front."""

    clutter: tuple[tuple[int, Thing], ...] = ()

    def visible_things(self) -> tuple[Thing, ...]:
        """Clutter with place n comes before the n-th thing."""
        found: list[Thing] = []
        for place in range(len(self.things) + 1):
            found += [thing for at, thing in self.clutter if at == place]
            found += self.things[place : place + 1]
        return tuple(found)


def pictures(
    split: str, *, seed: int = 0, sizes: dict[str, int] | None = None, crowded: bool = False
) -> Iterator[Drawn]:
    """Pictures of a split.

    Args:
        split: one of `SIZES`.
        seed: the same seed gives the same pictures in every process.
        sizes: number of pictures by split, where it is not that of `SIZES`.
        crowded: more things, of which more may be hidden, and clutter of no class in the colours of the things.

    Raises:
        ValueError: there is no such split.
    """
    rng = Random(f"pictures/{seed}/{split}" + "/crowded" * crowded)
    most, hidden = (_MOST_CROWDED, _MOST_HIDDEN_CROWDED) if crowded else (_MOST, _MOST_HIDDEN)
    for number in range(size_of(split, SIZES, sizes)):
        things: list[Thing] = []
        for _ in range(rng.randint(1, most)):
            thing = _draw_thing(rng, split)
            if all(_hidden(other.box, thing.box) <= hidden for other in things):
                things.append(thing)
        clutter = _clutter(rng, things) if crowded else ()
        ground = rng.randint(200, 250), rng.randint(200, 250), rng.randint(200, 250)
        made = f"picture {number + 1} of {split}", tuple(things), ground, rng.randrange(2**31)
        yield Crowded(*made, clutter) if crowded else Drawn(*made)


def _clutter(rng: Random, things: list[Thing]) -> tuple[tuple[int, Thing], ...]:
    """Some rings, crosses and bars that hide no thing more than others may, from the back to the front."""
    found: list[tuple[int, Thing]] = []
    for _ in range(rng.randint(2, 5)):
        side = rng.randint(_SMALLEST, _LARGEST)
        x, y = rng.randint(0, SIDE - side), rng.randint(0, SIDE - side)
        thing = Thing(rng.choice(CLUTTER), (x, y, x + side, y + side), rng.choice(COLOURS))
        place = rng.randint(0, len(things))
        if all(_hidden(other.box, thing.box) <= _MOST_HIDDEN for other in things[:place]):
            found.append((place, thing))
    return tuple(sorted(found, key=lambda one: one[0]))


def _draw_thing(rng: Random, split: str) -> Thing:
    side = rng.randint(_SMALLEST, _LARGEST)
    x, y = rng.randint(0, SIDE - side), rng.randint(0, SIDE - side)
    if rng.random() < 0.5:
        return Thing(rng.choice(SHAPES), (x, y, x + side, y + side), rng.choice(COLOURS))
    images, targets = _digits()
    while True:
        scan = rng.randrange(len(targets))
        if scan % 10 in _DIGIT_SHARES[split]:
            break
    wide = max(6, round(side * _width_of(images[scan]) / 8))
    return Thing(str(targets[scan]), (x, y, x + min(wide, SIDE - x), y + side), rng.choice(COLOURS), scan)


def _hidden(behind: tuple[int, int, int, int], front: tuple[int, int, int, int]) -> float:
    """The share of one box that another covers."""
    wide = max(0, min(behind[2], front[2]) - max(behind[0], front[0]))
    high = max(0, min(behind[3], front[3]) - max(behind[1], front[1]))
    return wide * high / ((behind[2] - behind[0]) * (behind[3] - behind[1]))


def _ink(thing: Thing) -> np.ndarray:
    """(height,width) in [0,1], how much of each pixel the thing covers."""
    x1, y1, x2, y2 = thing.box
    if thing.scan >= 0:
        from PIL import Image

        image = _digits()[0][thing.scan]
        inked = np.flatnonzero(image.any(0))
        scan = Image.fromarray((image[:, inked[0] : inked[-1] + 1] * 15.9).astype(np.uint8))
        return np.asarray(scan.resize((x2 - x1, y2 - y1), Image.Resampling.BILINEAR)) / 255.0
    down, across = np.mgrid[0 : y2 - y1, 0 : x2 - x1] + 0.5
    y, x = down / (y2 - y1) * 2 - 1, across / (x2 - x1) * 2 - 1
    match thing.label:
        case "circle":
            return (x * x + y * y <= 1.0).astype(float)
        case "triangle":
            return (np.abs(x) <= (y + 1) / 2).astype(float)
        case "star":
            angle, radius = np.arctan2(x, -y), np.hypot(x, y)
            wave = np.abs(((angle * 5 / (2 * math.pi)) % 1.0) - 0.5) * 2
            return (radius <= 0.45 + 0.55 * wave**1.5).astype(float)
        case "ring":
            return ((x * x + y * y <= 1.0) & (x * x + y * y >= 0.5)).astype(float)
        case "cross":
            return ((np.abs(x) < 0.3) | (np.abs(y) < 0.3)).astype(float)
        case "bar":
            return (np.abs(x - y) < 0.4).astype(float)
        case _:
            return np.ones_like(x)


def _width_of(image: np.ndarray) -> int:
    inked = np.flatnonzero(image.any(0))
    return int(inked[-1] - inked[0] + 1)


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    scans, digits = load_digits(return_X_y=True)
    return np.asarray(scans).reshape(-1, 8, 8), np.asarray(digits)
