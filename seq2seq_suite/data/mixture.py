"""Batches of several tasks in turn, mixed by their sizes and a temperature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice

from seq2seq_suite.common.types import Batch
from seq2seq_suite.data.batching import Bucketed


def shares(
    sizes: Sequence[int],
    *,
    temperature: float,
    factors: Sequence[float] | None = None,
    most: Sequence[float] | None = None,
) -> list[float]:
    """p_i ~ f_i n_i^(1/tau), none above its cap; the rest of a capped share goes to the others by the same rule.

    Args:
        sizes: n_i, examples.
        temperature: tau; 1 is proportional to size, infinity is uniform.
        factors: f_i; None for 1.
        most: caps; None for none. If they do not add up to 1, all are scaled by one factor.

    Source: Arivazhagan et al. 2019, section 4.2 (temperature).

    >>> [round(share, 3) for share in shares([100, 400], temperature=2.0)]
    [0.333, 0.667]
    >>> [round(share, 3) for share in shares([100, 400], temperature=2.0, factors=[1.0, 0.5])]
    [0.5, 0.5]
    >>> [round(share, 3) for share in shares([100, 400, 400], temperature=2.0, most=[0.1, 1.0, 1.0])]
    [0.1, 0.45, 0.45]
    """
    weights = [
        factor * size ** (1.0 / temperature) for factor, size in zip(factors or [1.0] * len(sizes), sizes, strict=True)
    ]
    caps = [1.0] * len(sizes) if most is None else [cap * max(1.0, 1.0 / sum(most)) for cap in most]
    fixed: dict[int, float] = {}
    while True:
        free = [index for index in range(len(sizes)) if index not in fixed]
        left, total = 1.0 - sum(fixed.values()), sum(weights[index] for index in free)
        over = [index for index in free if left * weights[index] / total > caps[index] + 1e-12]
        if not over:
            return [fixed[index] if index in fixed else left * weights[index] / total for index in range(len(sizes))]
        fixed |= {index: caps[index] for index in over}
        if len(fixed) == len(sizes):
            return [fixed[index] for index in range(len(sizes))]


class Mixture:
    """Batches of several tasks, one task a batch.

    The next batch is of the task that is farthest behind its share: any stretch has all tasks in their proportions,
    nothing is random, and a position in the stream is a number.

    Args:
        parts: name -> the task's batches.
        shares: name -> its share of the batches.
    """

    def __init__(self, parts: Mapping[str, Bucketed], shares: Mapping[str, float]):
        self.parts, self.shares = parts, shares
        self.seed = next(iter(parts.values())).seed
        first, self.offsets = 0, {}
        for name, part in parts.items():  # examples are numbered across all tasks
            self.offsets[name] = first
            first += len(part.items)

    def turns(self) -> Iterator[str]:
        """The endless sequence of names."""
        had = dict.fromkeys(self.parts, 0)
        for place in count(1):
            name = max(had, key=lambda name: self.shares[name] * place - had[name])
            had[name] += 1
            yield name

    def counts(self, position: int) -> dict[str, int]:
        """How many of the first `position` batches are of each task."""
        had = Counter(islice(self.turns(), position))
        return {name: had[name] for name in self.parts}

    def batches(self, epoch: int, position: int = 0) -> Iterator[tuple[int, int, Batch]]:
        """Endless batches from a position in the stream, like `Bucketed.batches`; the epoch stays 0."""
        had = self.counts(position)
        streams = {name: part.batches(*part.place_of(had[name])) for name, part in self.parts.items()}
        for name in islice(self.turns(), position, None):
            position += 1
            _, _, batch = next(streams[name])
            yield 0, position, replace(batch, indices=tuple(self.offsets[name] + index for index in batch.indices))
