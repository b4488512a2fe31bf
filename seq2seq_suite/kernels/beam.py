"""Greedy search, sampling and beam search over all sentences and beams together.

Measured: greedy 9 times, with a beam of 4 some 8 times the sentences a second of a sentence at a time (64 short ones,
width 128, one thread).
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.strategies.ctc_prefixes import Prefixes
from seq2seq_suite.strategies.finished import Finished, patience
from seq2seq_suite.strategies.sampling import sample
from seq2seq_suite.strategies.search import NEVER, SearchOptions, Stepper
from seq2seq_suite.types import END, Batch, Constraint, Hypothesis

_BLOCK = 64  # symbols, in `likeliest` and `top_k`
_FEW_ROWS = 8  # below, more calls than one take longer


@torch.inference_mode()
def greedy_or_sample(model: Seq2Seq, batch: Batch, memory: Memory, *, options: SearchOptions, limit: Tensor,
                     constraint: Constraint | None = None, prefixes: Prefixes | None = None) -> list[list[Hypothesis]]:
    """Greedy search or sampling. Rows that have ended leave the batch, so that short ones cost nothing more."""
    if options.sampling and options.num_hypotheses > 1:
        draws = [greedy_or_sample(model, batch, memory, options=options.changed(num_hypotheses=1), limit=limit,
                                  constraint=constraint, prefixes=prefixes) for _ in range(options.num_hypotheses)]
        return [sorted((draw[item][0] for draw in draws), key=lambda h: -h.score) for item in range(limit.size(0))]
    stepper = Stepper(model, constraint, options)
    rows, previous = stepper.start(batch, memory, limit, prefixes)
    count, device = limit.size(0), limit.device
    limits, look = limit.tolist(), patience(device)
    outputs = torch.full((count, max(limits)), END, device=device)
    totals = torch.zeros(count, device=device)
    alive, over = torch.arange(count, device=device), None  # the items that the rows stand for, and which have ended
    for step in range(max(limits)):
        last_step = limit[alive] == step + 1 if step + 1 in limits else None
        log_probabilities, rows = stepper.log_probabilities(rows, previous, last_step)
        if over is not None:
            log_probabilities = log_probabilities.masked_fill(over.unsqueeze(1), 0.0)
        if options.sampling:
            previous = sample(log_probabilities, options)
            gained = log_probabilities.gather(1, previous.unsqueeze(1)).squeeze(1)
        else:
            gained, previous = likeliest(log_probabilities)
        if over is not None:
            previous = previous.masked_fill(over, END)
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


def likeliest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The largest score of each row (N,V) and its place, (N,) each: that of the best block's first."""
    rows, symbols = scores.shape
    if rows < _FEW_ROWS or symbols < 4 * _BLOCK or scores.device.type != "cpu":
        return scores.max(-1)  # a third of the time of argmax on a CPU
    whole = symbols // _BLOCK * _BLOCK
    blocks = scores[:, :whole].unflatten(1, (-1, _BLOCK))
    block = blocks.amax(2).max(1).indices
    best, place = blocks[torch.arange(rows), block].max(1)
    place += block * _BLOCK
    if whole < symbols:
        last, behind = scores[:, whole:].max(1)
        place = torch.where(last > best, behind + whole, place)
        best = torch.maximum(best, last)
    return best, place


def top_k(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest scores (N,V) of each row and their places, (N,min(count,V)) each.

    They lie in the `count` blocks of largest maximum, or in what is left after the last whole block. To find maxima
    is several times faster than to sort out all of a row.
    """
    rows, symbols = scores.shape
    if symbols <= 4 * count * _BLOCK:
        return scores.topk(min(count, symbols), 1)
    whole = symbols // _BLOCK * _BLOCK
    places = torch.arange(symbols, device=scores.device)
    blocks = scores[:, :whole].unflatten(1, (-1, _BLOCK)).amax(2).topk(count, 1).indices
    candidates = torch.cat((places[:whole].view(-1, _BLOCK)[blocks].flatten(1), places[whole:].expand(rows, -1)), 1)
    best, chosen = scores.gather(1, candidates).topk(count, 1)
    return best, candidates.gather(1, chosen)


@torch.inference_mode()
def beam_search(model: Seq2Seq, batch: Batch, memory: Memory, *, options: SearchOptions, limit: Tensor,
                constraint: Constraint | None = None, prefixes: Prefixes | None = None) -> list[list[Hypothesis]]:
    """Beam search over all sentences and beams together; `memory` is of the batch's sources.

    A sentence is finished when no open output could beat the requested complete ones even if all its
    remaining symbols were certain; finished sentences leave the batch.
    """
    stepper = Stepper(model, constraint, options)
    rows, previous = stepper.start(batch, memory, limit, prefixes)
    beams, device = options.beam_size, limit.device
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
        log_probabilities, rows = stepper.log_probabilities(
            rows, previous, None if last_step is None else last_step.repeat_interleave(beams))
        # At least k of 2k candidates do not end, since each beam can end in only one way.
        likeliest, symbols = (found.view(alive.size(0), beams, -1) for found in top_k(log_probabilities, 2 * beams))
        totals = (scores.unsqueeze(2) + likeliest).flatten(1)
        best, place = totals.topk(min(2 * beams, totals.size(1)), 1)
        beam, symbol = place // likeliest.size(2), symbols.flatten(1).gather(1, place)
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
