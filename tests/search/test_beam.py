"""Greedy search and beam search against loops without a cache: by the decoder, with CTC, under an automaton."""

import itertools
import math
from dataclasses import dataclass, replace

import pytest
import torch
from daily import daily
from making import SHAPE, with_ctc
from plain import NEVER, UNREADABLE, alone, collapse
from torch.nn import functional

from seq2seq_suite import kernels
from seq2seq_suite.common.types import BEGIN, END, Batch, States
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.seq2seq import Memory
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.tasks.multilabel.label_automaton import LabelAutomaton


class Plain:
    """A sentence before a decoder: what may follow a prefix, and both searches over it."""

    def __init__(self, model, batch: Batch, row: int, *, weight: float = 0.0, constraint=None):
        self.model, self.weight, self.constraint, self.batch = model, weight, constraint, alone(batch, row)
        states = model.encode(self.batch)
        self.memory, self.outputs = model.prepare(states), {}
        if weight:
            scores = with_ctc().auxiliaries["ctc"].head(states)[0].tolist()
            for path in itertools.product(range(7), repeat=len(scores)):
                chance = math.exp(sum(scores[place][symbol] for place, symbol in enumerate(path)))
                self.outputs[collapse(path)] = self.outputs.get(collapse(path), 0.0) + chance

    def begins(self, prefix: tuple[int, ...]) -> float:
        """The probability that CTC gives to all outputs that begin so."""
        return sum(chance for output, chance in self.outputs.items() if output[: len(prefix)] == prefix)

    def spelled(self, prefix: tuple[int, ...], symbol: int) -> float:
        """log p of CTC that `symbol` follows; END is the end of the output."""
        share = self.outputs.get(prefix, 0.0) if symbol == END else self.begins((*prefix, symbol))
        return math.log(share / self.begins(prefix)) if share else NEVER

    def following(self, prefix: tuple[int, ...], limit: int) -> dict[int, float]:
        """The score of each symbol behind a prefix; at the limit of END alone."""
        inputs = torch.tensor([[BEGIN, *prefix]])
        hidden, _ = self.model.decode(self.model.embed(inputs, self.memory), causal(inputs.size(1)), self.memory)
        logits = self.model.output(hidden)[0, -1].index_fill(0, torch.tensor(UNREADABLE), NEVER)
        if self.constraint is not None:
            state = self.constraint.start(self.batch, torch.tensor([limit]))
            for symbol in prefix:
                state = self.constraint.advance(state, torch.tensor([symbol]))
            logits = logits.masked_fill(~self.constraint.allowed(state)[0], NEVER)
        found = {symbol: score for symbol, score in enumerate(logits.log_softmax(0).tolist()) if score > NEVER}
        if self.weight:
            found = {
                symbol: (1.0 - self.weight) * score + self.weight * self.spelled(prefix, symbol)
                for symbol, score in found.items()
            }
        return {END: found.get(END, -1e30)} if len(prefix) == limit - 1 else found

    def greedy(self, limit: int, alpha: float = 0.0) -> tuple[tuple[int, ...], float]:
        """The likeliest symbol each time."""
        prefix, total = (), 0.0
        while END not in prefix:
            found = self.following(prefix, limit)
            prefix, total = (*prefix, max(found, key=found.get)), total + max(found.values())
        return prefix[:-1], total / ((5 + len(prefix)) / 6) ** alpha

    def beam(self, limit: int, beams: int, alpha: float) -> list[tuple[tuple[int, ...], float]]:
        """All steps, without stopping early."""
        going, finished = [((), 0.0)], []
        for step in range(1, limit + 1):
            candidates = [
                ((*prefix, symbol), total + score)
                for prefix, total in going
                for symbol, score in self.following(prefix, limit).items()
                if score > NEVER
            ]
            best = sorted(candidates, key=lambda one: -one[1])[: 2 * beams]
            finished += [
                (prefix[:-1], total / ((5 + step) / 6) ** alpha) for prefix, total in best if prefix[-1] == END
            ]
            going = [one for one in best if one[0][-1] != END][:beams]
        return sorted(finished, key=lambda one: -one[1])[:beams]


@dataclass(frozen=True)
class Counted:
    """Stands for what a search keeps of each row."""

    rows: torch.Tensor

    def select(self, rows):
        return Counted(self.rows[rows])


