"""Probabilities of a target's symbol given those before it, counted in the training split."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from seq2seq_suite.common.files import atomic_write_bytes
from seq2seq_suite.common.types import BEGIN, END
from seq2seq_suite.tasks.fields.base import Field

DISCOUNT = 0.75


class Ngrams(Field):
    """p(w | h) of a symbol w behind the n - 1 symbols h before it.

    p_k(w | h) = max(c_k(h w) - d, 0) / c_k(h) + d m_k(h) / c_k(h) p_(k-1)(w | h without its first symbol),

    where c_n counts, c_k for k < n is the number of different symbols before h w, m_k(h) the number of those behind h,
    and p_0 = 1 / V. An output begins behind n - 1 times BEGIN and ends in END.

    Args:
        order: n.

    Source: Kneser & Ney 1995, interpolated as by Chen & Goodman 1999, with one discount, d = 0.75.

    >>> bigrams = Ngrams(2)
    >>> bigrams.count([[4, 5], [4, 5], [4, 6]], symbols=7)
    >>> round(bigrams.probability((4,), 5), 3), round(bigrams.probability((5,), 4), 3)
    (0.485, 0.051)
    """

    def __init__(self, order: int):
        self.order, self.symbols = order, 0
        self.keys, self.counts = np.zeros((2, 0), dtype=np.int64)  # of each n-gram, written as a number to the base V

    def count(self, outputs: Iterable[Sequence[int]], *, symbols: int) -> None:
        """Count the n-grams of outputs without END, whose ids are below `symbols`."""
        found, most = Counter[int](), symbols ** (self.order - 1)
        for output in outputs:
            key = 0
            for place, symbol in enumerate((*[BEGIN] * (self.order - 1), *output, END)):
                key = key % most * symbols + symbol
                if place >= self.order - 1:
                    found[key] += 1
        self.symbols = symbols
        self.keys, self.counts = np.array(sorted(found.items()), dtype=np.int64).reshape(-1, 2).T
        self.__dict__.pop("_tables", None)

    def save(self, folder: Path) -> None:
        file = io.BytesIO()
        np.savez_compressed(file, symbols=self.symbols, keys=self.keys, counts=self.counts)
        atomic_write_bytes(folder / "ngrams.npz", file.getvalue())

    def load(self, folder: Path) -> None:
        """The counts; none if they were not saved."""
        file = folder / "ngrams.npz"
        if file.is_file():
            with np.load(file) as saved:
                self.symbols, self.keys, self.counts = int(saved["symbols"]), saved["keys"], saved["counts"]

    def probability(self, before: Sequence[int], symbol: int) -> float:
        """p(symbol | before), more than 0."""
        found, history, unit = 1.0 / self.symbols, 0, 1
        for place, (discounted, spread) in enumerate(self._tables):
            if place:
                history += unit * (before[-place] if place <= len(before) else BEGIN)
                unit *= self.symbols
            found = discounted.get(history * self.symbols + symbol, 0.0) + spread.get(history, 1.0) * found
        return found

    @cached_property
    def _tables(self) -> list[tuple[dict[int, float], dict[int, float]]]:
        """For k = 1 ... n: max(c_k(h w) - d, 0) / c_k(h) of each h w, and d m_k(h) / c_k(h) of each h."""
        tables, keys, counts = [], self.keys, self.counts
        for k in range(self.order, 0, -1):
            histories, place = np.unique(keys // self.symbols, return_inverse=True)
            total = np.bincount(place, counts)
            spread = DISCOUNT * np.bincount(place) / total
            tables.append(
                (
                    dict(zip(keys.tolist(), ((counts - DISCOUNT) / total[place]).tolist(), strict=True)),
                    dict(zip(histories.tolist(), spread.tolist(), strict=True)),
                )
            )
            keys, counts = np.unique(keys % self.symbols ** (k - 1), return_counts=True)
        return tables[::-1]
