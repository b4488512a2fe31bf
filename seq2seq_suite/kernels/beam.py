"""Greedy search, sampling and beam search over all sentences and beams together.

Measured: greedy 9 times, with a beam of 4 some 8 times the sentences a second of a sentence at a time (64 short ones,
width 128, one thread).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, NEVER, Batch, Constraint, Hypothesis, sync_interval
from seq2seq_suite.kernels import graphs
from seq2seq_suite.kernels.compiled import stepper_for
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.beam import one_beam, one_output
from seq2seq_suite.search.ctc_prefix_scores import Prefixes
from seq2seq_suite.search.finished_beams import FinishedBeams
from seq2seq_suite.search.step import Rows, Stepper


@dataclass(frozen=True)
class Greedy:
    """A greedy search of B items, N of which still go on.

    Args:
        rows: the partial outputs.
        previous: (N,) their last symbols.
        over: (N,) bool, which have ended.
        alive: (N,) the items that they stand for.
        limit: (B,) the longest outputs.
        outputs, totals: (B,L) symbols and (B,) their summed log-probabilities, overwritten.
    """

    rows: Rows
    previous: Tensor
    over: Tensor
    alive: Tensor
    limit: Tensor
    outputs: Tensor
    totals: Tensor

    def after(self, stepper: Stepper, step: int | Tensor, last_step: Tensor | None) -> Greedy:
        """The search with one symbol more; `step` is a number or (1,), `last_step` as of `Stepper.candidates`."""
        gained, previous, rows = stepper.candidates(self.rows, self.previous, last_step, 1)
        previous = previous.squeeze(1).masked_fill(self.over, END)
        self.totals.index_add_(0, self.alive, gained.squeeze(1).masked_fill(self.over, 0.0))
        self.outputs[self.alive, step] = previous
        return replace(self, rows=rows, previous=previous, over=previous == END)

    def advance(self, stepper: Stepper) -> Greedy:
        """With the automaton's next state."""
        return replace(self, rows=stepper.advance(self.rows, self.previous))

    def whole_step(self, stepper: Stepper, step: Tensor) -> Greedy:
        """Both, for all rows alike."""
        return self.after(stepper, step, self.limit[self.alive] == step + 1).advance(stepper)


@torch.inference_mode()
def greedy_or_sample(
    model: Seq2Seq,
    batch: Batch,
    memory: Memory,
    *,
    options: SearchOptions,
    limit: Tensor,
    constraint: Constraint | None = None,
    prefixes: Prefixes | None = None,
) -> list[list[Hypothesis]]:
    """Greedy search or sampling. Rows that have ended leave the batch, so that short ones cost nothing more."""
    if options.sampling and options.num_hypotheses > 1:
        draws = [
            greedy_or_sample(
                model,
                batch,
                memory,
                options=options.changed(num_hypotheses=1),
                limit=limit,
                constraint=constraint,
                prefixes=prefixes,
            )
            for _ in range(options.num_hypotheses)
        ]
        return [sorted((draw[item][0] for draw in draws), key=lambda h: -h.score) for item in range(limit.size(0))]
    stepper = stepper_for(model, constraint, options)
    rows, previous = stepper.start(batch, memory, limit, prefixes)
    limits, device = limit.tolist(), limit.device
    if len(limits) == 1 and device.type == "cpu":  # numbers in Python take less time than calls of PyTorch
        return [[one_output(stepper, rows, previous, int(limit))]]
    captures = graphs.captures(stepper, rows)
    if captures:
        rows, previous, limit = graphs.in_bucket(rows, previous, limit)
    items, longest = torch.arange(limit.size(0), device=device), graphs.rounded(max(limits))
    state = Greedy(
        rows,
        previous,
        torch.zeros_like(items, dtype=torch.bool),
        items,
        limit,
        torch.full((items.size(0), longest if captures else max(limits)), END, device=device),
        torch.zeros(items.size(0), device=device),
    )
    found = graphs.search(stepper, state, max(limits)) if captures else None
    if found is None:
        _until_ended(stepper, state, limit.tolist())
    state = found or state
    lengths = (state.outputs != END).sum(1) + 1
    scores = options.normalise(state.totals, lengths).tolist()
    return [
        [Hypothesis(tuple(symbols[: length - 1]), score, length < most)]
        for symbols, length, score, most in zip(state.outputs.tolist(), lengths.tolist(), scores, limits, strict=False)
    ]  # those of a bucket go


