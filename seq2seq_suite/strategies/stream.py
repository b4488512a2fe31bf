"""Greedy search over a stream of batches: a sentence that waits takes the row of one that has ended.

Outputs differ in length. Where a batch is decoded to its end before the next one begins, most of its steps are spent on
the few rows that are still open; here the number of rows stays what it is, and the network's products stay large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.model.attention import KeysValues
from seq2seq_suite.model.decoder import DecoderStack, Memory
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.base import Strategy
from seq2seq_suite.strategies.search import Rows, SearchOptions, Stepper
from seq2seq_suite.types import BEGIN, END, Batch, Constraint, Hypothesis

_TIDY_EVERY = 16  # steps after which columns of the cache that no row needs are dropped


def can_stream(model: Seq2Seq, options: SearchOptions, constraint: Constraint | None) -> bool:
    """Whether rows may enter late: greedy search of free text, positions added to the decoder's input."""
    extras = (model.guide, model.labeller, model.pointer, model.label_head)
    return (options.beam_size == 1 and options.num_hypotheses == 1 and not options.sampling and not options.ctc_weight
            and (constraint is None or not options.constraint) and all(part is None for part in extras)
            and isinstance(model.decoder, DecoderStack) and model.decoder.num_steps == 1
            and model.decoder.layers[0].attention.rotary is None)


@dataclass(frozen=True)
class _Waiting:
    """Encoded sentences, of which those from `taken` on have no row yet."""

    rows: Rows
    indices: tuple[int, ...]
    limit: Tensor
    taken: int = 0

    @property
    def left(self) -> int:
        return len(self.indices) - self.taken


class _Pool:
    """The open rows: where each stands, what it has written so far, and which sentence it is."""

    def __init__(self, waiting: _Waiting):
        device = waiting.limit.device
        self.rows = replace(waiting.rows, starts=torch.zeros_like(waiting.limit))
        self.items = list(waiting.indices)
        self.limit = waiting.limit
        self.written = torch.full((len(self.items), int(waiting.limit.max())), END, device=device)
        self.totals = torch.zeros(len(self.items), device=device)
        self.previous = torch.full_like(waiting.limit, BEGIN)

    def step(self, stepper: Stepper) -> Tensor:
        """Write a symbol in each row; (N,) bool, which of them have ended."""
        place = self.rows.cache.length - self.rows.starts
        scores, self.rows = stepper.log_probabilities(self.rows, self.previous, self.limit == place + 1)
        gained, self.previous = scores.max(-1)
        self.totals += gained
        self.written.scatter_(1, place.unsqueeze(1), self.previous.unsqueeze(1))
        return self.previous == END

    def outputs(self, places: list[int], options: SearchOptions) -> Iterator[tuple[int, list[Hypothesis]]]:
        """What the rows at `places`, all ended, have written."""
        chosen = torch.tensor(places, dtype=torch.int64, device=self.limit.device)
        lengths = (self.rows.cache.length - self.rows.starts)[chosen]
        scores = options.normalise(self.totals[chosen], lengths).tolist()
        complete = (lengths < self.limit[chosen]).tolist()
        for place, row, length, score, done in zip(places, self.written[chosen].tolist(), lengths.tolist(), scores,
                                                   complete, strict=True):
            yield self.items[place], [Hypothesis(tuple(row[: length - 1]), score, done)]

    def enter(self, places: list[int], waiting: _Waiting) -> _Waiting:
        """Give the rows at `places` to the next waiting sentences."""
        device, count = self.limit.device, len(places)
        taken = slice(waiting.taken, waiting.taken + count)
        free = torch.tensor(places, device=device)
        self._widen(waiting)
        memory, new = self.rows.prompt.memory, waiting.rows.prompt.memory
        for layer, other in zip(memory.layers, new.layers, strict=True):
            width = other.keys.size(2)
            layer.keys[free, :, :width] = other.keys[taken]
            layer.values[free, :, :width] = other.values[taken]
        memory.visible[free] = functional.pad(new.visible[taken], (0, memory.visible.size(2) - new.visible.size(2)))
        self.limit[free], self.previous[free], self.totals[free] = waiting.limit[taken], BEGIN, 0.0
        starts = self.rows.starts.index_fill(0, free, self.rows.cache.length)
        self.rows = replace(self.rows, starts=starts)
        for place, item in zip(places, waiting.indices[taken], strict=True):
            self.items[place] = item
        return replace(waiting, taken=taken.stop)

    def _widen(self, waiting: _Waiting) -> None:
        """Room for longer sources and outputs than there were so far."""
        memory, longest = self.rows.prompt.memory, int(waiting.limit.max())
        missing = waiting.rows.prompt.memory.visible.size(2) - memory.visible.size(2)
        if missing > 0:
            layers = tuple(KeysValues(functional.pad(layer.keys, (0, 0, 0, missing)),
                                      functional.pad(layer.values, (0, 0, 0, missing)), layer.length + missing)
                           for layer in memory.layers)
            wider = Memory(layers, functional.pad(memory.visible, (0, missing)))
            self.rows = replace(self.rows, prompt=replace(self.rows.prompt, memory=wider))
        if longest > self.written.size(1):
            self.written = functional.pad(self.written, (0, longest - self.written.size(1)), value=END)

    def keep(self, places: list[int]) -> None:
        """Only the rows at `places`."""
        chosen = torch.tensor(places, dtype=torch.int64, device=self.limit.device)
        self.rows = self.rows.select(chosen, chosen)
        self.items = [self.items[place] for place in places]
        self.limit, self.written, self.totals, self.previous = (
            part.index_select(0, chosen) for part in (self.limit, self.written, self.totals, self.previous))

    def tidy(self) -> None:
        """Drop columns that no row looks at: of the cache before the first start, of the memory behind its end."""
        before = int(self.rows.starts.min())
        memory = self.rows.prompt.memory
        width = int(memory.visible.sum(2).max())
        layers = tuple(replace(layer, length=width) for layer in memory.layers)
        self.rows = replace(
            self.rows, cache=self.rows.cache.drop(before), starts=self.rows.starts - before,
            prompt=replace(self.rows.prompt, memory=Memory(layers, memory.visible[:, :, :width])))


