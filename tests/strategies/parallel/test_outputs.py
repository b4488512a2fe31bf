"""What each parallel decoder writes, against loops over its rows, lengths, passes and paths."""

import itertools
import math
from collections import defaultdict

import pytest
import torch
from making import strategy_of
from plain import UNREADABLE, Sentence, collapse, graph_paths

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import END
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.parallel.constrained import argmax_until_end, constrained_argmax
from seq2seq_suite.strategies.parallel.ctc import Ctc
from seq2seq_suite.strategies.parallel.cut_at_end import CutAtEnd
from seq2seq_suite.strategies.parallel.dag import Dag, dag_beam
from seq2seq_suite.strategies.parallel.length_head import LengthHead
from seq2seq_suite.strategies.parallel.mask_predict import MaskPredict
from seq2seq_suite.tasks.multilabel.label_automaton import LabelAutomaton

SHAPE = Shape(TokenShape(11), TargetShape(7))
LETTERS, ANY_LIMIT, NARROW = (4, 5, 6), [20, 20, 20], [4, 3, 2]


def written(strategy, model, batch, limit, **options):
    return strategy.generate(model, batch, options=SearchOptions().changed(**options), limit=torch.tensor(limit))


def assert_outputs(found, expected):
    """Outputs (symbols, score, complete) of a row, best first."""
    assert [(one.symbols, one.complete) for one in found] == [(symbols, whole) for symbols, _, whole in expected]
    assert [one.score for one in found] == pytest.approx([float(score) for _, score, _ in expected], rel=1e-3, abs=1e-3)


def up_to_end(symbols):
    return tuple(itertools.takewhile(lambda symbol: symbol != END, symbols))


def likeliest_lengths(sentence, count, limit):
    scores = sentence.strategy.head.linear(sentence.states.values[0].mean(0)).log_softmax(0).tolist()
    middle = sentence.strategy.head.middle
    lengths = [number - middle + round(1.5 * sentence.length) for number in range(2 * middle)]
    ranked = sorted((one for one in range(2 * middle) if lengths[one] >= 1), key=lambda one: -scores[one])
    return [min(lengths[one], limit - 1) for one in ranked[:count]]


def short(kind, seed):
    """A strategy that expects the lengths 1 to 6, each with a probability of its own."""
    strategy = strategy_of(kind, length_ratio=1.5, noise=0.5, seed=seed)
    with torch.no_grad():
        strategy.head.linear.bias -= 20.0
        strategy.head.linear.bias[strategy.head.middle - 5 : strategy.head.middle + 3] += 20.0
    return strategy


