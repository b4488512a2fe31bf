"""What each parallel decoder learns, glancing and all, against loops over its rows, positions and paths."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch
from making import parallel_kinds, strategy_of
from plain import Sentence, ctc_paths, graph_paths, total

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import END
from seq2seq_suite.strategies.parallel import glancing, mask_predict
from seq2seq_suite.strategies.parallel.bigram_loss import collapsed_disagreement, graph_disagreement
from seq2seq_suite.strategies.parallel.ctc import Ctc
from seq2seq_suite.strategies.parallel.cut_at_end import CutAtEnd
from seq2seq_suite.strategies.parallel.dag import Dag
from seq2seq_suite.strategies.parallel.glancing import random_part
from seq2seq_suite.strategies.parallel.length_head import LengthHead
from seq2seq_suite.strategies.parallel.mask_predict import MaskPredict

SHAPE = Shape(TokenShape(11), TargetShape(8))
SOURCES = [4, 2, 2, 1]


def smoothed(scores: torch.Tensor, symbol: int, share: float) -> torch.Tensor:
    return -(1.0 - share) * scores[symbol] - share * scores.mean()


class WithLength:
    """Symbols without END, each at a position of its own, and their number."""

    kind, options = LengthHead, {"label_smoothing": 0.1, "length_weight": 0.3, "length_ratio": 1.5}
    weights, targets = {"cross_entropy": 1.0, "length": 0.3}, [4, 6, 1, 3]

    def count(self, sentence):
        return max(1, len(sentence.target) - 1)

    def aligned(self, sentence, hidden):
        return dict(enumerate(sentence.target[:-1]))

    def losses(self, sentence, hidden, shown):
        scores, wanted = sentence.scores(hidden), len(sentence.target) - 1
        lengths = sentence.strategy.head.linear(sentence.states.values[0].mean(0)).log_softmax(0)
        return {
            "cross_entropy": sum(
                smoothed(scores[place], symbol, 0.1)
                for place, symbol in enumerate(sentence.target[:-1])
                if place not in shown
            ),
            "length": -lengths[sentence.strategy.head.middle + wanted - round(1.5 * sentence.length)],
        }

    def counts(self, sentence):
        return {"cross_entropy": len(sentence.target) - 1, "length": 1}


class LongCanvas:
    """Symbols, END and more ENDs behind it; of the second row the last symbols find no place."""

    kind, options = CutAtEnd, {"factor": 1.75, "extra": 1, "label_smoothing": 0.1}
    weights, targets = {"cross_entropy": 1.0, "after_end": 0.1}, [4, 7, 1, 3]

    def count(self, sentence):
        return int(1.75 * sentence.length) + 1

    def aligned(self, sentence, hidden):
        return {place: sentence.target[place] if place < len(sentence.target) else END for place in range(len(hidden))}

    def losses(self, sentence, hidden, shown):
        scores, found = sentence.scores(hidden), {"cross_entropy": 0.0, "after_end": 0.0}
        for place, symbol in self.aligned(sentence, hidden).items():
            if place not in shown:
                inside = place < len(sentence.target)
                found["cross_entropy" if inside else "after_end"] += smoothed(scores[place], symbol, 0.1 * inside)
        return found

    def counts(self, sentence):
        return dict.fromkeys(self.weights, len(sentence.target))


class Collapsed:
    """All paths that collapse to the target; the last row has two positions for three symbols."""

    kind, options = Ctc, {"factor": 1.6}
    weights, targets = {"ctc_target": 1.0}, [4, 3, 1, 4]

    def count(self, sentence):
        return math.ceil(1.6 * sentence.length)

    def written(self, sentence):
        return len(sentence.target) - 1

    def paths(self, sentence, hidden):
        """The symbols at their places, and the log-probability, of each path."""
        scores = sentence.scores(hidden)
        return [
            (dict(enumerate(path)), sum(scores[place, symbol] for place, symbol in enumerate(path)))
            for path in ctc_paths(len(scores), tuple(sentence.target[:-1]))
        ]

    def aligned(self, sentence, hidden):
        return max(self.paths(sentence, hidden), key=lambda one: float(one[1]), default=({}, 0.0))[0]

    def losses(self, sentence, hidden, shown):
        (own, too_long), found = self.counts(sentence), [score for _, score in self.paths(sentence, hidden)]
        return {own: -total(found) if found else torch.tensor(0.0), too_long: torch.tensor(float(not found))}

    def counts(self, sentence):
        return {"ctc_target": len(sentence.target) - 1, "too_long": 1}


class Graph(Collapsed):
    """All paths over as many vertices as there are symbols; the last row has two for four."""

    kind, options = Dag, {"factor": 1.6}
    weights, targets = {"paths": 1.0}, [4, 3, 2, 4]

    def paths(self, sentence, hidden):
        scores, links = sentence.scores(hidden), sentence.links(hidden)
        return [
            (
                dict(zip(path, sentence.target, strict=True)),
                sum(scores[vertex, symbol] for vertex, symbol in zip(path, sentence.target, strict=True))
                + sum(links[one][other] for one, other in pairwise(path)),
            )
            for path in graph_paths(len(scores), len(sentence.target))
        ]

    def counts(self, sentence):
        return {"paths": len(sentence.target), "too_long": 1}


KINDS = {"length_head": WithLength(), "cut_at_end": LongCanvas(), "ctc": Collapsed(), "dag": Graph()}
WITH_LOOPS_OF_ITS_OWN = {"mask_predict"}  # below


def test_every_parallel_kind_has_its_plain_loops():
    assert KINDS.keys() | WITH_LOOPS_OF_ITS_OWN == parallel_kinds().keys()


def first_part(asked: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """`random_part` without chance: the first places."""
    return torch.stack([row & (row.cumsum(0) <= count) for row, count in zip(asked, counts, strict=True)])


def assert_losses(found, expected, counts, weights):
    assert found.weights == weights and found.counts == {
        name: max(1, sum(one[name] for one in counts)) for name in counts[0]
    }
    assert set(found.sums) == set(expected[0])
    for name, value in found.sums.items():
        assert float(value) == pytest.approx(sum(float(one[name]) for one in expected), rel=1e-4, abs=1e-4), name


@torch.no_grad()
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_loss_is_its_plain_loops(make_model, make_batch, name, seed):
    kind, model = KINDS[name], make_model(SHAPE, seed=seed, noise=0.4)
    batch = make_batch(SOURCES, kind.targets, target_symbols=8, seed=seed)
    strategy = strategy_of(kind.kind, **kind.options, glancing=(1.0, 1.0)).eval()  # glancing is for training alone
    sentences = [Sentence(model, strategy, batch, row) for row in range(4)]
    expected = [kind.losses(one, one.hidden(kind.count(one)), {}) for one in sentences]
    assert_losses(strategy.loss(model, batch), expected, [kind.counts(one) for one in sentences], kind.weights)


@torch.no_grad()
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_missed_is_shown_in_part_and_the_loss_is_that_of_the_rest(
    make_model, make_batch, monkeypatch, name, seed
):
    monkeypatch.setattr(glancing, "random_part", first_part)
    kind, model = KINDS[name], make_model(SHAPE, seed=seed, noise=0.4)
    batch = make_batch(SOURCES, kind.targets, target_symbols=8, seed=seed)
    strategy = strategy_of(kind.kind, **kind.options, glancing=(0.9, 0.5)).train()
    strategy.fraction_done = 0.75  # 0.6 of what is missed
    sentences, expected, sizes = [Sentence(model, strategy, batch, row) for row in range(4)], [], []
    for one in sentences:
        hidden = one.hidden(kind.count(one))
        aligned, likeliest = kind.aligned(one, hidden), one.scores(hidden).argmax(1).tolist()
        missed = sum(likeliest[place] != symbol for place, symbol in aligned.items())
        shown = dict(sorted(aligned.items())[: round(0.6 * missed)])
        expected.append(kind.losses(one, one.hidden(kind.count(one), shown), shown))
        sizes.append((len(shown), len(aligned)))
    assert any(0 < some < most for some, most in sizes)
    assert_losses(strategy.loss(model, batch), expected, [kind.counts(one) for one in sentences], kind.weights)


@torch.no_grad()
@pytest.mark.parametrize("training", [True, False])
def test_mask_predict_learns_the_hidden_symbols_from_those_that_are_shown(
    make_model, make_batch, monkeypatch, training
):
    counts, kind = [], KINDS["length_head"]
    monkeypatch.setattr(
        mask_predict, "random_part", lambda asked, given: counts.append(given) or first_part(asked, given)
    )
    model, batch = make_model(SHAPE, noise=0.4), make_batch(SOURCES, kind.targets, target_symbols=8)
    strategy = strategy_of(MaskPredict, **kind.options).train(training)
    found = strategy.loss(model, batch)
    sentences, expected = [Sentence(model, strategy, batch, row) for row in range(4)], []
    for row, one in enumerate(sentences):
        hidden = int(counts[0][row]) if training else 0  # the first ones in training, every other one else
        shown = {
            place: symbol
            for place, symbol in enumerate(one.target[:-1])
            if (place >= hidden if training else place % 2)
        }
        expected.append(kind.losses(one, one.hidden(kind.count(one), shown), shown))
    assert_losses(found, expected, [kind.counts(one) for one in sentences], kind.weights)


def test_mask_predict_hides_from_one_symbol_to_all_equally_often(make_model, make_batch):
    model, batch = make_model(SHAPE), make_batch([4, 2], [5, 3], target_symbols=8)
    strategy, found = strategy_of(MaskPredict).train(), [Counter(), Counter()]
    torch.manual_seed(1)
    for _ in range(600):
        symbols, shown = strategy.glance(model, None, batch, None, torch.arange(4) < torch.tensor([[4], [2]]))
        for row, hidden in enumerate((~shown & (symbols >= 0)).sum(1).tolist()):
            found[row][hidden] += 1
    assert set(found[0]) == {1, 2, 3, 4} and set(found[1]) == {1, 2}
    assert all(abs(count / 600 - 1 / len(one)) < 0.08 for one in found for count in one.values())


def test_a_random_part_takes_each_place_equally_often():
    torch.manual_seed(1)
    asked = torch.tensor([[True, True, False, True, True]]).expand(4000, -1)
    shares = random_part(asked, torch.full((4000,), 3)).float().mean(0)
    assert shares[2] == 0 and all(abs(float(shares[place]) - 0.75) < 0.03 for place in (0, 1, 3, 4))


@torch.no_grad()
def test_a_target_that_exactly_fits_is_learned_and_one_that_needs_a_position_more_is_counted(make_model, make_batch):
    model, batch = make_model(SHAPE, noise=0.4), make_batch([3, 3, 3], [4, 3, 4], target_symbols=8)
    batch.target[:, :3] = torch.tensor([[4, 5, 6], [7, 7, END], [5, 5, 6]])
    strategy = strategy_of(Ctc, factor=1.0)
    loss = strategy.loss(model, batch)
    expected = 0.0
    for row, only in enumerate(([4, 5, 6], [7, 0, 7])):
        one = Sentence(model, strategy, batch, row)
        expected -= float(one.scores(one.hidden(3))[torch.arange(3), only].sum())
    assert float(loss.sums["ctc_target"]) == pytest.approx(expected, rel=1e-4) and loss.sums["too_long"] == 1.0


@torch.no_grad()
@pytest.mark.parametrize("name", ["ctc", "dag"])
def test_agreement_takes_its_share_of_the_loss_as_training_goes(make_model, make_batch, name):
    kind, model = KINDS[name], make_model(SHAPE, noise=0.4)
    batch = make_batch(SOURCES, kind.targets, target_symbols=8)
    strategy, (likelihood,) = strategy_of(kind.kind, **kind.options, agreement=(0.2, 0.6)).train(), kind.weights
    strategy.fraction_done = 0.25
    loss, without = strategy.loss(model, batch), strategy_of(kind.kind, **kind.options).loss(model, batch)
    assert loss.weights == pytest.approx({likelihood: 0.7, "bigrams": 0.3})
    assert loss.counts == {**without.counts, "bigrams": 4} and {**loss.sums, **without.sums} == loss.sums
    expected = 0.0
    for row in range(4):
        one = Sentence(model, strategy, batch, row)
        hidden = one.hidden(kind.count(one))
        target = torch.tensor([one.target if name == "dag" else one.target[:-1]], dtype=torch.int64)
        mask, size = torch.ones(1, len(hidden), dtype=torch.bool), torch.tensor([target.size(1)])
        scores = one.scores(hidden)
        if name == "dag":
            links = torch.tensor(one.links(hidden)).clamp(min=-1e30).unsqueeze(0)
            expected += graph_disagreement(scores[:, target[0]].unsqueeze(0), links, target, size, mask)
        else:
            columns = torch.cat((torch.zeros(1, dtype=torch.int64), target[0]))
            expected += collapsed_disagreement(scores[:, columns].unsqueeze(0), target, size, mask)
    assert float(loss.sums["bigrams"]) == pytest.approx(float(expected), abs=1e-4)
