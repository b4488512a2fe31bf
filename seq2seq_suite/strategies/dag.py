"""The decoder's positions as vertices of a graph: a path through it is an output, and training sums over all paths."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from seq2seq_suite.config_section import Positive, PositiveFloat
from seq2seq_suite.model.dag import NEVER, best_path, path_log_likelihood
from seq2seq_suite.model.seq2seq import Prompt, Seq2Seq
from seq2seq_suite.strategies.agreement import Agreement, graph_disagreement
from seq2seq_suite.strategies.parallel import Parallel, ParallelOptions, Ratios, cut_at_end, uniform_copy
from seq2seq_suite.strategies.search import Finished, SearchOptions
from seq2seq_suite.types import END, Batch, Constraint, Hypothesis, Loss, States


class DagOptions(ParallelOptions):
    """A graph whose vertices write symbols: every path is an output (Directed Acyclic Transformer)."""

    kind: Literal["dag"] = "dag"
    factor: PositiveFloat = 4.0  # vertices for an encoder position, lambda
    link_heads: Positive = 4
    agreement: Ratios = (0.0, 0.0)  # as of ctc

    def most_positions(self, source_length: int) -> int:
        """`factor` times the source."""
        return int(source_length * self.factor)


class Dag(Parallel):
    """p(y | x) = sum over paths a of prod_t P(y_t | a_t) E_(a_t, a_t+1), from the first vertex to the last.

    Targets end in END, which the last vertex writes. Different paths are different translations, so that the positions
    need not average over them. A target with more symbols than there are vertices has loss 0 and is counted as
    `too_long`.

    Glancing is over the likeliest path of the target.

    Source: Huang et al. 2022 (Directed Acyclic Transformer), section 3; the beam sums over the paths of a prefix, as
    CTC's does, where theirs keeps the best.
    """

    Options = DagOptions
    writes = ("text",)

    def own_counts(self, batch: Batch) -> dict[str, int]:
        """Symbols with END, and rows."""
        rows = batch.target.size(0)
        counts = {"paths": int(batch.target_mask.sum()), "too_long": rows}
        return counts | ({"bigrams": rows} if any(self.options.agreement) else {})

    def decoder_length(self, states: States, batch: Batch) -> Tensor:
        """factor * S' vertices."""
        return self._vertices(states)

    def own_loss(self, model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor,
                 revealed: Tensor) -> Loss:
        """-log p(y | x), whatever was revealed, and what is expected to differ."""
        scores, _, _ = model.choose(hidden, prompt, batch.target, mask)
        links, lengths = model.links(hidden, mask), batch.target_mask.sum(1)
        found = path_log_likelihood(scores.transpose(1, 2), links, lengths, mask.sum(1))
        possible = found > NEVER / 2
        sums = {"paths": -found.masked_fill(~possible, 0.0).sum(), "too_long": (~possible).sum().float()}
        weights = {"paths": 1.0}
        if any(self.options.agreement):
            weights = Agreement(*self.options.agreement).weights("paths", self.fraction_done)
            sums["bigrams"] = graph_disagreement(scores, links, batch.target, lengths, mask).sum()
        return Loss(sums, self.own_counts(batch), weights)

    def alignment(self, model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor
                  ) -> tuple[Tensor, Tensor]:
        """The symbols at the vertices of the target's likeliest path."""
        scores, likeliest, _ = model.choose(hidden, prompt, batch.target, mask)
        path = best_path(scores.transpose(1, 2), model.links(hidden, mask), batch.target_mask.sum(1), mask.sum(1))
        # A column more than there are vertices takes what lies on no path.
        symbols = torch.full((path.size(0), mask.size(1) + 1), -1, dtype=torch.int64, device=path.device)
        place = torch.where(path >= 0, path, mask.size(1))
        return symbols.scatter(1, place, batch.target)[:, :-1], likeliest

    def predict(self, model: Seq2Seq, batch: Batch, states: States, prompt: Prompt, *, options: SearchOptions,
                limit: Tensor, constraint: Constraint | None) -> list[list[Hypothesis]]:
        """A walk over the likeliest links and symbols, or a beam over the outputs."""
        vectors, mask = uniform_copy(states, self._vertices(states))
        hidden = self.hidden(model, prompt, vectors, mask, None, torch.zeros_like(mask))
        emissions, links = self.writing(model, prompt, hidden), model.links(hidden, mask)
        if max(options.beam_size, options.num_hypotheses) == 1:
            return dag_greedy(emissions, links, mask.sum(1), limit, lookahead=options.lookahead)
        return prefix_beam(emissions, links, mask.sum(1), limit, options=options)

    def _vertices(self, states: States) -> Tensor:
        return (states.mask.sum(1) * self.options.factor).ceil().long().clamp(min=2)