@torch.no_grad()
@pytest.mark.parametrize("limit", [ANY_LIMIT, NARROW])
@pytest.mark.parametrize(("beam_size", "num_hypotheses"), [(1, 1), (4, 1), (4, 3), (1, 3)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_several_lengths_the_one_of_highest_mean_wins(
    make_model, make_batch, limit, beam_size, num_hypotheses, seed
):
    model, batch = make_model(SHAPE, noise=0.5, seed=seed), make_batch([4, 3, 2], [2, 2, 2], seed=seed)
    strategy = short(LengthHead, seed)
    found = written(strategy, model, batch, limit, beam_size=beam_size, num_hypotheses=num_hypotheses)
    for row, most in enumerate(limit):
        one, candidates = Sentence(model, strategy, batch, row), []
        for length in likeliest_lengths(one, max(beam_size, num_hypotheses), most):
            gained, symbols = one.scores(one.hidden(length), never=(*UNREADABLE, END)).max(1)
            candidates.append((tuple(symbols.tolist()), sum(gained.tolist()) / length, True))
        assert_outputs(found[row], sorted(candidates, key=lambda one: -one[1])[:num_hypotheses])


@torch.no_grad()
@pytest.mark.parametrize("iterations", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_least_likely_is_written_again_in_each_pass(make_model, make_batch, iterations, seed):
    model, batch = make_model(SHAPE, noise=0.5, seed=seed), make_batch([4, 3, 2], [2, 2, 2], seed=seed)
    strategy = short(MaskPredict, seed)
    found = written(strategy, model, batch, ANY_LIMIT, beam_size=3, num_hypotheses=3, iterations=iterations)
    for row, most in enumerate(ANY_LIMIT):
        one, candidates = Sentence(model, strategy, batch, row), []
        for length in likeliest_lengths(one, 3, most):
            kept, symbols, gained = {}, [0] * length, [0.0] * length
            for step in range(1, iterations + 1):
                scores = one.scores(one.hidden(length, kept), never=(*UNREADABLE, END))
                for place in range(length):
                    if place not in kept:
                        symbols[place], gained[place] = int(scores[place].argmax()), float(scores[place].max())
                again = length * (iterations - step) // iterations
                least = sorted(range(length), key=gained.__getitem__)[:again]
                kept = {place: symbols[place] for place in range(length) if place not in least}
            candidates.append((tuple(symbols), sum(gained) / length, True))
        assert_outputs(found[row], sorted(candidates, key=lambda one: -one[1]))


@torch.no_grad()
@pytest.mark.parametrize("limit", [ANY_LIMIT, NARROW])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_long_canvas_is_read_up_to_its_first_end(make_model, make_batch, limit, seed):
    model, batch = make_model(SHAPE, seed=seed, noise=0.5), make_batch([4, 3, 2], [2, 2, 2], seed=seed)
    strategy = strategy_of(CutAtEnd, factor=1.75, extra=1)
    found = written(strategy, model, batch, limit)
    for row, most in enumerate(limit):
        one = Sentence(model, strategy, batch, row)
        scores = one.scores(one.hidden(min(int(1.75 * one.length) + 1, most)), never=UNREADABLE)
        symbols = up_to_end(scores.argmax(1).tolist())
        score = sum(float(scores[place].max()) for place in range(min(len(symbols) + 1, len(scores))))
        assert_outputs(found[row], [(symbols[: most - 1], score, len(symbols) < len(scores))])


@torch.no_grad()
@pytest.mark.parametrize("limit", [ANY_LIMIT, NARROW])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_best_path_is_collapsed(make_model, make_batch, limit, seed):
    model, batch = make_model(SHAPE, seed=seed, noise=0.5), make_batch([4, 3, 2], [2, 2, 2], seed=seed)
    strategy = strategy_of(Ctc, factor=1.6)
    found = written(strategy, model, batch, limit)
    for row, most in enumerate(limit):
        one = Sentence(model, strategy, batch, row)
        gained, path = one.scores(one.hidden(math.ceil(1.6 * one.length)), never=(1, END, 3)).max(1)
        symbols = collapse(tuple(path.tolist()))
        assert_outputs(found[row], [(symbols[: most - 1], sum(gained.tolist()), len(symbols) < most)])


def ranked(totals, most, length_penalty, count):
    """The likeliest outputs, from the probability of each."""
    scored = [
        (symbols[: most - 1], math.log(share) / ((6 + len(symbols)) / 6) ** length_penalty, len(symbols) < most)
        for symbols, share in totals.items()
    ]
    return sorted(scored, key=lambda one: -one[1])[:count]


@torch.no_grad()
@pytest.mark.parametrize("length_penalty", [0.0, 1.5])
@pytest.mark.parametrize("limit", [ANY_LIMIT, NARROW])
def test_a_wide_beam_over_positions_finds_what_most_paths_say(make_model, make_batch, limit, length_penalty):
    model, batch = make_model(SHAPE, noise=0.5), make_batch([4, 3, 2], [2, 2, 2])
    strategy = strategy_of(Ctc, factor=1.2)
    found = written(strategy, model, batch, limit, beam_size=400, num_hypotheses=4, length_penalty=length_penalty)
    for row, most in enumerate(limit):
        one, totals = Sentence(model, strategy, batch, row), defaultdict(float)
        scores = one.scores(one.hidden(math.ceil(1.2 * one.length)), never=(1, END, 3)).tolist()
        for path in itertools.product((0, *LETTERS), repeat=len(scores)):
            totals[collapse(path)] += math.exp(sum(scores[place][symbol] for place, symbol in enumerate(path)))
        assert_outputs(found[row], ranked(totals, most, length_penalty, 4))


@torch.no_grad()
@pytest.mark.parametrize("length_penalty", [0.0, 1.5])
@pytest.mark.parametrize("limit", [ANY_LIMIT, NARROW])
def test_a_wide_beam_over_a_graph_finds_what_most_paths_say(make_model, make_batch, limit, length_penalty):
    model, batch = make_model(SHAPE, noise=0.5), make_batch([4, 3, 2], [2, 2, 2])
    strategy = strategy_of(Dag, factor=1.2)
    found = written(strategy, model, batch, limit, beam_size=400, num_hypotheses=4, length_penalty=length_penalty)
    for row, most in enumerate(limit):
        one, totals = Sentence(model, strategy, batch, row), defaultdict(float)
        hidden = one.hidden(math.ceil(1.2 * one.length))
        scores, links, last = one.scores(hidden, never=UNREADABLE).tolist(), one.links(hidden), len(hidden) - 1
        for length in range(2, min(len(hidden), most) + 1):  # END included, which the last vertex writes and no other
            for path in graph_paths(len(hidden), length):
                through = sum(float(links[here][there]) for here, there in itertools.pairwise(path)) + scores[last][END]
                for symbols in itertools.product(LETTERS, repeat=length - 1):
                    totals[symbols] += math.exp(
                        through + sum(scores[vertex][symbol] for vertex, symbol in zip(path, symbols, strict=False))
                    )
        assert_outputs(found[row], ranked(totals, most, length_penalty, 4))


@torch.no_grad()
@pytest.mark.parametrize("limit", [ANY_LIMIT, NARROW])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_walk_takes_the_likeliest_step_each_time(make_model, make_batch, limit, seed):
    model, batch = make_model(SHAPE, seed=seed, noise=0.5), make_batch([4, 3, 2], [2, 2, 2], seed=seed)
    strategy = strategy_of(Dag, factor=2.0)
    found = written(strategy, model, batch, limit)
    for row, most in enumerate(limit):
        one = Sentence(model, strategy, batch, row)
        hidden = one.hidden(2 * one.length)
        gained, symbols = one.scores(hidden, never=UNREADABLE).max(1)
        links, path, score = one.links(hidden), [0], float(gained[0])
        while path[-1] < len(hidden) - 1:
            here = path[-1]
            weighed = {there: float(links[here][there] + gained[there]) for there in range(here + 1, len(hidden))}
            path.append(max(weighed, key=weighed.get))
            score += float(links[here][path[-1]] + gained[path[-1]])
        output = up_to_end(int(symbols[vertex]) for vertex in path)
        assert_outputs(found[row], [(output[: most - 1], score, len(output) < most)])


@torch.no_grad()
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        (strategy_of(Ctc, factor=2.0), {}),
        (strategy_of(Ctc, factor=2.0), {"beam_size": 3}),
        (strategy_of(Dag, factor=2.0), {}),
    ],
)
def test_an_output_that_just_fits_is_complete_and_one_symbol_more_is_cut_off(make_model, make_batch, strategy, options):
    model, batch = make_model(SHAPE, noise=0.5), make_batch([4, 3, 4], [2, 2, 2])
    model.output.bias[0] -= 2.0  # few blanks
    whole = [best.symbols for (best,) in written(strategy, model, batch, ANY_LIMIT, **options)]
    assert all(whole)
    just = written(strategy, model, batch, [len(symbols) + 1 for symbols in whole], **options)
    assert [(best.symbols, best.complete) for (best,) in just] == [(symbols, True) for symbols in whole]
    cut = written(strategy, model, batch, [len(symbols) for symbols in whole], **options)
    assert [(best.symbols, best.complete) for (best,) in cut] == [(symbols[:-1], False) for symbols in whole]


def plain_graph_beam(emissions, links, last, limit, beams, alpha):
    """The same beam in loops and without stopping early: prefix -> vertex -> probability to stand there behind it."""
    symbols = [symbol for symbol in range(emissions.size(1)) if symbol != END]
    tried = {
        symbol
        for scores in emissions[:last].tolist()
        for symbol in sorted(symbols, key=lambda one: -scores[one])[: 2 * beams]
    }
    going, finished = {(): {0: 1.0}}, []
    for step in range(1, limit + 1):
        for prefix, standing in going.items():
            if standing.get(last, 0.0) > 0.0:
                total = math.log(standing[last]) + float(emissions[last, END])
                finished.append((prefix, total / ((5 + step) / 6) ** alpha, True))
        spoken = {}
        for prefix, standing in going.items():
            for symbol in tried:
                here = {
                    vertex: chance * math.exp(emissions[vertex, symbol])
                    for vertex, chance in standing.items()
                    if vertex < last
                }
                if sum(here.values()) > 0.0:
                    spoken[(*prefix, symbol)] = here
        kept = sorted(spoken, key=lambda prefix: -sum(spoken[prefix].values()))[:beams]
        going = {
            prefix: {
                there: sum(
                    chance * math.exp(links[vertex, there])
                    for vertex, chance in spoken[prefix].items()
                    if vertex < there
                )
                for there in range(1, last + 1)
            }
            for prefix in kept
        }
    return sorted(finished, key=lambda one: -one[1])


@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(8))
def test_a_narrow_beam_over_a_graph_is_its_plain_loops(seed, alpha):
    torch.manual_seed(seed)
    emissions = ((2.0 if seed % 2 else 0.5) * torch.randn(3, 7, 20)).log_softmax(-1)
    backward = ~torch.ones(7, 7).triu(1).bool()
    vertices, limit = torch.tensor([7, 4, 6]), torch.tensor([20, 20, 4])
    unlinked = backward | (torch.arange(7) >= vertices.view(3, 1, 1))
    links = (2.0 * torch.randn(3, 7, 7)).masked_fill(unlinked, -1e30).log_softmax(-1).masked_fill(unlinked, -1e30)
    for beams, count in ((2, 1), (2, 2), (3, 1)):
        options = SearchOptions(beam_size=beams, num_hypotheses=count, length_penalty=alpha)
        found = dag_beam(emissions, links, vertices, limit, options=options)
        for row, last in enumerate((vertices - 1).tolist()):
            expected = plain_graph_beam(emissions[row], links[row], last, int(limit[row]), beams, alpha)
            assert_outputs(found[row], expected[:count])