@torch.inference_mode()
def stream(model: Seq2Seq, batches: Iterator[Batch], *, options: SearchOptions, limits: Callable[[Batch], Tensor]
           ) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The greedy output of each sentence, with its index, in the order in which they end.

    Args:
        model: in evaluation mode; see `can_stream`.
        batches: as many rows as the first one has are open at a time. Longest sources first spares memory.
        options: how a score is normalised.
        limits: (B,) longest outputs of a batch, END included.
    """
    stepper = Stepper(model, None, options)

    def encoded() -> Iterator[_Waiting]:
        for batch in batches:
            limit = limits(batch)
            yield _Waiting(stepper.start(batch, limit)[0], batch.indices, limit.clone())

    queue = encoded()
    waiting = next(queue, None)
    if waiting is None:
        return
    pool, waiting, steps = _Pool(waiting), next(queue, None), 0
    while pool.items:
        ended = pool.step(stepper).nonzero().squeeze(1).tolist()
        if ended:
            yield from pool.outputs(ended, options)
        while ended and waiting is not None:
            count = min(len(ended), waiting.left)
            waiting, ended = pool.enter(ended[:count], waiting), ended[count:]
            if not waiting.left:
                waiting = next(queue, None)
        if ended:
            closed = set(ended)
            pool.keep([place for place in range(len(pool.items)) if place not in closed])
        steps += 1
        if pool.items and steps % _TIDY_EVERY == 0:
            pool.tidy()


def generate_all(model: Seq2Seq, strategy: Strategy, batches: Iterator[Batch], *, options: SearchOptions,
                 limits: Callable[[Batch], Tensor], constraint: Constraint | None
                 ) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Index and hypotheses of each example, in any order: as a stream where that is possible, else batch by batch.

    Args:
        model, strategy: in evaluation mode.
        batches, options, limits: see `stream`.
        constraint: the task's automaton.
    """
    if type(strategy) is Autoregressive and can_stream(model, options, constraint):
        yield from stream(model, batches, options=options, limits=limits)
        return
    for batch in batches:
        found = strategy.generate(model, batch, options=options, limit=limits(batch), constraint=constraint)
        yield from zip(batch.indices, found, strict=True)
