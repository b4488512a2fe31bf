"""The scenes of each split, seeded: who does what to whom.

The scene is the source; every view of it is a module of its own: `english` gives a sentence with its tree,
`german` and `chinese` its translations, `text` the sentence in natural spacing.

>>> from seq2seq_suite.miniworld.english import english
>>> scene = scenes("test", sizes={"test": 1})[0]
>>> english(scene).label
'TOP'
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from seq2seq_suite.common.trees import Tree
from seq2seq_suite.miniworld.english import english
from seq2seq_suite.miniworld.held_out import is_new_combination
from seq2seq_suite.miniworld.scenes import Scene, sample_scene
from seq2seq_suite.miniworld.splits import falls_in, size_of

SPLITS = ("train", "validation", "test", "compositional")
SIZES = {"train": 6000, "validation": 500, "test": 1000, "compositional": 1000}
MAX_WORDS = 22  # the full stop counts
_SHARES = {"train": range(0, 59), "validation": range(59, 76), "test": range(76, 100)}  # of CRC-32 modulo 100


def scenes(split: str, *, seed: int = 0, sizes: dict[str, int] | None = None) -> list[Scene]:
    """The scenes of a split, each with another English sentence.

    The sentence itself decides between train, validation and test (by its CRC-32), so they share none, whatever
    their sizes and seeds, and no split needs another one to be drawn. `compositional` holds the scenes with a
    combination that `held_out.is_new_combination` keeps out of the other three.

    Args:
        split: one of `SPLITS`.
        seed: the same seed gives the same scenes in every process and version of Python.
        sizes: number of scenes by split, where it is not that of `SIZES`.

    Returns:
        As many scenes as asked for, in the order in which they were drawn.

    Raises:
        ValueError: there is no such split.
    """
    return [scene for scene, _ in scenes_with_trees(split, seed=seed, sizes=sizes)]


def scenes_with_trees(
    split: str, *, seed: int = 0, sizes: dict[str, int] | None = None
) -> Iterator[tuple[Scene, Tree]]:
    """The same scenes, each with its English sentence's tree, one after the other."""
    size = size_of(split, SIZES, sizes)
    rng = Random(f"{seed}/{split}")
    seen: set[str] = set()
    while len(seen) < size:
        scene = sample_scene(rng)
        if is_new_combination(scene) != (split == "compositional"):
            continue
        tree = english(scene)
        words = tree.words()
        sentence = " ".join(words)
        if len(words) > MAX_WORDS or sentence in seen or not belongs(sentence, split):
            continue
        seen.add(sentence)
        yield scene, tree


def belongs(sentence: str, split: str) -> bool:
    """Whether a sentence may be in a split; every one may in `compositional`."""
    return split == "compositional" or falls_in(sentence, _SHARES[split])