def test_a_beam_finds_what_is_third_everywhere_and_first_in_sum():
    emissions, links = torch.full((1, 4, 60), -99.0), torch.full((1, 4, 4), -1e30)
    for vertex, written in enumerate(({4: 1.0}, {5: 0.4, 6: 0.3, 33: 0.29}, {7: 0.4, 8: 0.3, 33: 0.29}, {END: 1.0})):
        for symbol, chance in written.items():
            emissions[0, vertex, symbol] = math.log(chance)
    links[0, 0, 1] = links[0, 0, 2] = math.log(0.5)
    links[0, 1, 3] = links[0, 2, 3] = 0.0
    ((best, _),) = dag_beam(
        emissions,
        links,
        torch.tensor([4]),
        torch.tensor([9]),
        options=SearchOptions(beam_size=2, num_hypotheses=2, length_penalty=0.0),
    )
    assert best.symbols == (4, 33) and best.score == pytest.approx(math.log(0.29))


def random_scores(seed, *shape):
    torch.manual_seed(seed)
    return (2.0 * torch.randn(*shape)).log_softmax(-1)


@pytest.mark.parametrize("seed", range(5))
def test_an_end_behind_a_rows_positions_ends_nothing(seed):
    scores, lengths = random_scores(seed, 6, 5, 6), [5, 4, 3, 2, 1, 5]
    scores[0, 2, END], scores[1:, 4, END] = 1.0, 1.0  # likeliest there
    scores[1, :4, END] = scores[2, :3, END] = -99.0
    for row, (symbols, score, ended) in enumerate(argmax_until_end(scores, torch.tensor(lengths))):
        likeliest = scores[row, : lengths[row]].argmax(1).tolist()
        assert symbols == up_to_end(likeliest) and ended == (END in likeliest)
        assert score == pytest.approx(sum(float(scores[row, place].max()) for place in range(len(symbols) + ended)))


