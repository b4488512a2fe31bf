"""Segmentations drawn at random, the same ones in every process for the same seed.

SentencePiece draws, too, but from a generator that each process begins elsewhere, whatever its seed: a resumed run
would read other pieces than the run it continues.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from random import Random

from seq2seq_suite.types import UNKNOWN

SPACE = "▁"  # how SentencePiece writes the space before a word
_DRAWS = 64  # segmentations kept of a word: drawing them anew for each of its occurrences would take minutes an epoch

Split = Callable[[str, Random], list[str]]


class Sampler:
    """Draws a segmentation of a text word by word.

    Differs: of each word 64 segmentations are drawn, as the word is met, and each occurrence takes one of them.

    Args:
        ids: piece -> id; a character that is no piece is unknown.
        split: draws the pieces of a word with its space.
    """

    def __init__(self, ids: Mapping[str, int], split: Split):
        self._ids, self._split = ids, split
        self._drawn: dict[str, list[tuple[int, ...] | None]] = {}

    def sample(self, words: Sequence[str], seed: int) -> list[int]:
        """Ids of the pieces of words, each with the space before it, drawn with this seed alone."""
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
        pieces = self._split(SPACE + word, Random(zlib.crc32(f"{number}/{word}".encode("utf-8", "surrogatepass"))))
        ids = [self._ids.get(piece, UNKNOWN) for piece in pieces]
        # A run of unknown characters is one unknown piece, as SentencePiece has it.
        return tuple(number for place, number in enumerate(ids) if number != UNKNOWN or ids[place - 1 : place] != [
            UNKNOWN])


def split_by_merges(word: str, random: Random, *, scores: Mapping[str, float], dropout: float) -> list[str]:
    """The pieces of a word by byte-pair encoding whose merges are each left out with a probability.

    At each step every possible merge is left out with probability `dropout`; of the others the best is carried out,
    and where none is left the word is done.

    Args:
        word: not empty.
        random: `random.random` is drawn from, once for each possible merge of each step.
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


def split_by_probability(word: str, random: Random, *, scores: Mapping[str, float], alpha: float, longest: int
                         ) -> list[str]:
    """The pieces of a word drawn from a unigram model: a segmentation with probability ~ (product of p(piece))^alpha.

    Forward sums over all segmentations of each beginning of the word, then pieces drawn from its end.

    Args:
        word: not empty.
        random: `random.random` is drawn from, once for each piece.
        scores: piece -> log p(piece).
        alpha: 0 makes all segmentations alike, 1 follows the model.
        longest: characters of the longest piece.

    Source: Kudo 2018, section 3.2, with all segmentations instead of the n best.

    >>> scores = {"a": -1.0, "b": -1.0, "ab": -9.0}
    >>> split_by_probability("ab", Random(1), scores=scores, alpha=50.0, longest=2)
    ['a', 'b']
    """
    unknown = min(scores.values()) - 10.0  # what SentencePiece gives a character that is no piece
    totals = [0.0]
    choices: list[list[tuple[int, float]]] = [[]]
    for end in range(1, len(word) + 1):
        found = []
        for start in range(max(0, end - longest), end):
            score = scores.get(word[start:end], unknown if end - start == 1 else None)
            if score is not None:
                found.append((start, totals[start] + alpha * score))
        largest = max(weight for _, weight in found)
        totals.append(largest + math.log(sum(math.exp(weight - largest) for _, weight in found)))
        choices.append(found)
    pieces, end = [], len(word)
    while end:
        left, start = random.random(), choices[end][-1][0]
        for candidate, weight in choices[end]:
            left -= math.exp(weight - totals[end])
            if left < 0:
                start = candidate
                break
        pieces.append(word[start:end])
        end = start
    return pieces[::-1]
