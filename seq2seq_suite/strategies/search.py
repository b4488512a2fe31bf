"""Search for autoregressive outputs: greedy, sampling and beam, all batched, all under a constraint if there is one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2seq_suite.model.decoder import Cache
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.seq2seq import Prompt, Seq2Seq
from seq2seq_suite.strategies.ctc_prefixes import NEVER, Prefixes
from seq2seq_suite.types import BEGIN, END, PAD, UNKNOWN, Batch, Constraint, ConstraintState, Hypothesis

_BLOCK = 64  # symbols, in `_top`


@dataclass(frozen=True)
class SearchOptions:
    """How to search; the fields are those of the configuration's `search`."""

    beam_size: int = 1
    length_penalty: float = 0.6
    num_hypotheses: int = 1
    sampling: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    constraint: bool = True
    ctc_weight: float = 0.0
    iterations: int = 10
    lookahead: bool = True

    def normalise(self, log_probability: Tensor, length: Tensor | int) -> Tensor:
        """score = log p(y) / ((5 + T) / 6)^alpha, T counting END.

        Source: Wu et al. 2016, eq. 14, without the coverage term.
        """
        return log_probability / ((5.0 + length) / 6.0) ** self.length_penalty


@dataclass(frozen=True)
class _Rows:
    """Partial outputs: N rows, the same number for each of B sentences, and all that their next step needs."""

    prompt: Prompt
    cache: Cache
    automaton: ConstraintState | None
    prefixes: Prefixes | None = None

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> _Rows:
        """The given rows, and the given sentences where some are finished."""
        return _Rows(self.prompt if sentences is None else self.prompt.select(sentences), self.cache.select(rows),
                     None if self.automaton is None else self.automaton.select(rows),
                     None if self.prefixes is None else self.prefixes.select(rows, sentences))


class _Stepper:
    """One step of a model under a constraint."""

    def __init__(self, model: Seq2Seq, constraint: Constraint | None, options: SearchOptions):
        self.model, self.constraint, self.options = model, constraint, options

    def start(self, batch: Batch, prompt: Prompt, limit: Tensor
              ) -> tuple[_Rows, Tensor, tuple[tuple[int, ...], ...]]:
        """A row for each sentence, the symbol before the first to be found, and auxiliary labels of the source.

        Where the first columns of the target are given in all rows, the search begins behind them.
        """
        prompt, states = replace(prompt, output=self.model.output.prepare()), prompt.states
        automaton = self.constraint.start(batch, limit) if self.constraint is not None else None
        prefixes = Prefixes.empty(self.model.ctc(states)) if self.options.ctc_weight else None
        cache, given = self.model.new_cache(prompt), int(batch.prompt_mask.all(0).sum())
        previous = torch.full_like(limit, BEGIN)
        if given:
            x = self.model.embed(torch.cat((previous.unsqueeze(1), batch.target[:, : given - 1]), 1), prompt)
            _, cache = self.model.decode(x, causal(given, device=limit.device), prompt, cache)
            previous = batch.target[:, given - 1]
        return _Rows(prompt, cache, automaton, prefixes), previous, self.model.labels_of(states)

    def log_probabilities(self, rows: _Rows, previous: Tensor, last_step: Tensor) -> tuple[Tensor, _Rows]:
        """Log-probabilities (N,V) of the next symbol; where `last_step` (N,) only END remains."""
        focus = context = None
        if self.model.guide is not None:
            focus = self.constraint.focus(rows.automaton).unsqueeze(1)
            context = self.constraint.context(rows.automaton).unsqueeze(1)
        x = self.model.embed(previous.unsqueeze(1), rows.prompt, offset=self.model.written(rows.cache, rows.prompt),
                             focus=focus, context=context)
        hidden, cache = self.model.decode(x, None, rows.prompt, rows.cache)
        logits = self.model.logits(hidden, rows.prompt).squeeze(1).float()
        for never in (PAD, BEGIN, UNKNOWN):  # a list of them would be made a tensor at every step
            logits[:, never] = NEVER
        if self.constraint is not None and self.options.constraint:
            logits = logits.masked_fill(~self.constraint.allowed(rows.automaton), NEVER)
        log_probabilities = torch.log_softmax(logits, -1)
        if rows.prefixes is not None:
            weight = self.options.ctc_weight
            log_probabilities = torch.where(log_probabilities == NEVER, NEVER,
                                            (1.0 - weight) * log_probabilities + weight * rows.prefixes.gains())
        if bool(last_step.any()):
            not_end = torch.arange(logits.size(1), device=logits.device) != END
            log_probabilities = log_probabilities.masked_fill(last_step.unsqueeze(1) & not_end, NEVER)
            # END costs what the model says; where a constraint forbids it, it is the only way out all the same.
            end = log_probabilities[last_step, END]
            log_probabilities[last_step, END] = end.clamp(min=torch.finfo(end.dtype).min / 2)
        return log_probabilities, replace(rows, cache=cache)

    def advance(self, rows: _Rows, symbols: Tensor) -> _Rows:
        """The automaton after `symbols` (N,)."""
        return replace(
            rows, automaton=None if rows.automaton is None else self.constraint.advance(rows.automaton, symbols),
            prefixes=None if rows.prefixes is None else rows.prefixes.advance(symbols))