def _until_ended(stepper: Stepper, state: Greedy, limits: list[int]) -> None:
    interval = sync_interval(state.limit.device)
    for step in range(max(limits)):
        state = state.after(stepper, step, state.limit[state.alive] == step + 1 if step + 1 in limits else None)
        if (step + 1) % interval == 0:
            going = (~state.over).nonzero().squeeze(1)
            if going.numel() == 0:
                return
            if going.numel() < state.alive.numel():
                rows, (previous, over, alive) = (
                    state.rows.select(going, going),
                    (part[going] for part in (state.previous, state.over, state.alive)),
                )
                state = replace(state, rows=rows, previous=previous, over=over, alive=alive)
        state = state.advance(stepper)


@dataclass(frozen=True)
class Beams:
    """A beam search of B sentences with k partial outputs each.

    Args:
        rows: the partial outputs, a sentence's side by side.
        previous: (B*k,) their last symbols.
        scores: (B,k) their log-probabilities.
        history: (B,k,t) their symbols.
        limit: (B,) the longest outputs.
        finished: the complete ones.
        over: (B,) bool, whether they cannot be improved.
    """

    rows: Rows
    previous: Tensor
    scores: Tensor
    history: Tensor
    limit: Tensor
    finished: FinishedBeams
    over: Tensor

    def after(self, stepper: Stepper, step: int | Tensor, last_step: Tensor | None) -> tuple[Beams, Tensor, Tensor]:
        """The search with one symbol more, without its rows' change; which rows go on (B,k) and by what symbols (B,k).

        `step` is a number, t of the history, or (1,), in a history of fixed size. `last_step` (B,) is bool.
        """
        options, beams = stepper.options, self.scores.size(1)
        # At least k of 2k candidates do not end, since each beam can end in only one way.
        gains, symbols, rows = stepper.candidates(
            self.rows, self.previous, None if last_step is None else last_step.repeat_interleave(beams), 2 * beams
        )
        totals = (self.scores.unsqueeze(2) + gains.view(*self.scores.shape, -1)).flatten(1)
        best, place = totals.topk(min(2 * beams, totals.size(1)), 1)
        beam, symbol = place // gains.size(1), symbols.view_as(totals).gather(1, place)
        width = self.history.size(2)
        past = self.history.gather(1, beam.unsqueeze(2).expand(-1, -1, width))
        ends = symbol == END
        ending = options.normalise(best, step + 1).masked_fill(~ends | self.over.unsqueeze(1), NEVER)
        finished = self.finished.merge(
            ending,
            past,
            ends if last_step is None else ends & ~last_step.unsqueeze(1),
            step if isinstance(step, Tensor) else None,
        )
        scores, kept = best.masked_fill(ends, NEVER).topk(beams, 1)
        beam, symbol = beam.gather(1, kept), symbol.gather(1, kept)
        past, new = past.gather(1, kept.unsqueeze(2).expand(-1, -1, width)), symbol.unsqueeze(2)
        history = past.index_copy_(2, step, new) if isinstance(step, Tensor) else torch.cat((past, new), 2)
        bound, wanted = options.normalise(scores[:, 0], self.limit), min(options.num_hypotheses, beams)
        over = self.over | (bound <= finished.scores[:, wanted - 1]) | (scores[:, 0] == NEVER)
        chosen = torch.arange(over.size(0), device=over.device).unsqueeze(1) * beams + beam
        return replace(self, rows=rows, scores=scores, history=history, finished=finished, over=over), chosen, symbol

    def select(self, sentences: Tensor) -> Beams:
        """The given sentences, but for the rows, which `advance` selects."""
        scores, history, limit, over = (part[sentences] for part in (self.scores, self.history, self.limit, self.over))
        return replace(
            self, scores=scores, history=history, limit=limit, over=over, finished=self.finished.select(sentences)
        )

    def advance(self, stepper: Stepper, chosen: Tensor, symbol: Tensor, going: Tensor | None = None) -> Beams:
        """With the chosen rows, and the automaton's next state."""
        previous = symbol.flatten()
        return replace(
            self, rows=stepper.advance(self.rows.select(chosen.flatten(), going), previous), previous=previous
        )

    def whole_step(self, stepper: Stepper, step: Tensor) -> Beams:
        """Both, for all sentences alike."""
        state, chosen, symbol = self.after(stepper, step, self.limit == step + 1)
        return state.advance(stepper, chosen, symbol)