@pytest.mark.parametrize("seed", range(5))
def test_an_automaton_walks_over_scores_that_are_there_and_wants_the_end_behind_them(seed):
    scores, lengths, limits = random_scores(seed, 4, 5, 8), [5, 3, 1, 2], [9, 9, 4, 2]
    scores[..., END] -= 3.0
    rules, checked = LabelAutomaton(8), 0
    found = constrained_argmax(rules, None, scores, torch.tensor(lengths), torch.tensor(limits))
    for row, (symbols, score, ended) in enumerate(found):
        written, total = [], 0.0
        while len(written) < limits[row] and END not in written:
            allowed = [symbol for symbol in range(4, 8) if symbol not in written] + [END] * bool(written)
            if len(written) < lengths[row]:
                likely = {symbol: float(scores[row, len(written), symbol]) for symbol in allowed}
            else:
                likely, checked = {symbol: 0.0 if symbol == END else -1e4 for symbol in allowed}, checked + 1
            written.append(max(likely, key=likely.get))
            total += likely[written[-1]]
        assert (symbols, ended) == (up_to_end(written), END in written)
        assert score == pytest.approx(total, abs=1e-4)
    assert checked


class Exact:
    """An exact constraint whose outputs are two symbols of the fewest that stand there."""

    def lengths(self, batch):
        return torch.tensor([2, 4])

    def best(self, scores, batch):
        assert scores.size(1) == 4 and not scores[:, 3].any()  # behind the positions all symbols are alike
        return torch.tensor([[5, 4, END, END], [4, 4, 5, 5]])