@torch.inference_mode()
def greedy_or_sample(model: Seq2Seq, batch: Batch, prompt: Prompt, *, options: SearchOptions, limit: Tensor,
                     constraint: Constraint | None = None) -> list[list[Hypothesis]]:
    """Greedy search or sampling. Finished rows leave the batch, so that the long ones do not pay for the short."""
    if options.sampling and options.num_hypotheses > 1:
        draws = [greedy_or_sample(model, batch, prompt, options=replace(options, num_hypotheses=1), limit=limit,
                                  constraint=constraint) for _ in range(options.num_hypotheses)]
        return [sorted((draw[item][0] for draw in draws), key=lambda h: -h.score) for item in range(limit.size(0))]
    stepper = _Stepper(model, constraint, options)
    rows, previous, labels = stepper.start(batch, prompt, limit)
    count, device = limit.size(0), limit.device
    outputs = torch.full((count, int(limit.max())), END, device=device)
    totals = torch.zeros(count, device=device)
    lengths = limit.clone()
    complete = torch.zeros(count, dtype=torch.bool, device=device)
    alive = torch.arange(count, device=device)  # the items that the rows stand for
    for step in range(int(limit.max())):
        log_probabilities, rows = stepper.log_probabilities(rows, previous, limit[alive] == step + 1)
        if options.sampling:
            previous = _draw(log_probabilities, options)
            gained = log_probabilities.gather(1, previous.unsqueeze(1)).squeeze(1)
        else:
            gained, previous = log_probabilities.max(-1)  # a third of the time of argmax on a CPU
        totals[alive] += gained
        outputs[alive, step] = previous
        ended = previous == END
        if bool(ended.any()):
            done = alive[ended]
            lengths[done] = step + 1
            complete[done] = limit[done] > step + 1
            going = (~ended).nonzero().squeeze(1)
            if going.numel() == 0:
                break
            alive, previous = alive[going], previous[going]
            rows = rows.select(going, going)
        rows = stepper.advance(rows, previous)
    scores = options.normalise(totals, lengths).tolist()
    return [[Hypothesis(tuple(symbols[: length - 1]), score, done, label)]
            for symbols, length, score, done, label
            in zip(outputs.tolist(), lengths.tolist(), scores, complete.tolist(), labels, strict=True)]


def _draw(log_probabilities: Tensor, options: SearchOptions) -> Tensor:
    """One symbol a row from the tempered, truncated distribution.

    Source: Fan et al. 2018 (top-k); Holtzman et al. 2020 (top-p: the fewest symbols whose mass reaches p).
    """
    logits = log_probabilities / options.temperature
    if options.top_k:
        smallest = logits.topk(min(options.top_k, logits.size(-1)), -1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, NEVER)
    if options.top_p < 1.0:
        ordered, order = logits.sort(-1, descending=True)
        probabilities = ordered.softmax(-1)
        beyond = probabilities.cumsum(-1) - probabilities >= options.top_p
        logits = logits.masked_fill(torch.zeros_like(beyond).scatter_(1, order, beyond), NEVER)
    return torch.multinomial(logits.softmax(-1), 1).squeeze(1)


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
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


