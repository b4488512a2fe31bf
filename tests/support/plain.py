"""What parallel decoders compute, a sentence at a time, without padding and in plain loops, to compare with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

import torch
from torch import Tensor

from seq2seq_suite.common.types import BEGIN, PAD, UNKNOWN, Batch
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.strategies.base import Strategy

BLANK, NEVER = 0, float("-inf")
UNREADABLE = (PAD, BEGIN, UNKNOWN)


def alone(batch: Batch, row: int) -> Batch:
    """One row without its padding."""
    source, target = int(batch.source_mask[row].sum()), int(batch.target_mask[row].sum())
    return replace(
        batch,
        **{
            name: getattr(batch, name)[row : row + 1, :size]
            for name, size in (
                ("source", source),
                ("source_mask", source),
                ("target", target),
                ("target_mask", target),
                ("given", target),
            )
        },
    )


class Sentence:
    """A row of a batch before a parallel decoder."""

    def __init__(self, model: Seq2Seq, strategy: Strategy, batch: Batch, row: int):
        one = alone(batch, row)
        self.model, self.strategy, self.states = model, strategy, model.encode(one)
        self.memory = model.prepare(self.states)
        self.length = self.states.values.size(1)
        self.target = one.target[0].tolist()

    def hidden(self, count: int, shown: Mapping[int, int] = MappingProxyType({})) -> Tensor:
        """(C,D) over `count` positions, the symbols of `shown` at their places and the source copied elsewhere."""
        inputs = []
        for place in range(count):
            if place in shown:
                inputs.append(self.model.embedding.weight[shown[place]] * math.sqrt(self.states.values.size(2)))
            else:
                copied = round(place * (self.length - 1) / (count - 1)) if count > 1 else 0
                inputs.append(self.states.values[0, copied])
        visible = torch.ones(1, count, count, dtype=torch.bool)
        return self.model.decode(self.model.add_positions(torch.stack(inputs).unsqueeze(0)), visible, self.memory)[0][0]

    def scores(self, hidden: Tensor, *, never: tuple[int, ...] = ()) -> Tensor:
        """(C,V) log-probabilities, `never` left out of what they are shared among."""
        logits = hidden @ self.model.output.weight.t() + self.model.output.bias
        logits = logits.index_fill(1, torch.tensor(never, dtype=torch.int64), NEVER)
        return logits - logits.logsumexp(1, keepdim=True)

    def links(self, hidden: Tensor) -> list[list[Tensor]]:
        """log E of the vertices (C,D): sum_h g_h(v) softmax_u>v(q_h(v) . k_h(u) / sqrt(D / H))."""
        layer = self.strategy.links
        width = hidden.size(1) // layer.num_heads
        query, key = layer.query_key(hidden).chunk(2, 1)
        gates = layer.gate(hidden).softmax(1)
        found = [[torch.tensor(NEVER)] * len(hidden) for _ in hidden]
        for one in range(len(hidden) - 1):
            total = torch.zeros(len(hidden) - one - 1)
            for head in range(layer.num_heads):
                part = slice(head * width, (head + 1) * width)
                affinity = torch.stack(
                    [query[one, part] @ key[other, part] / math.sqrt(width) for other in range(one + 1, len(hidden))]
                )
                total = total + gates[one, head] * affinity.softmax(0)
            for other, share in zip(range(one + 1, len(hidden)), total, strict=True):
                found[one][other] = share.log()
        return found


def collapse(path: tuple[int, ...]) -> tuple[int, ...]:
    """Repetitions merged, then blanks dropped."""
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != BLANK)


def ctc_paths(count: int, target: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All paths of `count` symbols that collapse to the target."""
    return (path for path in itertools.product(sorted({BLANK, *target}), repeat=count) if collapse(path) == target)


def graph_paths(count: int, length: int) -> Iterator[tuple[int, ...]]:
    """All ways over `length` of `count` vertices, from the first to the last."""
    if length >= 2:
        yield from ((0, *inner, count - 1) for inner in itertools.combinations(range(1, count - 1), length - 2))


def total(numbers: list[Tensor]) -> Tensor:
    """The logarithm of a sum of probabilities."""
    return torch.stack(numbers).double().logsumexp(0)
