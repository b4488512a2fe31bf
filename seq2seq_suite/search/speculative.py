"""Greedy speculative search over outputs drafted by a faster model: one pass of the decoder verifies many symbols.

The output is that of greedy search, symbol by symbol. Symbols of a draft that agree with the model's own choices
are accepted. The first that differs is replaced by the model's, and the rest of the draft is tried after it.

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
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.beam import starts
from seq2seq_suite.search.step import Rows, Stepper

_SHIFT = 6  # most symbols by which draft and output may be displaced
_TAIL = 6  # last symbols of the output that are aligned with the draft


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
def drafted_greedy(
    model: Seq2Seq,
    batch: Batch,
    memory: Memory,
    drafts: Sequence[Sequence[int]],
    *,
    options: SearchOptions,
    limit: Tensor,
    constraint: Constraint | None = None,
) -> list[list[Hypothesis]]:
    """Greedy search, one sentence after the other; see `Strategy.generate`.

    Args:
        model, batch, memory, options, limit, constraint: as of `greedy_or_sample`.
        drafts: an output of each sentence without END, which may be wrong in any way.
    """
    stepper = Stepper(model, constraint, options)
    return [
        [_verified(stepper, rows, previous, list(draft), longest)]
        for draft, (rows, previous, longest) in zip(drafts, starts(stepper, batch, memory, limit, None), strict=True)
    ]


def _verified(stepper: Stepper, rows: Rows, previous: Tensor, draft: list[int], limit: int) -> Hypothesis:
    """The output of a sentence whose row and symbol before the first are given."""
    symbols, total, place, passes = [], 0.0, 0, []
    while END not in symbols[-1:]:
        left = limit - len(symbols)
        states = _states_along(stepper, rows, previous.new_tensor(draft[place : place + left - 1]))
        inputs = torch.cat((previous, previous.new_tensor(draft[place : place + len(states) - 1])))
        log_probs, cache = _log_probs_along(stepper, states, inputs, left)
        gains, best = (part.tolist() for part in log_probs.max(1))
        accepted = 0
        while accepted < len(states) - 1 and best[accepted] == draft[place + accepted] != END:
            accepted += 1
        symbols += best[: accepted + 1]  # one more: the model's own after them
        total += sum(gains[: accepted + 1])
        passes += [passes[-1] + 1 if passes else 1] * (accepted + 1)
        previous = previous.new_tensor(best[accepted : accepted + 1])
        if symbols[-1] != END:
            length = cache.length - len(states) + accepted + 1
            rows = stepper.advance(replace(states[accepted], cache=cache.first(length)), previous)
            place = _realigned(draft, place + accepted, symbols)
    score = stepper.options.normalise(total, len(symbols))
    return Hypothesis(tuple(symbols[:-1]), score, len(symbols) < limit, {"passes": tuple(passes)})


def _states_along(stepper: Stepper, rows: Rows, draft: Tensor) -> list[Rows]:
    """The row before each symbol of a draft and after the last, up to one that the constraint does not allow."""
    states = [rows]
    for symbol in draft.unsqueeze(1):
        if rows.automaton is not None and not bool(stepper.constraint.allowed(states[-1].automaton)[0, symbol]):
            break
        states.append(stepper.advance(states[-1], symbol))
    return states


def _log_probs_along(stepper: Stepper, states: list[Rows], inputs: Tensor, left: int) -> tuple[Tensor, Cache]:
    """Log-probabilities (T,V) after each of the inputs (T,), by one pass, and the cache.

    Args:
        stepper: of the search.
        states: the T rows that the inputs lead to.
        inputs: int64, the symbol before the first of the draft, and those of the draft.
        left: how many symbols the output may still have; the last of them is END.
    """
    model, rows, count = stepper.model, states[0], inputs.size(0)
    offset = model.target_length(rows.cache, rows.memory)
    automaton = {
        name: torch.cat([getattr(stepper.constraint, name)(state.automaton) for state in states]).unsqueeze(0)
        for name in model.reads
    }
    x = model.embed(inputs.unsqueeze(0), rows.memory, offset=offset, **automaton)
    visible = causal(count, offset, inputs.device) if count > 1 else None
    hidden, cache = model.decode(x, visible, rows.memory, rows.cache)
    logits = model.logits(hidden, rows.memory).squeeze(0).float()
    last_step = torch.arange(1, count + 1, device=inputs.device) == left if count >= left else None
    if rows.is_stateless:
        return stepper.process(logits, rows, last_step), cache
    each = zip(logits.split(1), states, [None] * count if last_step is None else last_step.split(1), strict=True)
    return torch.cat([stepper.process(*one) for one in each]), cache


def _realigned(draft: Sequence[int], place: int, symbols: Sequence[int]) -> int:
    """Where a draft continues an output of `symbols`, the last of which stands for `draft[place]`.

    The last symbols are aligned with the draft nearby at the least edit distance (Levenshtein 1966); among equal
    places the one nearest to `place` + 1 is chosen.

    >>> _realigned("docto asks", 5, "doctor"), _realigned("docto asks", 6, "doctor ")
    (6, 6)
    >>> _realigned("the the cat", 4, "the c")
    9
    """
    tail = symbols[-_TAIL:]
    low = max(0, place + 1 - len(tail) - _SHIFT)
    region = draft[low : place + 1 + _SHIFT]
    costs = [0] * (len(region) + 1)  # of aligning the tail so far with what ends before each place
    for symbol in tail:
        before, costs = costs, [costs[0] + 1]
        for at, drafted in enumerate(region):
            costs.append(min(before[at] + (drafted != symbol), before[at + 1] + 1, costs[-1] + 1))
    return low + min(range(len(costs)), key=lambda at: (costs[at], abs(low + at - place - 1)))
