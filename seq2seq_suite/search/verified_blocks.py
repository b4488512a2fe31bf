"""A search whose drafts, a block at a time, the left-to-right half of the same model checks.

Letters in shapes as in `blocks`, and C slots that are checked.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, Batch, Constraint, Hypothesis
from seq2seq_suite.search.blocks import MASK, Outputs, described, offset_of, slot_inputs
from seq2seq_suite.search.step import Rows, Stepper

if TYPE_CHECKING:
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.search.ctc_prefix_scores import Prefixes


@torch.inference_mode()
def write_verified(
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
    """Greedy search of the model as one from left to right, several symbols in a pass; see `blocks.write_blocks`.

    A pass checks `size` - 1 drafted symbols, and drafts the next ones behind each beginning of these, of which one will
    be right: of a block whose first slot holds the last symbol of the beginning, and whose others are hidden. Symbols
    that the model would have chosen are written, and one more.

    Source: Gat et al. 2025 (set block decoding); Liu et al. 2025 (TiDAR); Stern et al. 2018 (blockwise decoding).
    """
    stepper = Stepper(model, constraint, options)
    rows, previous = stepper.start(batch, memory, limit, prefixes)
    found, alive = Outputs.empty(limit, size), torch.arange(limit.size(0), device=limit.device)
    for part in (alive,) if rows.history is None else alive.unsqueeze(1):  # which is of one length in all rows
        _verify(stepper, rows.select(part, part), previous[part], part, found, size)
    return found.hypotheses(options)


def _verify(stepper: Stepper, rows: Rows, previous: Tensor, alive: Tensor, found: Outputs, size: int) -> None:
    """Write the outputs of some sentences, `alive` (N,), whose rows and symbols before the first are given."""
    model, given, limit = stepper.model, offset_of(stepper, rows), found.limit[alive].unsqueeze(1)
    lengths, cached = torch.zeros_like(alive), alive.new_ones(alive.size(0), given, dtype=torch.bool)
    drafts: Tensor | None = None  # (N,size-1,V) logits
    left = int(limit.min())  # symbols that every output may have, were all checked ones written
    for number in itertools.count(1):
        states, inputs = _draft(stepper, rows, previous, drafts)
        count = inputs.size(1)
        place = torch.arange(count, device=alive.device)
        hidden, rows = _wide_pass(stepper, rows, states, inputs, cached, given + lengths, size)
        places, left = lengths.unsqueeze(1) + place, left - count
        last_step = None if left > 0 else places + 1 == limit
        scores = _processed(stepper, model.logits(hidden[:, :count], rows.memory).float(), states, last_step)
        gains, best = scores.max(-1)
        accepted = ((best[:, :-1] == inputs[:, 1:]) & (best[:, :-1] != END)).cumprod(1).sum(1)
        into = alive.unsqueeze(1), places  # the next pass writes over what is not accepted, and nobody reads behind END
        found.symbols[into], found.gains[into], found.passes[into] = best, gains, number
        previous, lengths, cached = (
            best.gather(1, accepted.unsqueeze(1)).squeeze(1),
            lengths + accepted + 1,
            torch.cat((cached, place <= accepted.unsqueeze(1)), 1),
        )
        going = (previous != END).nonzero().squeeze(1)
        if not going.numel():
            return
        each = torch.arange(alive.size(0), device=alive.device)
        behind = hidden[:, count:].unflatten(1, (count, size))[each, accepted, 1:]
        rows = stepper.advance(_picked(rows, states, accepted), previous)
        if going.numel() < alive.numel():  # which copies the cache and computes anew what is kept for a memory
            rows, parts = rows.select(going, going), (previous, lengths, cached, alive, limit, behind)
            previous, lengths, cached, alive, limit, behind = (part[going] for part in parts)
        drafts = model.logits(behind, rows.memory).float()


def _draft(stepper: Stepper, rows: Rows, previous: Tensor, logits: Tensor | None) -> tuple[list[Rows], Tensor]:
    """The rows before each symbol of a draft, and behind its last, and what the slots there hold (N,C)."""
    if logits is None:
        return [rows], previous.unsqueeze(1)
    if rows.is_stateless:
        drafted = stepper.process(logits.flatten(0, 1), rows, None).view(logits.shape).argmax(-1)
        return [rows] * (logits.size(1) + 1), torch.cat((previous.unsqueeze(1), drafted), 1)
    states, symbols, over = [rows], [previous], torch.zeros_like(previous, dtype=torch.bool)
    for scores in logits.unbind(1):
        symbols.append(stepper.process(scores, states[-1], None).argmax(1).masked_fill(over, END))
        over = over | (symbols[-1] == END)
        states.append(stepper.advance(states[-1], symbols[-1]))
    return states, torch.stack(symbols, 1)


def _wide_pass(
    stepper: Stepper, rows: Rows, states: Sequence[Rows], inputs: Tensor, cached: Tensor, offset: Tensor, size: int
) -> tuple[Tensor, Rows]:
    """Hidden states (N,C + C * W,D) of the slots to check, and of a block behind each of them; the cache has the first.

    Args:
        stepper, rows: of the search.
        states: the rows that the inputs lead to.
        inputs: (N,C) what the slots hold.
        cached: (N,P) bool, which target positions of the cache are of the output.
        offset: (N,) positions before the first slot.
        size: W.
    """
    model, (count, slots) = stepper.model, inputs.shape
    place, first, seen = _of_drafts(slots, size, inputs.device)
    held = torch.where(first, inputs.unsqueeze(2), MASK).flatten(0, 1)  # (N*C,W)
    state = {
        name: part.unsqueeze(2).expand(-1, -1, size, -1).flatten(0, 1)
        for name, part in described(stepper, states).items()
    }
    drafted = slot_inputs(
        model,
        rows.memory,
        held,
        state,
        first.expand_as(held),
        offset=(offset.unsqueeze(1) + place).flatten(),
    ).unflatten(0, (count, slots))
    x = torch.cat((drafted[:, :, 0], drafted.flatten(1, 2)), 1)  # the first slot of a block holds what is checked
    past = cached.unsqueeze(1).expand(-1, x.size(1), -1)
    visible = torch.cat((past, seen.expand(count, -1, -1)), 2)
    length = rows.cache.length
    hidden, cache = model.decode(x, visible, rows.memory, rows.cache)
    return hidden, replace(rows, cache=cache.first(length + slots))


@cache
def _of_drafts(slots: int, size: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """(C,) places; (W,) bool, the first slot of a block; (1,C + C * W,C + C * W) bool, what is seen.

    C slots see those before; a block behind slot c sees itself and those before c.
    """
    place = torch.arange(slots, device=device)
    block = place.repeat_interleave(size)
    upper = torch.cat((place.unsqueeze(1) >= place, place.new_zeros(slots, slots * size, dtype=torch.bool)), 1)
    lower = torch.cat((block.unsqueeze(1) > place, block.unsqueeze(1) == block), 1)
    return place, torch.arange(size, device=device) == 0, torch.cat((upper, lower)).unsqueeze(0)


def _processed(stepper: Stepper, logits: Tensor, states: Sequence[Rows], last_step: Tensor | None) -> Tensor:
    """Log-probabilities (N,C,V) behind each slot, from logits."""
    if states[0].is_stateless:
        last_step = None if last_step is None else last_step.flatten()
        return stepper.process(logits.flatten(0, 1), states[0], last_step).view(logits.shape)
    steps = [None] * len(states) if last_step is None else last_step.unbind(1)
    return torch.stack([stepper.process(*one) for one in zip(logits.unbind(1), states, steps, strict=True)], 1)


def _picked(rows: Rows, states: Sequence[Rows], which: Tensor) -> Rows:
    """The rows with the states that `which` (N,) chooses among those of each row."""
    if rows.is_stateless:
        return rows
    if len(which) == 1:
        chosen = states[int(which)]
        return replace(rows, automaton=chosen.automaton, prefixes=chosen.prefixes, history=chosen.history)
    automaton, prefixes = (_joined([getattr(state, part) for state in states]) for part in ("automaton", "prefixes"))
    place = which * len(which) + torch.arange(len(which), device=which.device)
    return replace(rows, automaton=automaton and automaton.select(place), prefixes=prefixes and prefixes.select(place))


def _joined(parts: Sequence[Any]) -> Any:
    """Dataclasses of tensors (N,...), such as automata's states, one below the other; what all rows share stays."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    if isinstance(first, tuple):
        return tuple(_joined(each) for each in zip(*parts, strict=True))
    if hasattr(first, "__dataclass_fields__"):
        return type(first)(
            *(
                getattr(first, one.name)
                if "shared" in one.metadata
                else _joined([getattr(part, one.name) for part in parts])
                for one in fields(first)
            )
        )
    return first
