"""Random segmentations that depend on the seed alone.

SentencePiece also samples, but its generator cannot be seeded per example: a resumed run would read other pieces than
the run it continues.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from random import Random

from seq2seq_suite.types import UNKNOWN

SPACE = "▁"  # how SentencePiece writes the space before a word
_DRAWS = 64  # segmentations kept per word: drawing one for each occurrence would take minutes an epoch


class Sampler:
    """Samples a segmentation of a text word by word.

    Differs: 64 segmentations are drawn for each word when it first occurs, and each occurrence takes one of them.

    Args:
        ids: piece -> id; a character that is no piece is unknown.
        scores, dropout: see `split_by_merges`.
    """

    def __init__(self, ids: Mapping[str, int], scores: Mapping[str, float], dropout: float):
        self._ids, self._scores, self._dropout = ids, scores, dropout
        self._drawn: dict[str, list[tuple[int, ...] | None]] = {}

    def sample(self, words: Sequence[str], seed: int) -> list[int]:
        """Ids of the pieces of words, each with the space before it; random, but determined by the seed."""
        random, ids = Random(seed).random, []
        for word in words:
            drawn = self._drawn.get(word)
            if drawn is None:
                drawn = self._drawn[word] = [None] * _DRAWS
            number = int(random() * _DRAWS)
            found = drawn[number]
            if found is None:
                found = drawn[number] = self._draw(word, number)
            ids += found
        return ids

    def _draw(self, word: str, number: int) -> tuple[int, ...]:
        random = Random(zlib.crc32(f"{number}/{word}".encode("utf-8", "surrogatepass")))
        pieces = split_by_merges(SPACE + word, random, scores=self._scores, dropout=self._dropout)
        ids = [self._ids.get(piece, UNKNOWN) for piece in pieces]
        # Consecutive unknown characters are one unknown piece, as in SentencePiece.
        return tuple(number for place, number in enumerate(ids) if number != UNKNOWN or ids[place - 1 : place] != [
            UNKNOWN])


def split_by_merges(word: str, random: Random, *, scores: Mapping[str, float], dropout: float) -> list[str]:
    """The pieces of a word by byte-pair encoding with dropout of merges.

    At each step every possible merge is dropped with probability `dropout` and the best of the others is applied,
    until none is left.

    Args:
        word: not empty.
        random: `random.random` is called once for each possible merge of each step.
        scores: piece -> score; the higher, the earlier it is merged.
        dropout: 0 gives the pieces of plain byte-pair encoding, 1 single characters.

    Source: Provilkov et al. 2020, Algorithm 1.

    >>> scores = {"a": 0, "b": 0, "c": 0, "ab": -1, "abc": -2}
    >>> split_by_merges("abcab", Random(1), scores=scores, dropout=0.0)
    ['abc', 'ab']
    >>> split_by_merges("abcab", Random(1), scores=scores, dropout=1.0)
    ['a', 'b', 'c', 'a', 'b']
    """
    pieces = list(word)
    while True:
        best, place = -math.inf, -1
        for start in range(len(pieces) - 1):
            score = scores.get(pieces[start] + pieces[start + 1])
            if score is not None and (not dropout or random.random() >= dropout) and score > best:
                best, place = score, start
        if place < 0:
            return pieces
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
