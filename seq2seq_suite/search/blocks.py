"""A search that writes an output block by block, several symbols of a block in a pass.

A slot holds the symbol before the one that is read from it, or `MASK`. Letters in shapes: N partial outputs, one for
each sentence that is not finished; W slots of a block; D width, V symbols.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, NEVER, PAD, Batch, Constraint, Hypothesis, States
from seq2seq_suite.search.step import Rows, Stepper

if TYPE_CHECKING:
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.search.ctc_prefix_scores import Prefixes

MASK = PAD  # in the place of a hidden symbol: padding is neither read nor predicted, so its vector is free
_NOTHING = {"focus": -1, "context": 0}  # what a guide reads where the automaton's state is not known


@dataclass(frozen=True)
class Outputs:
    """The outputs of B sentences, filled in place.

    Args:
        symbols: (B,L) int64, END behind each output.
        gains: (B,L) their log-probabilities.
        passes: (B,L) int64, the pass through the decoder in which each was written, from 1.
        limit: (B,) the longest outputs, END included.
    """

    symbols: Tensor
    gains: Tensor
    passes: Tensor
    limit: Tensor

    @staticmethod
    def empty(limit: Tensor, size: int) -> Outputs:
        """Nothing written yet, and room for a last block of `size` symbols."""
        shape = (limit.size(0), int(limit.max()) + size)
        return Outputs(
            limit.new_full(shape, END), limit.new_zeros(shape, dtype=torch.float32), limit.new_zeros(shape), limit
        )

    def hypotheses(self, options: SearchOptions) -> list[list[Hypothesis]]:
        """One for each sentence; `details` has the pass in which each symbol, END included, was written."""
        found = []
        for symbols, gains, passes, most in zip(
            self.symbols.tolist(), self.gains.tolist(), self.passes.tolist(), self.limit.tolist(), strict=True
        ):
            length = symbols.index(END) + 1
            score = options.normalise(sum(gains[:length]), length)
            found.append(
                [Hypothesis(tuple(symbols[: length - 1]), score, length < most, {"passes": tuple(passes[:length])})]
            )
        return found


def slot_inputs(
    model: Seq2Seq,
    memory: Memory,
    symbols: Tensor,
    state: dict[str, Tensor],
    known: Tensor,
    *,
    offset: int | Tensor = 0,
) -> Tensor:
    """The decoder's input (N,T,D) of slots that hold symbols (N,T); hidden ones read what is `copied` there, too.

    Args:
        model, memory, offset: as of `Seq2Seq.embed`.
        symbols: int64, `MASK` for hidden ones.
        state: of the automaton before each symbol to come, as `Seq2Seq.reads` says.
        known: (N,T) bool, where that state is known, because nothing before it is hidden.
    """
    shown = {name: part.masked_fill(~known.unsqueeze(2), _NOTHING[name]) for name, part in state.items()}
    x = model.embed(symbols, memory, offset=offset, **shown)
    if (copied := memory.states.copied) is None:
        return x
    place = torch.arange(symbols.size(1), device=x.device)
    place = place + (offset.unsqueeze(1) if isinstance(offset, Tensor) else offset)
    index = place.clamp(max=copied.size(1) - 1).expand_as(symbols).reshape(copied.size(0), -1, 1)
    there = copied.gather(1, index.expand(-1, -1, copied.size(2))).view(x.shape)
    return x + there.masked_fill((symbols != MASK).unsqueeze(2), 0.0).to(x.dtype)


def copied_by_place(states: States, ratio: float) -> Tensor:
    """(B,P,D) the encoder's states in steps of 1 / `ratio` positions, the last one again behind the source's end.

    Source: Gu et al. 2018, section 3.1 (uniform copies).
    Differs: the output's length is not known, so that a ratio takes its place.
    """
    steps = torch.arange(round(states.mask.size(1) * ratio) + 1, device=states.mask.device) / ratio
    index = torch.minimum(steps.round().long(), (states.mask.sum(1, keepdim=True) - 1).clamp(min=0))
    return states.values.gather(1, index.unsqueeze(2).expand(-1, -1, states.values.size(2)))


def described(stepper: Stepper, states: Sequence[Rows]) -> dict[str, Tensor]:
    """What a guide reads of the automaton's state (N,T,...) in T rows of states."""
    return {
        name: torch.stack([getattr(stepper.constraint, name)(one.automaton) for one in states], 1)
        for name in stepper.model.reads
    }


