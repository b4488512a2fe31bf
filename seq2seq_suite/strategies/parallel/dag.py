"""The decoder's positions as vertices of a graph: a path is an output, and training sums over all paths.

Shape suffixes in this module: B rows, C vertices, H heads, T target symbols, D width, V symbols.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.shapes import TargetShape
from seq2seq_suite.common.types import (
    END,
    Batch,
    Constraint,
    Distributions,
    Hypothesis,
    Loss,
    States,
    sync_interval,
)
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.options.strategies import DagOptions
from seq2seq_suite.search.finished_beams import FinishedBeams
from seq2seq_suite.strategies.auxiliary import Auxiliaries
from seq2seq_suite.strategies.parallel.base import Parallel, uniform_copy
from seq2seq_suite.strategies.parallel.bigram_loss import agreement_weights, graph_disagreement
from seq2seq_suite.strategies.parallel.constrained import cut_at_end
from seq2seq_suite.strategies.parallel.log_probs import gather_log_probs

NEVER = -1e30  # log-probability of the impossible; finite, so that no gradient becomes NaN
_LINK_HEADS = 4  # if they split the width


class Links(nn.Module):
    """E_vu, the probability that vertex u follows vertex v < u on a path.

    E_v = sum_h g_h(v) softmax_u>v(q_h(v) . k_h(u) / sqrt(D / H)), g the softmax of a linear layer.

    Source: Huang et al. 2022 (Directed Acyclic Transformer), section 3.2 and appendix.

    Args:
        width: D, a multiple of num_heads.
        num_heads: H.
    """

    def __init__(self, width: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.query_key = nn.Linear(width, 2 * width)
        self.gate = nn.Linear(width, num_heads)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """hidden (B,C,D), mask (B,C) bool of real vertices -> log E (B,C,C) float32, `NEVER` where there is no link."""
        count = hidden.size(1)
        query, key = (
            part.unflatten(2, (self.num_heads, -1)).transpose(1, 2).float()
            for part in self.query_key(hidden).chunk(2, -1)
        )
        scores_BHCC = query @ key.transpose(2, 3) / math.sqrt(query.size(3))
        later = torch.ones(count, count, dtype=torch.bool, device=hidden.device).triu(1)
        linked_BCC = later & mask.unsqueeze(1) & mask.unsqueeze(2)
        each = scores_BHCC.masked_fill(~linked_BCC.unsqueeze(1), NEVER).log_softmax(-1)
        gate_BHC1 = self.gate(hidden).float().log_softmax(-1).transpose(1, 2).unsqueeze(3)
        return (each + gate_BHC1).logsumexp(1).masked_fill(~linked_BCC, NEVER)


class Dag(Parallel):
    """p(y | x) = sum over paths a of prod_t P(y_t | a_t) E_(a_t, a_t+1), from the first vertex to the last.

    Targets end in END, which the last vertex emits. Different paths are different translations, so that positions need
    not average over them. A target with more symbols than there are vertices has loss 0 and is counted as
    `too_long`.

    Glancing uses the likeliest path of the target.

    Source: Huang et al. 2022 (Directed Acyclic Transformer), section 3; the beam sums over the paths of a prefix, as
    CTC's does, where theirs keeps the best.
    """

    Options = DagOptions
    options: DagOptions
    positions_are = "vertices"
    writes = ("text",)
    uses = ("beam_size", "num_hypotheses", "rescorer", "risk", "length_penalty")

    def __init__(self, options: DagOptions, target: TargetShape, width: int, auxiliaries: Auxiliaries):
        super().__init__(options, target, width, auxiliaries)
        self.links = Links(width, math.gcd(width, _LINK_HEADS))

    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """Symbols with END, and rows."""
        rows = batch.target.size(0)
        counts = {"paths": batch.target_mask.sum(), "too_long": rows}
        return counts | ({"bigrams": rows} if any(self.options.agreement) else {})

    def decoder_length(self, states: States, batch: Batch) -> Tensor:
        """factor * S' vertices."""
        return self.options.room(states.mask.sum(1))

    def own_loss(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor, revealed: Tensor
    ) -> Loss:
        """-log p(y | x), and the expected disagreement, whatever was revealed."""
        scores, _, _ = gather_log_probs(model, hidden, memory, batch.target, mask)
        links, lengths = self.links(hidden, mask), batch.target_mask.sum(1)
        found = path_log_likelihood(scores.transpose(1, 2), links, lengths, mask.sum(1))
        possible = found > NEVER / 2
        sums = {"paths": -found.masked_fill(~possible, 0.0).sum(), "too_long": (~possible).sum().float()}
        weights = {"paths": 1.0}
        if any(self.options.agreement):
            weights = agreement_weights(self.options.agreement, "paths", self.fraction_done)
            sums["bigrams"] = graph_disagreement(scores, links, batch.target, lengths, mask).sum()
        linked = functional.pad(mask[:, 1:], (0, 1))  # all but the last vertex
        judged = (
            Distributions("paths", partial(model.logits, hidden, memory), mask),
            Distributions("paths", lambda: links, linked),
        )
        return Loss(sums, self.own_counts(batch), weights, judged)

    def alignment(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The symbols at the vertices of the target's likeliest path."""
        scores, likeliest, _ = gather_log_probs(model, hidden, memory, batch.target, mask)
        path = likeliest_path(scores.transpose(1, 2), self.links(hidden, mask), batch.target_mask.sum(1), mask.sum(1))
        # An extra column takes what is on no path.
        symbols = torch.full((path.size(0), mask.size(1) + 1), -1, dtype=torch.int64, device=path.device)
        place = torch.where(path >= 0, path, mask.size(1))
        return symbols.scatter(1, place, batch.target)[:, :-1], likeliest

    def predict(
        self,
        model: Seq2Seq,
        batch: Batch,
        states: States,
        memory: Memory,
        *,
        options: SearchOptions,
        limit: Tensor,
        constraint: Constraint | None,
    ) -> list[list[Hypothesis]]:
        """Greedy decoding over links and symbols, or beam search over outputs."""
        vectors, mask = uniform_copy(states, self.decoder_length(states, batch))
        hidden = self.run_decoder(model, memory, vectors, mask)
        emissions, links = self.output_log_probs(model, memory, hidden), self.links(hidden, mask)
        if max(options.beam_size, options.num_hypotheses) == 1:
            return dag_greedy(emissions, links, mask.sum(1), limit)
        return dag_beam(emissions, links, mask.sum(1), limit, options=options)


def path_log_likelihood(
    emissions_BTC: Tensor, links_BCC: Tensor, lengths: Tensor, vertices: Tensor, *, best: bool = False
) -> Tensor:
    """log p(y | x) = log sum over paths of prod_t P(y_t | a_t) E_(a_t, a_t+1), all from the first vertex to the last.

    f_1(u) = P(y_1 | u) at the first vertex,  f_t(u) = P(y_t | u) sum_v<u f_t-1(v) E_vu,  p = f_T(last)

    Args:
        emissions_BTC: log P(y_t | u), float32.
        links_BCC: of `Links`.
        lengths: (B,) int64, T of each row.
        vertices: (B,) int64, C of each row.
        best: of the likeliest path alone, a maximum in place of the sum.

    Returns:
        (B,), at most `NEVER` / 2 where no path is long enough.

    Source: Huang et al. 2022, eqs. 5 to 7.
    """
    first = torch.full_like(emissions_BTC[:, 0], NEVER)
    first[:, 0] = 0.0
    reached = first + emissions_BTC[:, 0]
    for step in range(1, emissions_BTC.size(1)):
        arriving = reached.unsqueeze(2) + links_BCC
        following = (arriving.max(1).values if best else arriving.logsumexp(1)) + emissions_BTC[:, step]
        reached = torch.where((step < lengths).unsqueeze(1), following, reached)
    return reached.gather(1, (vertices - 1).unsqueeze(1)).squeeze(1)


def likeliest_path(emissions_BTC: Tensor, links_BCC: Tensor, lengths: Tensor, vertices: Tensor) -> Tensor:
    """(B,T) int64, the vertex of each target symbol on the likeliest path; -1 beyond a row's T, or without any path."""
    with torch.enable_grad():
        emissions = emissions_BTC.detach().requires_grad_()
        score = path_log_likelihood(emissions, links_BCC.detach(), lengths, vertices, best=True)
        (on_path,) = torch.autograd.grad(score.sum(), emissions)  # 1 where the maximum comes from, else 0
    place = torch.arange(emissions.size(1), device=lengths.device)
    real = (place < lengths.unsqueeze(1)) & (score > NEVER / 2).unsqueeze(1)
    return on_path.argmax(2).where(real, -1)


def dag_greedy(emissions: Tensor, links: Tensor, vertices: Tensor, limit: Tensor) -> list[list[Hypothesis]]:
    """Greedy decoding with lookahead: a link is chosen together with the best symbol of the vertex that it leads to.

    Args:
        emissions: (B,C,V) log-probabilities.
        links: (B,C,C) log-probabilities.
        vertices: (B,) how many of the C are a row's own.
        limit: (B,) longest output, END included.

    Source: Huang et al. 2022, section 3.4 (lookahead decoding).
    """
    gained, symbols = emissions.max(-1)
    here = torch.zeros_like(vertices)
    rows = torch.arange(here.size(0), device=here.device)
    total, last = gained[:, 0].clone(), vertices - 1
    output = [symbols[:, 0]]
    for step in range(1, links.size(1)):
        there = torch.where(here == last, here, (links[rows, here] + gained).argmax(1))
        total += torch.where(here == last, 0.0, links[rows, here, there] + gained[rows, there])
        output.append(torch.where(here == last, END, symbols[rows, there]))
        here = there
        if step % sync_interval(here.device) == 0 and bool((here == last).all()):
            break
    found = [cut_at_end(row) for row in torch.stack(output, 1).tolist()]
    return [
        [Hypothesis(row[: most - 1], score, complete=len(row) < most)]
        for row, score, most in zip(found, total.tolist(), limit.tolist(), strict=True)
    ]


def dag_beam(
    emissions: Tensor, links: Tensor, vertices: Tensor, limit: Tensor, *, options: SearchOptions
) -> list[list[Hypothesis]]:
    """Beam search for the outputs of highest probability, each summed over its paths.

    A prefix has a distribution over the vertices at which its paths end: the next symbol is one matrix product with the
    vertices' distributions, and the next distribution another. Only the 2k likeliest symbols of each vertex are tried.

    Args:
        emissions, links, vertices, limit: see `dag_greedy`.
        options: beam size, length penalty and number of outputs.
    """
    sentences, beams = limit.size(0), max(options.beam_size, options.num_hypotheses)
    rows, last = torch.arange(sentences, device=limit.device), vertices - 1
    ending = emissions[rows, last, END].unsqueeze(1)
    inner = emissions.index_fill(2, torch.tensor([END], device=limit.device), float("-inf"))
    inner[rows, last] = float("-inf")  # only the last vertex emits END, and nothing else
    tried = inner.topk(min(2 * beams, inner.size(2)), 2).indices.flatten(1).sort(1).values  # (B,K)
    emitted = inner.gather(2, tried.unsqueeze(1).expand(-1, inner.size(1), -1)).exp()  # (B,C,K)
    emitted[:, :, 1:].masked_fill_((tried[:, 1:] == tried[:, :-1]).unsqueeze(1), 0.0)
    follow = links.exp()
    standing = emissions.new_zeros(sentences, beams, emissions.size(1))  # (B,k,C)
    standing[:, 0, 0] = 1.0
    totals = torch.full((sentences, beams), float("-inf"), device=limit.device)  # (B,k) log-probability of a prefix
    totals[:, 0] = 0.0
    history = torch.empty(sentences, beams, 0, dtype=torch.int64, device=limit.device)
    longest = torch.minimum(limit, vertices)
    finished = FinishedBeams.empty(sentences, beams, int(limit.max()), limit.device)
    look = sync_interval(limit.device)
    for step in range(int(longest.max())):
        at_end = standing[rows, :, last].log() + totals + ending
        found = options.normalise(at_end, step + 1).masked_fill((step >= longest).unsqueeze(1), float("-inf"))
        finished = finished.merge(found, history, torch.ones_like(found, dtype=torch.bool))
        largest = totals.amax(1, keepdim=True).clamp(min=NEVER)  # finite if all of a row's prefixes have ended
        mass = (totals - largest).exp().unsqueeze(2) * (standing @ emitted)  # (B,k,K)
        place = mass.flatten(1).topk(beams, 1).indices
        beam, column = place // mass.size(2), place % mass.size(2)
        spoken = emitted.gather(2, column.unsqueeze(1).expand(-1, emitted.size(1), -1)).transpose(1, 2)  # (B,k,C)
        standing = (standing[rows.unsqueeze(1), beam] * spoken) @ follow
        gained = standing.sum(2)
        standing = standing / gained.clamp(min=torch.finfo(gained.dtype).tiny).unsqueeze(2)
        totals = totals.gather(1, beam) + gained.log()
        history = torch.cat((history[rows.unsqueeze(1), beam], tried.gather(1, column).unsqueeze(2)), 2)
        bound = options.normalise(totals.amax(1), longest)
        done = (bound <= finished.scores[:, options.num_hypotheses - 1]) | bound.isinf()
        if (step + 1) % look == 0 and bool(done.all()):
            break
    return finished.hypotheses(options.num_hypotheses)