class Chain:
    """Stands for a model: symbols that depend on the one before alone, as a table of logits (V,V) says."""

    reads = ()

    def __init__(self, table: torch.Tensor):
        self.table = table

    def encode(self, batch):
        return States(batch.source.unsqueeze(2), batch.source_mask)

    def prepare(self, states):
        return Memory(None, states)

    def new_cache(self, memory):
        return Counted(memory.states.mask)

    def target_length(self, cache, memory):
        return 0

    def embed(self, symbols, memory, **_):
        return functional.one_hot(symbols, len(self.table)).float()

    def decode(self, x, visible, memory, cache):
        return x, cache

    def logits(self, hidden, memory):
        return hidden @ self.table


class PlainChain(Plain):
    """A table before both searches."""

    def __init__(self, table: torch.Tensor):
        logits = table.index_fill(1, torch.tensor(UNREADABLE), NEVER).log_softmax(1)
        self.likely = [{symbol: score for symbol, score in enumerate(row) if score > NEVER} for row in logits.tolist()]

    def following(self, prefix: tuple[int, ...], limit: int) -> dict[int, float]:
        found = self.likely[prefix[-1] if prefix else BEGIN]
        return {END: found[END]} if len(prefix) == limit - 1 else found


@pytest.fixture(params=daily(kernels.KINDS, "fast"))
def generate(request):
    searching = with_ctc(kernel=request.param)

    def search(model, batch: Batch, limit: list[int], constraint=None, **options):
        return searching.generate(
            model, batch, options=SearchOptions(**options), limit=torch.tensor(limit), constraint=constraint
        )

    return search