@torch.inference_mode()
def write_blocks(
    model: Seq2Seq,
    batch: Batch,
    memory: Memory,
    *,
    size: int,
    options: SearchOptions,
    limit: Tensor,
    constraint: Constraint | None = None,
    prefixes: Prefixes | None = None,
) -> list[list[Hypothesis]]:
    """Writes blocks from left to right; a pass writes those symbols of a block that are sure.

    In `options.order` any these are all of a probability of at least `options.threshold`, and at least the likeliest
    one; in left those before the first symbol that is less probable, and at least one. A batch goes on to the next
    block when all its sentences have theirs. Under a constraint each pass predicts one path of its automaton through
    the block; only symbols on that path are written, so that the output can always be completed.

    Source: Arriola et al. 2025 (blocks with a cache); Wu et al. 2025 (Fast-dLLM, the threshold).
    Differs: a slot predicts the symbol behind the one it holds.

    Args:
        model, batch, memory, options, limit, constraint, prefixes: as of `greedy_or_sample`.
        size: symbols of a block.
    """
    stepper = Stepper(model, constraint, options)
    rows, previous = stepper.start(batch, memory, limit, prefixes)
    found, alive, start = Outputs.empty(limit, size), torch.arange(limit.size(0), device=limit.device), 0
    passes, clean = torch.zeros_like(limit), None
    while True:
        block = _Block.empty(rows, previous, size, last=limit[alive].unsqueeze(1) - 1 - start)
        while not block.is_complete:
            logits, rows = _pass(stepper, rows, block, clean)
            block, clean = block.after(stepper, rows, logits, passes[alive] + 1), None
            passes[alive] = torch.maximum(passes[alive], block.passes.amax(1))
        here = alive, slice(start, start + size)
        found.symbols[here], found.gains[here], found.passes[here] = block.symbols, block.gains, block.passes
        going = (~(block.symbols == END).any(1)).nonzero().squeeze(1)
        if not going.numel():
            return found.hypotheses(options)
        states = list(itertools.accumulate(block.symbols.unbind(1), stepper.advance, initial=rows))
        clean = model.embed(
            block.inputs, rows.memory, offset=offset_of(stepper, rows), **described(stepper, states[:-1])
        )
        rows, previous, start = states[-1], block.symbols[:, -1], start + size
        if going.numel() < alive.numel():
            rows, clean, previous, alive = rows.select(going, going), clean[going], previous[going], alive[going]


@dataclass(frozen=True)
class _Block:
    """A block of N outputs, some symbols of which are written.

    Args:
        previous: (N,) the symbols before it.
        symbols: (N,W) those that are written, elsewhere what the last pass predicted.
        known: (N,W) bool, which are written.
        gains, passes: of each symbol its log-probability, and the pass that wrote it, 0 for none.
        last: (N,1) the place of the last symbol that the output may have.
        states: W + 1 rows along the symbols; the first one alone before the first pass.
    """

    previous: Tensor
    symbols: Tensor
    known: Tensor
    gains: Tensor
    passes: Tensor
    last: Tensor
    states: Sequence[Rows]

    @staticmethod
    def empty(rows: Rows, previous: Tensor, width: int, last: Tensor) -> _Block:
        """Nothing written yet."""
        symbols = previous.new_full((previous.size(0), width), MASK)
        return _Block(
            previous,
            symbols,
            torch.zeros_like(symbols, dtype=torch.bool),
            symbols.float(),
            torch.zeros_like(symbols),
            last,
            [rows] * (width + 1),
        )

    @property
    def is_complete(self) -> bool:
        """Whether all symbols are written; on a GPU this synchronises."""
        return bool(self.known.all())

    @property
    def inputs(self) -> Tensor:
        """(N,W) what the slots hold."""
        shown = self.symbols.masked_fill(~self.known, MASK)
        return torch.cat((self.previous.unsqueeze(1), shown[:, :-1]), 1)

    @property
    def has_state(self) -> Tensor:
        """(N,W) bool, the slots before which nothing is hidden."""
        return torch.cat((torch.ones_like(self.known[:, :1]), self.known[:, :-1]), 1).cumprod(1).bool()

    def after(self, stepper: Stepper, rows: Rows, logits: Tensor, number: Tensor) -> _Block:
        """With what a pass writes; `logits` (N,W,V) are its predictions, `number` (N,) the rows' counts of passes."""
        symbols, gains, states, fits = _path(stepper, rows, logits, self.symbols, self.known, self.last)
        if not rows.is_stateless and not bool(fits.all()):  # the last path holds what is written, and can be completed
            kept = self.known | ~fits.unsqueeze(1)
            symbols, other, states, _ = _path(stepper, rows, logits, self.symbols, kept, self.last)
            gains = torch.where(fits.unsqueeze(1), gains, other)
        ending = symbols == END
        ends = ending.cumsum(1)
        behind = ends > ending  # what follows END is as sure as END
        first_end = (ends == 0).sum(1, keepdim=True).clamp(max=symbols.size(1) - 1)
        sureness = torch.where(behind, gains.gather(1, first_end), gains).exp().masked_fill(self.known, 1.0)
        sure = self.known | (sureness >= stepper.options.threshold)
        if stepper.options.order == "left":
            best = self.known.cumprod(1).sum(1, keepdim=True)  # the first one that is not written
            sure = sure.cumprod(1).bool()
        else:
            best = sureness.masked_fill(self.known, -1.0).argmax(1, keepdim=True)
        known = sure.scatter(1, best.clamp(max=symbols.size(1) - 1), True) | self.known
        known = known | (ending & known).cumsum(1).bool()
        new = known & ~self.known
        return replace(
            self,
            symbols=symbols,
            known=known,
            states=states,
            gains=torch.where(new, gains.masked_fill(behind, 0.0), self.gains),
            passes=torch.where(new, number.unsqueeze(1), self.passes),
        )