def dag_greedy(emissions: Tensor, links: Tensor, vertices: Tensor, limit: Tensor, *, lookahead: bool
         ) -> list[list[Hypothesis]]:
    """From vertex to vertex by the likeliest link, or by link and best symbol together.

    Args:
        emissions: (B,C,V) log-probabilities.
        links: (B,C,C) log-probabilities.
        vertices: (B,) how many of the C are a row's own.
        limit: (B,) longest output, END included.
        lookahead: weigh what the next vertex would write.

    Source: Huang et al. 2022, section 3.4 (greedy and lookahead decoding).
    """
    gained, symbols = emissions.max(-1)
    here = torch.zeros_like(vertices)
    rows = torch.arange(here.size(0), device=here.device)
    total, last = gained[:, 0].clone(), vertices - 1
    written = [symbols[:, 0]]
    for _ in range(links.size(1) - 1):
        following = links[rows, here] + gained if lookahead else links[rows, here]
        there = torch.where(here == last, here, following.argmax(1))
        total += torch.where(here == last, 0.0, links[rows, here, there] + gained[rows, there])
        written.append(torch.where(here == last, END, symbols[rows, there]))
        here = there
        if bool((here == last).all()):
            break
    found = [cut_at_end(row) for row in torch.stack(written, 1).tolist()]
    return [[Hypothesis(row[: most - 1], score, complete=len(row) < most)]
            for row, score, most in zip(found, total.tolist(), limit.tolist(), strict=True)]


def prefix_beam(emissions: Tensor, links: Tensor, vertices: Tensor, limit: Tensor, *, options: SearchOptions
                ) -> list[list[Hypothesis]]:
    """The outputs of highest probability, each summed over the paths that write it, as far as a beam keeps them.

    A prefix has a probability at each vertex, that a path has written it and now stands there, scaled to a sum of 1:
    what may follow it is one matrix product with the vertices' distributions, and where it then stands another one.
    Tried are the 2k likeliest symbols of each vertex, of V.

    Args:
        emissions, links, vertices, limit: see `dag_greedy`.
        options: beam size, length penalty and how many outputs are asked for.
    """
    sentences, beams = limit.size(0), max(options.beam_size, options.num_hypotheses)
    rows, last = torch.arange(sentences, device=limit.device), vertices - 1
    ending = emissions[rows, last, END].unsqueeze(1)
    inner = emissions.index_fill(2, torch.tensor([END], device=limit.device), float("-inf"))
    inner[rows, last] = float("-inf")  # END is the last vertex's, and it writes nothing else
    tried = inner.topk(min(2 * beams, inner.size(2)), 2).indices.flatten(1).sort(1).values  # (B,K)
    written = inner.gather(2, tried.unsqueeze(1).expand(-1, inner.size(1), -1)).exp()  # (B,C,K)
    written[:, :, 1:].masked_fill_((tried[:, 1:] == tried[:, :-1]).unsqueeze(1), 0.0)
    follow = links.exp()
    standing = emissions.new_zeros(sentences, beams, emissions.size(1))  # (B,k,C)
    standing[:, 0, 0] = 1.0
    totals = torch.full((sentences, beams), float("-inf"), device=limit.device)  # (B,k) log-probability of a prefix
    totals[:, 0] = 0.0
    history = torch.empty(sentences, beams, 0, dtype=torch.int64, device=limit.device)
    longest = torch.minimum(limit, vertices)
    finished = Finished.none(sentences, beams, int(limit.max()), limit.device)
    for step in range(int(longest.max())):
        at_end = standing[rows, :, last].log() + totals + ending
        found = options.normalise(at_end, step + 1).masked_fill((step >= longest).unsqueeze(1), float("-inf"))
        finished = finished.merge(found, history, torch.ones_like(found, dtype=torch.bool))
        largest = totals.amax(1, keepdim=True).clamp(min=NEVER)  # finite where a row's prefixes have come to an end
        mass = (totals - largest).exp().unsqueeze(2) * (standing @ written)  # (B,k,K)
        place = mass.flatten(1).topk(beams, 1).indices
        beam, column = place // mass.size(2), place % mass.size(2)
        spoken = written.gather(2, column.unsqueeze(1).expand(-1, written.size(1), -1)).transpose(1, 2)  # (B,k,C)
        standing = (standing[rows.unsqueeze(1), beam] * spoken) @ follow
        gained = standing.sum(2)
        standing = standing / gained.clamp(min=torch.finfo(gained.dtype).tiny).unsqueeze(2)
        totals = totals.gather(1, beam) + gained.log()
        history = torch.cat((history[rows.unsqueeze(1), beam], tried.gather(1, column).unsqueeze(2)), 2)
        bound = options.normalise(totals.amax(1), longest)
        if bool(((bound <= finished.scores[:, options.num_hypotheses - 1]) | bound.isinf()).all()):
            break
    return [finished.hypotheses(row, options.num_hypotheses, ()) for row in range(sentences)]