def test_an_exact_automaton_chooses_the_output_and_its_ends_cost_nothing():
    scores = random_scores(1, 2, 3, 6)
    one, two = constrained_argmax(Exact(), None, scores, torch.tensor([3, 3]), torch.tensor([9, 9]))
    assert one[0] == (5, 4) and one[1] == pytest.approx(float(scores[0, 0, 5] + scores[0, 1, 4])) and one[2]
    assert two[0] == (4, 4, 5, 5) and two[2]
    assert two[1] == pytest.approx(float(scores[1, 0, 4] + scores[1, 1, 4] + scores[1, 2, 5]))


@pytest.mark.parametrize(
    "strategy", [strategy_of(LengthHead), strategy_of(MaskPredict), strategy_of(CutAtEnd, factor=2.0, extra=1)]
)
def test_an_automaton_that_the_search_does_not_want_is_left_out(make_model, make_batch, strategy):
    batch, apart = make_batch([4, 3, 2], [2, 2, 2]), 0
    for seed in range(5):
        model = make_model(SHAPE, seed=seed, noise=1.0)
        with_rules, without, free = (
            strategy.generate(
                model, batch, options=SearchOptions(constraint=wanted), limit=torch.tensor(ANY_LIMIT), constraint=rules
            )
            for wanted, rules in ((True, LabelAutomaton(7)), (False, LabelAutomaton(7)), (True, None))
        )
        assert without == free
        apart += with_rules != free
    assert apart


@pytest.mark.parametrize(
    "strategy",
    [
        strategy_of(LengthHead),
        strategy_of(MaskPredict),
        strategy_of(CutAtEnd, factor=2.0, extra=1),
        strategy_of(Ctc, factor=2.0),
        strategy_of(Dag, factor=2.0),
    ],
)
def test_a_limit_of_one_leaves_room_for_the_end_alone(make_model, make_batch, strategy):
    for (found,) in written(strategy, make_model(SHAPE, noise=0.5), make_batch([4, 3, 2], [2, 2, 2]), [1, 1, 1]):
        assert found.symbols == () and math.isfinite(found.score)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_sentence_of_one_position_has_two_vertices(make_model, make_batch, seed):
    model, batch = make_model(SHAPE, seed=seed), make_batch([1, 3], [2, 2], seed=seed)
    states = model.encode(batch)
    assert strategy_of(Dag, factor=0.5).decoder_length(states, batch).tolist() == [2, 2]
    assert strategy_of(Ctc, factor=0.5).decoder_length(states, batch).tolist() == [1, 2]
    assert strategy_of(CutAtEnd, factor=0.5, extra=3).decoder_length(states, batch).tolist() == [3, 4]