def _pass(stepper: Stepper, rows: Rows, block: _Block, clean: Tensor | None) -> tuple[Tensor, Rows]:
    """Logits (N,W,V) of a block, and the rows with a cache of all blocks before it.

    `clean` (N,P,D) are the inputs of the block before, if the cache lacks it; it reads itself from left to right.
    """
    model, cached, width = stepper.model, rows.cache.length, block.symbols.size(1)
    before = 0 if clean is None else clean.size(1)
    x = slot_inputs(
        model,
        rows.memory,
        block.inputs,
        described(stepper, block.states[:-1]),
        block.has_state,
        offset=offset_of(stepper, rows) + before,
    )
    visible = None
    if clean is not None:
        past, total = offset_of(stepper, rows), before + width
        visible = torch.ones(total, past + total, dtype=torch.bool, device=x.device)
        visible[:before] = visible[:before].tril(past)
        x, visible = torch.cat((clean, x), 1), visible.unsqueeze(0)
    hidden, cache = model.decode(x, visible, rows.memory, rows.cache)
    logits = model.logits(hidden[:, before:], rows.memory).float()
    return logits, replace(rows, cache=cache.first(cached + before))


def offset_of(stepper: Stepper, rows: Rows) -> int:
    """Target positions in the rows' cache."""
    return stepper.model.target_length(rows.cache, rows.memory)


def _path(
    stepper: Stepper, rows: Rows, logits: Tensor, symbols: Tensor, kept: Tensor, last: Tensor
) -> tuple[Tensor, Tensor, list[Rows], Tensor]:
    """The likeliest symbols of a block, chosen from left to right, END behind the first END.

    Args:
        stepper, rows: before the block.
        logits: (N,W,V).
        symbols, kept: (N,W) int64 and bool: those that stay.
        last: (N,1) the place of the last symbol, which is END.

    Returns:
        the symbols (N,W), their log-probabilities (N,W), W + 1 rows along them, and whether (N,) all that were to stay
        are possible.
    """
    width = logits.size(1)
    last_step = torch.arange(width, device=last.device) == last
    if rows.is_stateless:
        scores = stepper.process(logits.flatten(0, 1), rows, last_step.flatten()).view(logits.shape)
        gains, best = scores.max(-1)
        best = torch.where(kept & ~last_step, symbols, best)
        best = best.masked_fill((best == END).cumsum(1) > 0, END)
        return best, gains, [rows] * (width + 1), torch.ones_like(kept[:, 0])
    found, states, gained = [], [rows], []
    over, fits = torch.zeros_like(kept[:, 0]), torch.ones_like(kept[:, 0])
    for place in range(width):
        scores = stepper.process(logits[:, place], states[-1], last_step[:, place])
        stays = kept[:, place] & ~over
        fits = fits & ~(stays & (scores.gather(1, symbols[:, place : place + 1]).squeeze(1) == NEVER))
        gains, best = scores.max(1)
        best = torch.where(stays, symbols[:, place], best).masked_fill(over, END)
        over = over | (best == END)
        found.append(best)
        gained.append(gains)
        states.append(stepper.advance(states[-1], best))
    return torch.stack(found, 1), torch.stack(gained, 1), states, fits
