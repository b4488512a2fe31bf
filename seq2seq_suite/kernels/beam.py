"""Greedy search, sampling and beam search over all sentences and beams together.

Measured: greedy 9 times, with a beam of 4 some 8 times the sentences a second of a sentence at a time (64 short ones,
width 128, one thread).
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_suite.kernels.compiled import stepper_for
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.strategies.beam import one_beam, one_output
from seq2seq_suite.strategies.ctc_prefixes import Prefixes
from seq2seq_suite.strategies.finished import Finished, patience
from seq2seq_suite.strategies.search import NEVER, SearchOptions
from seq2seq_suite.types import END, Batch, Constraint, Hypothesis


@torch.inference_mode()
def greedy_or_sample(model: Seq2Seq, batch: Batch, memory: Memory, *, options: SearchOptions, limit: Tensor,
                     constraint: Constraint | None = None, prefixes: Prefixes | None = None) -> list[list[Hypothesis]]:
    """Greedy search or sampling. Rows that have ended leave the batch, so that short ones cost nothing more."""
    if options.sampling and options.num_hypotheses > 1:
        draws = [greedy_or_sample(model, batch, memory, options=options.changed(num_hypotheses=1), limit=limit,
                                  constraint=constraint, prefixes=prefixes) for _ in range(options.num_hypotheses)]
        return [sorted((draw[item][0] for draw in draws), key=lambda h: -h.score) for item in range(limit.size(0))]
    stepper = stepper_for(model, constraint, options)
    rows, previous = stepper.start(batch, memory, limit, prefixes)
    count, device = limit.size(0), limit.device
    if count == 1 and device.type == "cpu":  # numbers in Python take less time than calls of PyTorch
        return [[one_output(stepper, rows, previous, int(limit))]]
    limits, look = limit.tolist(), patience(device)
    outputs = torch.full((count, max(limits)), END, device=device)
    totals = torch.zeros(count, device=device)
    alive, over = torch.arange(count, device=device), None  # the items that the rows stand for, and which have ended
    for step in range(max(limits)):
        last_step = limit[alive] == step + 1 if step + 1 in limits else None
        gained, previous, rows = stepper.candidates(rows, previous, last_step, 1)
        gained, previous = gained.squeeze(1), previous.squeeze(1)
        if over is not None:
            gained, previous = gained.masked_fill(over, 0.0), previous.masked_fill(over, END)
        totals.index_add_(0, alive, gained)
        outputs[alive, step] = previous
        if (step + 1) % look == 0:
            going = (previous != END).nonzero().squeeze(1)
            if going.numel() == 0:
                break
            if going.numel() < alive.numel():
                alive, previous, rows = alive[going], previous[going], rows.select(going, going)
        over = previous == END if look > 1 else None
        rows = stepper.advance(rows, previous)
    lengths = (outputs != END).sum(1) + 1
    scores = options.normalise(totals, lengths).tolist()
    return [[Hypothesis(tuple(symbols[: length - 1]), score, length < most)] for symbols, length, score, most
            in zip(outputs.tolist(), lengths.tolist(), scores, limits, strict=True)]


@torch.inference_mode()
def beam_search(model: Seq2Seq, batch: Batch, memory: Memory, *, options: SearchOptions, limit: Tensor,
                constraint: Constraint | None = None, prefixes: Prefixes | None = None) -> list[list[Hypothesis]]:
    """Beam search over all sentences and beams together; `memory` is of the batch's sources.

    A sentence is finished when no open output could beat the requested complete ones even if all its
    remaining symbols were certain; finished sentences leave the batch.
    """
    stepper = stepper_for(model, constraint, options)
    rows, previous = stepper.start(batch, memory, limit, prefixes)
    beams, device = options.beam_size, limit.device
    if limit.size(0) == 1 and device.type == "cpu":
        return [one_beam(stepper, rows, previous, int(limit))]
    asked, limits, look = min(options.num_hypotheses, beams), limit.tolist(), patience(device)
    left: list[tuple[Tensor, Finished]] = []  # sentences that are finished, and their outputs
    alive = torch.arange(limit.size(0), device=device)
    over = torch.zeros_like(alive, dtype=torch.bool)  # those that are finished, until they leave
    rows = rows.select(alive.repeat_interleave(beams))
    scores = torch.full((alive.size(0), beams), NEVER, device=device)
    scores[:, 0] = 0.0
    history = torch.empty(alive.size(0), beams, 0, dtype=torch.int64, device=device)
    previous = previous.repeat_interleave(beams)
    finished = Finished.none(alive.size(0), beams, max(limits), device)
    for step in range(max(limits)):
        last_step = limit == step + 1 if step + 1 in limits else None
        # At least k of 2k candidates do not end, since each beam can end in only one way.
        gains, symbols, rows = stepper.candidates(
            rows, previous, None if last_step is None else last_step.repeat_interleave(beams), 2 * beams)
        totals = (scores.unsqueeze(2) + gains.view(*scores.shape, -1)).flatten(1)
        best, place = totals.topk(min(2 * beams, totals.size(1)), 1)
        beam, symbol = place // gains.size(1), symbols.view_as(totals).gather(1, place)
        past = history.gather(1, beam.unsqueeze(2).expand(-1, -1, step))
        ends = symbol == END
        ending = options.normalise(best, step + 1).masked_fill(~ends | over.unsqueeze(1), NEVER)
        finished = finished.merge(ending, past, ends if last_step is None else ends & ~last_step.unsqueeze(1))
        scores, kept = best.masked_fill(ends, NEVER).topk(beams, 1)
        beam, symbol = beam.gather(1, kept), symbol.gather(1, kept)
        history = torch.cat((past.gather(1, kept.unsqueeze(2).expand(-1, -1, step)), symbol.unsqueeze(2)), 2)
        bound = options.normalise(scores[:, 0], limit)
        over = over | (bound <= finished.scores[:, asked - 1]) | (scores[:, 0] == NEVER)
        selected = torch.arange(alive.size(0), device=device).unsqueeze(1) * beams + beam
        going = None
        if ((step + 1) % look == 0 or step + 1 == max(limits)) and (count := int(over.sum())):
            going, leaving = over.long().argsort(stable=True).tensor_split((alive.size(0) - count,))
            left.append((alive[leaving], finished.select(leaving)))
            if not going.numel():
                break
            alive, limit, over, scores, history = (part[going] for part in (alive, limit, over, scores, history))
            finished, selected, symbol = finished.select(going), selected[going], symbol[going]
        previous = symbol.flatten()
        rows = stepper.advance(rows.select(selected.flatten(), going), previous)
    results: list[list[Hypothesis]] = [[] for _ in limits]
    for sentences, found in left:
        for sentence, hypotheses in zip(sentences.tolist(), found.hypotheses(asked), strict=True):
            results[sentence] = hypotheses
    return results