@dataclass(frozen=True)
class Finished:
    """The best complete outputs of each sentence: scores (B,k), symbols (B,k,L), lengths (B,k), uncut (B,k)."""

    scores: Tensor
    symbols: Tensor
    lengths: Tensor
    complete: Tensor

    @staticmethod
    def none(sentences: int, beams: int, longest: int, device: torch.device) -> Finished:
        return Finished(torch.full((sentences, beams), NEVER, device=device),
                         torch.full((sentences, beams, longest), END, device=device),
                         torch.zeros(sentences, beams, dtype=torch.int64, device=device),
                         torch.zeros(sentences, beams, dtype=torch.bool, device=device))

    def merge(self, scores: Tensor, history: Tensor, complete: Tensor) -> Finished:
        """With candidates (B,c) of symbols (B,c,t), keeping the best k."""
        beams, step = self.scores.size(1), history.size(2)
        best, place = torch.cat((self.scores, scores), 1).topk(beams, 1)
        padded = self.symbols.new_full((*history.shape[:2], self.symbols.size(2)), END)
        padded[:, :, :step] = history
        symbols = torch.cat((self.symbols, padded), 1)
        lengths = torch.cat((self.lengths, torch.full_like(scores, step, dtype=torch.int64)), 1)
        flags = torch.cat((self.complete, complete), 1)
        return Finished(best, symbols.gather(1, place.unsqueeze(2).expand(-1, -1, symbols.size(2))),
                         lengths.gather(1, place), flags.gather(1, place))

    def select(self, sentences: Tensor) -> Finished:
        return Finished(self.scores[sentences], self.symbols[sentences], self.lengths[sentences],
                         self.complete[sentences])

    def hypotheses(self, sentence: int, count: int, labels: tuple[int, ...]) -> list[Hypothesis]:
        """The best of one sentence."""
        found = zip(self.symbols[sentence].tolist(), self.lengths[sentence].tolist(), self.scores[sentence].tolist(),
                    self.complete[sentence].tolist(), strict=True)
        return [Hypothesis(tuple(symbols[:length]), score, complete, labels)
                for symbols, length, score, complete in found if score > NEVER][:count]


@torch.inference_mode()
def beam_search(model: Seq2Seq, batch: Batch, prompt: Prompt, *, options: SearchOptions, limit: Tensor,
                constraint: Constraint | None = None) -> list[list[Hypothesis]]:
    """Beam search over all sentences and beams at once; `prompt` is of the batch's sources.

    A sentence is finished when nothing still open can beat the complete outputs that are asked for, were all its
    remaining symbols certain; finished sentences leave the batch.
    """
    stepper = _Stepper(model, constraint, options)
    rows, previous, labels = stepper.start(batch, prompt, limit)
    beams, device = options.beam_size, limit.device
    asked = min(options.num_hypotheses, beams)
    results: list[list[Hypothesis]] = [[] for _ in labels]
    alive = torch.arange(limit.size(0), device=device)
    rows = rows.select(alive.repeat_interleave(beams))
    scores = torch.full((alive.size(0), beams), NEVER, device=device)
    scores[:, 0] = 0.0
    history = torch.empty(alive.size(0), beams, 0, dtype=torch.int64, device=device)
    previous = previous.repeat_interleave(beams)
    finished = Finished.none(alive.size(0), beams, int(limit.max()), device)
    for step in range(int(limit.max())):
        last_step = limit[alive] == step + 1
        log_probabilities, rows = stepper.log_probabilities(rows, previous, last_step.repeat_interleave(beams))
        # 2k candidates hold at least k that do not end, since each beam can end in one way only.
        likeliest, symbols = (found.view(alive.size(0), beams, -1) for found in _top(log_probabilities, 2 * beams))
        totals = (scores.unsqueeze(2) + likeliest).flatten(1)
        best, place = totals.topk(min(2 * beams, totals.size(1)), 1)
        beam, symbol = place // likeliest.size(2), symbols.flatten(1).gather(1, place)
        past = history.gather(1, beam.unsqueeze(2).expand(-1, -1, step))
        ends = symbol == END
        ending = options.normalise(best, step + 1).masked_fill(~ends, NEVER)
        finished = finished.merge(ending, past, (~last_step).unsqueeze(1).expand_as(ending))
        scores, kept = best.masked_fill(ends, NEVER).topk(beams, 1)
        beam, symbol = beam.gather(1, kept), symbol.gather(1, kept)
        history = torch.cat((past.gather(1, kept.unsqueeze(2).expand(-1, -1, step)), symbol.unsqueeze(2)), 2)
        bound = options.normalise(scores[:, 0], limit[alive])
        done = (bound <= finished.scores[:, asked - 1]) | (scores[:, 0] == NEVER)
        for sentence in done.nonzero().squeeze(1).tolist():
            item = int(alive[sentence])
            results[item] = finished.hypotheses(sentence, asked, labels[item])
        going = (~done).nonzero().squeeze(1)
        if going.numel() == 0:
            break
        selected = (going.unsqueeze(1) * beams + beam[going]).flatten()
        rows = rows.select(selected, going if going.numel() < done.numel() else None)
        alive, scores, history = alive[going], scores[going], history[going]
        finished, previous = finished.select(going), symbol[going].flatten()
        rows = stepper.advance(rows, previous)
    return results
