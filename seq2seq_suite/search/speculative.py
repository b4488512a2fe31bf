"""Greedy search over outputs that something faster has drafted: one pass of the decoder checks many symbols.

The output is that of greedy search, symbol by symbol: of a draft what the model would have written itself is kept; the
first symbol that differs is replaced by the model's own, and the rest of the draft is tried behind it.

Source: Xia et al. 2022 (speculative decoding); Ge et al. 2022 (aggressive decoding), section 2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from seq2seq_suite.common.types import END, PAD, Batch, Constraint, Hypothesis
from seq2seq_suite.model.decoder import Cache
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.search.beam import starts
from seq2seq_suite.search.step import Rows, SearchOptions, Stepper

_NEAR = 6  # symbols that a draft may be out of step with the output
_TAIL = 6  # symbols of the output that are aligned with it


def with_drafts(batch: Batch, found: Sequence[Sequence[Hypothesis]]) -> Batch:
    """The batch with the first hypothesis of each item as its draft."""
    rows = [torch.tensor(hypotheses[0].symbols if hypotheses else (), dtype=torch.int64) for hypotheses in found]
    drafts = pad_sequence(rows, batch_first=True, padding_value=PAD).to(batch.target.device)
    return replace(batch, auxiliary={**batch.auxiliary, "draft": drafts})


def drafts_of(batch: Batch) -> list[list[int]] | None:
    """The drafts of a batch that has some."""
    drafts = batch.auxiliary.get("draft")
    return None if drafts is None else [[symbol for symbol in row if symbol != PAD] for row in drafts.tolist()]


@torch.inference_mode()
def drafted_greedy(model: Seq2Seq, batch: Batch, memory: Memory, drafts: Sequence[Sequence[int]], *,
                   options: SearchOptions, limit: Tensor, constraint: Constraint | None = None
                   ) -> list[list[Hypothesis]]:
    """Greedy search, one sentence after the other; see `Strategy.generate`.

    Args:
        model, batch, memory, options, limit, constraint: as of `greedy_or_sample`.
        drafts: an output of each sentence without END, which may be wrong in any way.
    """
    stepper = Stepper(model, constraint, options)
    return [[_checked(stepper, rows, previous, list(draft), longest)] for draft, (rows, previous, longest)
            in zip(drafts, starts(stepper, batch, memory, limit, None), strict=True)]


def _checked(stepper: Stepper, rows: Rows, previous: Tensor, draft: list[int], limit: int) -> Hypothesis:
    symbols, total, place = [], 0.0, 0
    while END not in symbols[-1:]:
        left = limit - len(symbols)
        states = _along(stepper, rows, previous.new_tensor(draft[place : place + left - 1]))
        inputs = torch.cat((previous, previous.new_tensor(draft[place : place + len(states) - 1])))
        log_probs, cache = _look_ahead(stepper, states, inputs, left)
        gains, found = (part.tolist() for part in log_probs.max(1))
        # As many symbols as agree with the draft, and behind them the model's own.
        right = 0
        while right < len(states) - 1 and found[right] == draft[place + right] != END:
            right += 1
        symbols += found[: right + 1]
        total += sum(gains[: right + 1])
        previous = previous.new_tensor(found[right : right + 1])
        if symbols[-1] != END:
            used = cache.length - len(states) + right + 1
            rows = stepper.advance(replace(states[right], cache=cache.first(used)), previous)
            place = _resumed(draft, place + right, symbols)
    return Hypothesis(tuple(symbols[:-1]), stepper.options.normalise(total, len(symbols)), len(symbols) < limit)


def _along(stepper: Stepper, rows: Rows, draft: Tensor) -> list[Rows]:
    """The row before each symbol of a draft and behind the last, up to one that the constraint does not allow."""
    if rows.automaton is None and rows.written is None:  # nothing to advance
        return [rows] * (draft.size(0) + 1)
    states = [rows]
    for symbol in draft.unsqueeze(1):
        if rows.automaton is not None and not bool(stepper.constraint.allowed(states[-1].automaton)[0, symbol]):
            break
        states.append(stepper.advance(states[-1], symbol))
    return states


def _look_ahead(stepper: Stepper, states: list[Rows], inputs: Tensor, left: int) -> tuple[Tensor, Cache]:
    """Log-probabilities (T,V) behind each of the inputs (T,), one pass for all; of `left` symbols the last is END."""
    model, rows, count = stepper.model, states[0], inputs.size(0)
    written = model.written(rows.cache, rows.memory)
    focus = context = None
    if model.guide is not None:
        focus, context = (torch.cat([describe(state.automaton) for state in states]).unsqueeze(0)
                          for describe in (stepper.constraint.focus, stepper.constraint.context))
    x = model.embed(inputs.unsqueeze(0), rows.memory, offset=written, focus=focus, context=context)
    visible = causal(count, written, inputs.device) if count > 1 else None
    hidden, cache = model.decode(x, visible, rows.memory, rows.cache)
    logits = model.logits(hidden, rows.memory).squeeze(0).float()
    last = torch.arange(1, count + 1, device=inputs.device) == left if count >= left else None
    if rows.automaton is None and rows.written is None:
        return stepper.restrained(logits, rows, last), cache
    each = zip(logits.split(1), states, last.split(1) if last is not None else [None] * count, strict=True)
    return torch.cat([stepper.restrained(*one) for one in each]), cache


def _resumed(draft: Sequence[int], place: int, written: Sequence[int]) -> int:
    """Where a draft goes on behind what is written, whose last symbol stands for `draft[place]`.

    The last symbols are aligned with the draft nearby at the least edit distance (Levenshtein 1966); of equal places
    the one nearest to behind `place` is taken.

    >>> _resumed("docto asks", 5, "doctor"), _resumed("docto asks", 6, "doctor "), _resumed("the the cat", 4, "the c")
    (6, 6, 9)
    """
    tail = written[-_TAIL:]
    low = max(0, place + 1 - len(tail) - _NEAR)
    region = draft[low : place + 1 + _NEAR]
    costs = [0] * (len(region) + 1)  # of the tail so far, ending before each place
    for symbol in tail:
        before, costs = costs, [costs[0] + 1]
        for at, drafted in enumerate(region):
            costs.append(min(before[at] + (drafted != symbol), before[at + 1] + 1, costs[-1] + 1))
    return low + min(range(len(costs)), key=lambda at: (costs[at], abs(low + at - place - 1)))