def assert_found(found, expected, limit):
    """Outputs and scores of a row, best first."""
    assert [(one.symbols, one.complete) for one in found] == [
        (symbols, len(symbols) < limit - 1) for symbols, _ in expected
    ]
    assert [one.score for one in found] == pytest.approx([score for _, score in expected], rel=1e-3, abs=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("beam_size", [2, 3])
@pytest.mark.parametrize("num_hypotheses", daily([1, 2], 2))
def test_beam_search_is_its_plain_loops(generate, make_model, make_batch, beam_size, num_hypotheses, alpha):
    for seed in (1, 2):
        model, batch, limits = make_model(seed=seed), make_batch([5, 3], [2, 2], seed=seed), [9, 5]
        with torch.no_grad():
            model.output.bias[END] += 1.0  # outputs of many lengths among the best
        found = generate(model, batch, limits, beam_size=beam_size, num_hypotheses=num_hypotheses, length_penalty=alpha)
        for row, limit in enumerate(limits):
            assert_found(found[row], Plain(model, batch, row).beam(limit, beam_size, alpha)[:num_hypotheses], limit)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("seed", daily(range(10), 0, 1, 2, 3))
def test_search_over_a_random_table_is_its_plain_loops(generate, make_batch, seed, alpha):
    batch, limits = make_batch([5, 3, 4], [2, 2, 2]), [16, 2, 7]
    torch.manual_seed(seed)
    table = 3.0 * torch.randn(8, 8)
    plain = PlainChain(table)
    for beam_size, num_hypotheses in ((1, 1), (2, 1), (3, 2), (4, 4)):
        found = generate(
            Chain(table), batch, limits, beam_size=beam_size, num_hypotheses=num_hypotheses, length_penalty=alpha
        )
        for row, limit in enumerate(limits):
            expected = [plain.greedy(limit, alpha)] if beam_size == 1 else plain.beam(limit, beam_size, alpha)
            assert_found(found[row], expected[:num_hypotheses], limit)


def test_a_longer_output_overtakes_where_the_length_penalty_lets_it(generate, make_batch):
    table = torch.full((6, 6), -99.0)
    table[BEGIN, END], table[BEGIN, 4] = math.log(0.6), math.log(0.4)
    table[4, 4], table[4, END] = math.log(0.99), math.log(0.01)
    for alpha, longest in ((0.0, 0), (2.0, 39)):
        ((best,),) = generate(Chain(table), make_batch([3], [2]), [40], beam_size=2, length_penalty=alpha)
        assert len(best.symbols) == longest


@torch.inference_mode()
@pytest.mark.parametrize("weight", [0.4, 0.9])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_search_with_ctc_is_its_plain_loops(generate, make_model, make_batch, weight, seed):
    model, batch, limits = make_model(SHAPE, seed=seed, noise=0.4), make_batch([4, 3], [2, 2], seed=seed), [6, 3]
    one_best = generate(model, batch, limits, ctc_weight=weight, length_penalty=0.0)
    beams = generate(model, batch, limits, ctc_weight=weight, length_penalty=1.0, beam_size=3, num_hypotheses=3)
    for row, limit in enumerate(limits):
        plain = Plain(model, batch, row, weight=weight)
        assert_found(one_best[row], [plain.greedy(limit)], limit)
        assert_found(beams[row], plain.beam(limit, 3, 1.0), limit)


@torch.inference_mode()
@pytest.mark.parametrize("beam_size", [1, 3])
def test_ctc_alone_spells_without_the_decoder(generate, make_model, make_batch, beam_size):
    model, batch = make_model(SHAPE, noise=0.4), make_batch([4, 3], [2, 2])
    found = generate(model, batch, [6, 6], ctc_weight=1.0, beam_size=beam_size, length_penalty=0.0)
    for row, (best,) in enumerate(found):
        scores = with_ctc().auxiliaries["ctc"].head(model.encode(alone(batch, row)))[0]
        if beam_size == 1:
            assert best.symbols == collapse(tuple(scores.argmax(1).tolist()))
            assert best.score == pytest.approx(float(scores.max(1).values.sum()), rel=1e-4)
        else:
            plain = Plain(model, batch, row, weight=1.0)
            assert_found([best], plain.beam(6, beam_size, 0.0)[:1], 6)


@torch.inference_mode()
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_search_under_an_automaton_shares_probability_among_what_it_allows(generate, make_model, make_batch, seed):
    model, batch, limits = make_model(seed=seed), make_batch([5, 3], [2, 2], seed=seed), [7, 3]
    rules = LabelAutomaton(9)
    one_best = generate(model, batch, limits, rules, length_penalty=0.0)
    beams = generate(model, batch, limits, rules, beam_size=3, num_hypotheses=3, length_penalty=1.0)
    for row, limit in enumerate(limits):
        plain = Plain(model, batch, row, constraint=rules)
        assert_found(one_best[row], [plain.greedy(limit)], limit)
        assert_found(beams[row], plain.beam(limit, 3, 1.0), limit)


@torch.inference_mode()
@pytest.mark.parametrize("beam_size", [1, 3])
def test_what_is_given_of_the_target_is_where_search_begins(generate, make_model, make_batch, beam_size):
    model, batch = make_model(), make_batch([5, 3], [4, 4])
    given = torch.tensor([[True, True, False, False]]).expand(2, -1)
    found = generate(model, replace(batch, given=given), [5, 4], beam_size=beam_size, length_penalty=0.0)
    for row, limit in enumerate((5, 4)):
        plain, beginning = Plain(model, batch, row), tuple(batch.target[row, :2].tolist())
        following = plain.following
        plain.following = lambda prefix, limit: following((*beginning, *prefix), limit + 2)  # noqa: B023
        expected = [plain.greedy(limit)] if beam_size == 1 else plain.beam(limit, beam_size, 0.0)[:1]
        assert_found(found[row], expected, limit)


class Endless(LabelAutomaton):
    """An automaton that would always have one more symbol, as where a tree is still open at the limit."""

    def start(self, batch, limit):
        return Counted(limit)

    def allowed(self, state):
        return (torch.arange(self.num_symbols) > END).expand(len(state.rows), -1)

    def advance(self, state, symbols):
        return state


@pytest.mark.parametrize("options", [{}, {"sampling": True}, {"beam_size": 3, "num_hypotheses": 3}])
def test_the_limit_ends_an_output_that_its_automaton_would_not(generate, make_model, make_batch, options):
    found = generate(make_model(), make_batch([5, 3], [2, 2]), [4, 2], Endless(9), **options)
    for row, limit in zip(found, (4, 2), strict=True):
        assert len(row) == options.get("num_hypotheses", 1)
        for one in row:
            assert len(one.symbols) == limit - 1 and min(one.symbols) > END and not one.complete
            assert math.isfinite(one.score)