@torch.inference_mode()
def beam_search(
    model: Seq2Seq,
    batch: Batch,
    memory: Memory,
    *,
    options: SearchOptions,
    limit: Tensor,
    constraint: Constraint | None = None,
    prefixes: Prefixes | None = None,
) -> list[list[Hypothesis]]:
    """Beam search over all sentences and beams together; `memory` is of the batch's sources.

    A sentence is finished when no open output could beat the requested complete ones even if all its
    remaining symbols were certain; finished sentences leave the batch.
    """
    stepper = stepper_for(model, constraint, options)
    rows, previous = stepper.start(batch, memory, limit, prefixes)
    beams, device = options.beam_size, limit.device
    limits, wanted = limit.tolist(), min(options.num_hypotheses, beams)
    if len(limits) == 1 and device.type == "cpu":
        return [one_beam(stepper, rows, previous, int(limit))]
    captures = graphs.captures(stepper, rows)
    if captures:
        rows, previous, limit = graphs.in_bucket(rows, previous, limit)
    sentences, longest = torch.arange(limit.size(0), device=device), max(limits)
    longest = graphs.rounded(longest) if captures else longest
    scores = torch.full((limit.size(0), beams), NEVER, device=device)
    scores[:, 0] = 0.0
    history = torch.full((limit.size(0), beams, longest), END, device=device)
    state = Beams(
        rows.select(sentences.repeat_interleave(beams)),
        previous.repeat_interleave(beams),
        scores,
        history,
        limit,
        FinishedBeams.empty(limit.size(0), beams, longest, device),
        torch.zeros_like(limit, dtype=torch.bool),
    )
    found = graphs.search(stepper, state, max(limits)) if captures else None
    if found is not None:
        return found.finished.hypotheses(wanted)[: len(limits)]
    results: list[list[Hypothesis]] = [[] for _ in sentences]
    for left, found in _leaving(stepper, replace(state, history=history[:, :, :0]), sentences, limit.tolist()):
        for sentence, hypotheses in zip(left.tolist(), found.hypotheses(wanted), strict=True):
            results[sentence] = hypotheses
    return results[: len(limits)]


def _leaving(stepper: Stepper, state: Beams, alive: Tensor, limits: list[int]) -> list[tuple[Tensor, FinishedBeams]]:
    """Sentences in the order in which they are finished, and their outputs."""
    left, interval = [], sync_interval(alive.device)
    for step in range(max(limits)):
        state, chosen, symbol = state.after(stepper, step, state.limit == step + 1 if step + 1 in limits else None)
        going = None
        if ((step + 1) % interval == 0 or step + 1 == max(limits)) and (count := int(state.over.sum())):
            going, leaving = state.over.long().argsort(stable=True).tensor_split((alive.size(0) - count,))
            left.append((alive[leaving], state.finished.select(leaving)))
            if not going.numel():
                break
            alive, chosen, symbol, state = alive[going], chosen[going], symbol[going], state.select(going)
        state = state.advance(stepper, chosen, symbol, going)
    return left
