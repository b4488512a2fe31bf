"""A language model of the words of training transcripts, which guides a search for characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, Batch, Constraint, PerRow
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.tasks.fields.base import Field

BOUNDARY = ""  # the word before the first of a transcript, and the one behind its last
DISCOUNT = 0.7
Pairs = Mapping[tuple[str, str], int]
_ROOT, _NEW = 0, 1  # places in the tree of words: before a word, and in one that is not in the tree


class WordPairs(Field):
    """How often each word follows another in the transcripts of the training split.

    Args:
        words: splits a transcript.

    >>> pairs = WordPairs(str.split)
    >>> pairs.fit(["go to two", "go"])
    >>> pairs.counts()[BOUNDARY, "go"], pairs.counts()["go", "to"], pairs.counts()["two", BOUNDARY]
    (2, 1, 1)
    """

    def __init__(self, words: Callable[[str], Sequence[str]]):
        self.words, self.vocabulary = words, Vocabulary.build([])

    def counts(self) -> Pairs:
        """Of each pair; none if a run of an earlier version was loaded."""
        found = zip(self.vocabulary.symbols, self.vocabulary.symbol_counts, strict=True)
        return {(before, word): count for pair, count in found for before, _, word in [pair.partition(" ")]}

    def fit(self, values: Iterable[str]) -> None:
        self.vocabulary = Vocabulary.build(
            Counter(
                f"{before} {word}"
                for value in values
                for before, word in pairwise((BOUNDARY, *self.words(value), BOUNDARY))
            )
        )

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder / "word_pairs.json")

    def load(self, folder: Path) -> None:
        file = folder / "word_pairs.json"
        self.vocabulary = Vocabulary.load(file) if file.is_file() else Vocabulary.build([])


@dataclass(frozen=True)
class WordState(PerRow):
    """N partial outputs: the last whole word, and the place of what follows in the tree of words, (N,) int64 each."""

    before: Tensor
    place: Tensor


class WordModel(Constraint):
    """A bigram of words for outputs in characters. It allows every symbol, but adds to the score of an output

        weight * log p(w | u)    for each word w behind u; for a word that training did not have `new_word`, or the
                                 score of its longest known beginning where that is lower
        weight * log p(end | u)  for its end behind u.

    p(w | u) is max(c(u w) - d, 0) / c(u) + d n(u) / c(u) p(w), with n(u) different words behind u, and p(w) the share
    of w among all words, which stands alone behind a new word. Letters of a word that is not whole yet score weight *
    log of the sum of p over the words that begin so: a beam learns at once of a letter that leads nowhere. No symbol
    raises a score, so that a search may stop by it.

    Args:
        pairs: counts c(u w), one at least.
        encode: the ids of a text's characters.
        num_symbols: V.
        weight, new_word: see above; the logarithms are natural.

    Source: Ney, Essen & Kneser 1994 (absolute discounting, interpolated; d is 0.7); Hori, Cho & Watanabe 2018 (words'
        probabilities for characters).
    Differs: a new word costs the same whatever its letters.
    """

    def __init__(
        self, pairs: Pairs, encode: Callable[[str], Sequence[int]], num_symbols: int, *, weight: float, new_word: float
    ):
        self.num_symbols, self.weight, self.new_word = num_symbols, weight, new_word
        (self.space,) = encode(" ")
        number = {word: at for at, word in enumerate(sorted({word for pair in pairs for word in pair}))}
        unseen, ways = len(number), dict[int, int]()  # a place and a symbol -> the place behind it
        paths = {}
        for word in number:
            path = [_ROOT]
            for symbol in [*encode(word), self.space] if word else [END]:
                path.append(ways.setdefault(path[-1] * num_symbols + symbol, len(ways) + 2))
            paths[word] = path
        self.places, self.end, self.first = len(ways) + 2, paths[BOUNDARY][-1], number[BOUNDARY]
        self.ways = _Sparse(ways, _NEW)
        self.word = torch.full((self.places,), unseen)  # that ends at a place
        behind, kinds, discounted = Counter[str](), Counter[str](), Counter[int]()
        self.unigram = torch.zeros(self.places, dtype=torch.float64)
        for (before, word), count in pairs.items():
            behind[before] += count
            kinds[before] += 1
            self.unigram[paths[word]] += count
            self.word[paths[word][-1]] = number[word]
        for (before, word), count in pairs.items():
            discounted.update(
                {number[before] * self.places + place: (count - DISCOUNT) / behind[before] for place in paths[word]}
            )
        self.unigram = (self.unigram / behind.total()).float()
        self.spread = torch.tensor([DISCOUNT * kinds[word] / behind[word] for word in number] + [1.0])
        self.discounted = _Sparse(discounted, 0.0)

    def start(self, batch: Batch, limit: Tensor) -> WordState:
        """Before the first word. The limit is not used."""
        for name in ("ways", "word", "unigram", "spread", "discounted"):
            setattr(self, name, getattr(self, name).to(limit.device))
        return WordState(torch.full_like(limit, self.first), torch.full_like(limit, _ROOT))

    def allowed(self, state: WordState) -> Tensor:
        """(N,V): all."""
        return torch.ones(state.place.size(0), self.num_symbols, dtype=torch.bool, device=state.place.device)

    def log_probability(self, before: Tensor, place: Tensor) -> Tensor:
        """Log of the summed probability of the words below a place, behind another word; any equal shapes."""
        return (self.discounted(before * self.places + place) + self.spread[before] * self.unigram[place]).log()

    def gains(self, state: WordState) -> Tensor:
        """(N,V) what each symbol adds to the score."""
        before, place = state.before.unsqueeze(1), state.place.unsqueeze(1)
        following = self._following(place, torch.arange(self.num_symbols, device=place.device))
        here = self.weight * self.log_probability(before, place)
        there = self.weight * self.log_probability(before, following)
        new = torch.where(place != _NEW, (self.new_word - here).clamp(max=0.0), 0.0)
        gains = torch.where(following != _NEW, there - here, new)
        whole = following[:, self.space]
        last = self.weight * self.log_probability(self.word[whole], torch.full_like(whole, self.end))
        gains[:, END] = torch.where(state.place == _ROOT, gains[:, END], gains[:, self.space] + last)
        return gains

    def advance(self, state: WordState, symbols: Tensor) -> WordState:
        """After `symbols` (N,)."""
        place, ends = self._following(state.place, symbols), symbols == self.space
        return WordState(torch.where(ends, self.word[place], state.before), place.masked_fill(ends, _ROOT))

    def _following(self, place: Tensor, symbols: Tensor) -> Tensor:
        return self.ways(place * self.num_symbols + symbols)


class _Sparse:
    """A table of few entries."""

    def __init__(self, entries: Mapping[int, float], otherwise: float):
        self.otherwise = otherwise
        self.keys, self.values = (torch.tensor(part) for part in zip(*sorted(entries.items()), strict=True))

    def __call__(self, keys: Tensor) -> Tensor:
        """The entries of keys (...) int64."""
        at = torch.searchsorted(self.keys, keys).clamp_(max=self.keys.size(0) - 1)
        return torch.where(self.keys[at] == keys, self.values[at], self.otherwise)

    def to(self, device: torch.device) -> _Sparse:
        self.keys, self.values = self.keys.to(device), self.values.to(device)
        return self
