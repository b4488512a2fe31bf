"""Two passes over a batch: their mean, and the divergence of what they predict, for every strategy of the table."""

import math
from dataclasses import replace

import pytest
import torch
from making import ROOM, strategy_of
from plain import alone
from torch.nn import functional

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import BoxShape, SetShape, Shape, SoundShape, TargetShape, TokenShape
from seq2seq_suite.common.types import END, SPECIALS
from seq2seq_suite.config.config_file import load
from seq2seq_suite.strategies import KINDS, classes_of
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.blocks import Blocks
from seq2seq_suite.strategies.consistency import consistent, divergence, term_of
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.strategies.parallel.ctc import Ctc
from seq2seq_suite.strategies.parallel.length_head import LengthHead

BINS, CLASSES = 12, 3
OBJECTS = BoxShape(
    len(SPECIALS) + BINS + CLASSES + 1,
    bins=BINS,
    labels=CLASSES,
    instances=2,
    extent=(10.0, 12.0),
    patch=2.0,
    rows=4,
    smoothing=0.8,
    noise_weight=0.3,
)
TARGETS = {"labels": SetShape(9, head="pooled", head_weight=0.5), "objects": OBJECTS}
OWN = {**ROOM, "slots": {"grid": (2, 3)}, "blocks": {"block": 3}}
EVERY = {f"{kind}-{one.__name__}": (kind, one) for kind in KINDS for one in classes_of(kind)}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(params=EVERY)
def case(request, make_model, make_batch):
    """A strategy of the table: a factory of learners, and a batch of what it writes."""
    kind, one = EVERY[request.param]
    writes = one.writes[0]
    target = TARGETS.get(writes, TargetShape(9))
    encoder = {"encoder": "none"} if writes == "continuations" else {}

    def make(*, seed=1, dropout=0.0, **options):
        model = make_model(Shape(TokenShape(11), target), seed=seed, dropout=dropout, **encoder)
        strategy = strategy_of(one, target=target, **{**OWN.get(kind, {}), **options})
        return Learner(model, strategy).train(dropout > 0.0)

    batch = make_batch([24, 24], [11, 11]) if writes == "objects" else make_batch([5, 3, 6], [4, 6, 2])
    if writes == "objects":
        first, group = len(SPECIALS), [[1, 2, 5, 11, BINS], [0, 0, 3, 4, BINS + 2], [2, 6, 4, 7, BINS + 3]]
        objects = [[first + place for number in pair for place in group[number]] + [END] for pair in ((0, 1), (1, 2))]
        given = torch.zeros_like(batch.given)
        given[1, 5:9] = True
        batch = replace(batch, target=torch.tensor(objects), given=given)
    return make, batch


def seeded(passes, seed=3):
    torch.manual_seed(seed)
    return passes()


def derivatives(learner, loss):
    learner.zero_grad()
    sum(weight * loss.sums[name] / max(1, int(loss.counts[name])) for name, weight in loss.weights.items()).backward()
    return {name: one.grad for name, one in learner.named_parameters() if one.grad is not None}


def test_weight_0_is_the_loss_of_one_pass_to_the_last_bit(case):
    make, batch = case
    learner = make(dropout=0.2)
    plain = seeded(lambda: learner.strategy.loss(learner.model, batch))
    found = seeded(lambda: learner(batch))
    assert (found.sums, found.counts, found.weights) == (plain.sums, plain.counts, plain.weights) and not found.judged
    assert learner.counts(batch).keys() == found.counts.keys()


def test_equal_passes_do_not_diverge_and_have_the_loss_of_one(case):
    make, batch = case
    learner = make(consistency=0.7)
    # what is drawn without dropout and masks, as blocks are, is the same in both
    first, second = (seeded(lambda: learner.strategy.loss(learner.model, batch)) for _ in range(2))
    found = consistent(learner.strategy, first, second)
    terms = {term_of(one.loss): one.loss for one in first.judged}
    assert terms and found.sums.keys() == {*first.sums, *terms}
    for name, value in found.sums.items():
        assert value == (0.0 if name in terms else first.sums[name])
    assert found.weights == first.weights | {
        name: pytest.approx(0.7 * first.weights[loss]) for name, loss in terms.items()
    }


def test_the_loss_of_two_passes_and_its_gradient_are_those_of_pytorchs_divergence(case):
    make, batch = case
    learner = make(dropout=0.2, consistency=0.7)
    found = seeded(lambda: learner(batch))
    counts = learner.counts(batch)
    assert all(counts[name] == count for name, count in found.counts.items()) and found.sums.keys() <= counts.keys()
    gradients = derivatives(learner, found)
    first, second = seeded(lambda: [learner.strategy.loss(learner.model, batch) for _ in range(2)])
    assert not torch.equal(first.sums[first.judged[0].loss], second.sums[first.judged[0].loss])
    total = sum(
        first.weights[name] * (first.sums[name] + second.sums[name]) / 2 / max(1, int(first.counts[name]))
        for name in first.weights
    )
    detached, compared = isinstance(learner.strategy, Ctc), dict.fromkeys(found.sums, 0.0)
    for one, other in zip(first.judged, second.judged, strict=True):
        both = (one.counted & other.counted).flatten()
        p, q = (part.logits().flatten(0, -2)[both].softmax(-1).clamp(min=1e-30) for part in (one, other))
        targets = [part.detach() if detached else part for part in (p, q)]
        forth, back = (
            functional.kl_div(given.log(), target, reduction="sum")
            for given, target in ((q, targets[0]), (p, targets[1]))
        )
        compared[term_of(one.loss)] += (forth + back) / 2
        weight = 0.7 * first.weights[one.loss] / max(1, int(first.counts[one.loss]))
        total = total + weight * (forth + back) / 2
    for one in first.judged:
        torch.testing.assert_close(found.sums[term_of(one.loss)], compared[term_of(one.loss)], **CLOSE)
        assert found.sums[term_of(one.loss)] > 0.0
    learner.zero_grad()
    total.backward()
    expected = {name: one.grad for name, one in learner.named_parameters() if one.grad is not None}
    torch.testing.assert_close(gradients, expected, **CLOSE)


def test_padding_does_not_count(case):
    make, batch = case
    learners = [make(seed=seed, consistency=1.0, noise=0.3) for seed in (1, 2)]
    if isinstance(learners[0].strategy, Blocks):  # of which each row draws what is hidden
        learners = [make(seed=seed, consistency=1.0, block=1) for seed in (1, 2)]

    def compared(rows):
        return consistent(learners[0].strategy, *(one.strategy.loss(one.model, rows) for one in learners)).sums

    whole, parts = compared(batch), [compared(alone(batch, row)) for row in range(len(batch.target))]
    for name in whole:
        torch.testing.assert_close(whole[name], torch.stack([part[name] for part in parts]).sum(), **CLOSE)


@pytest.mark.parametrize("fixed", [False, True])
def test_the_divergence_is_symmetric_and_that_of_the_definition(fixed):
    torch.manual_seed(1)
    one, other = torch.randn(4, 7), torch.randn(4, 7)
    found = divergence(one, other, fixed=fixed)
    torch.testing.assert_close(found, divergence(other, one, fixed=fixed))
    for row, value in enumerate(found.tolist()):
        p, q = (part[row].softmax(0).tolist() for part in (one, other))
        forth = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
        back = sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))
        assert value == pytest.approx((forth + back) / 2, rel=1e-5)


def test_without_gradients_there_is_one_pass(make_model, make_batch):
    """As on the validation split."""
    learner = Learner(make_model(dropout=0.2), strategy_of(Assisted, consistency=1.0)).train()
    batch = make_batch([5], [4])
    with torch.no_grad():
        assert seeded(lambda: learner(batch)).sums == seeded(lambda: learner.strategy.loss(learner.model, batch)).sums


@pytest.mark.parametrize("kind", [Assisted, Ctc])
def test_sound_is_masked_otherwise_in_each_pass(make_model, make_batch, kind):
    sound = SoundShape(mean=(0.0,) * 8, deviation=(1.0,) * 8, subsampling=2, masking=(1, 4, 2, 0.3))
    learner = Learner(make_model(Shape(sound, TargetShape(9))), strategy_of(kind, consistency=1.0)).train()
    batch = make_batch([12, 16], [3, 4])
    batch = replace(batch, source=torch.randn(2, 16, 8))
    loss = seeded(lambda: learner(batch))
    assert loss.sums[term_of(next(iter(loss.sums)))] > 0.0
    learner.model.frontend.masking = None
    loss = seeded(lambda: learner(batch))
    assert loss.sums[term_of(next(iter(loss.sums)))] == 0.0


@pytest.mark.parametrize("norm", ["layer", "power"])
def test_experts_and_running_statistics_go_along(make_model, make_batch, norm):
    model = make_model(experts=4, norm=norm, dropout=0.2)
    learner = Learner(model, strategy_of(Assisted, consistency=1.0), balance_weight=0.1).train()
    batch = make_batch([5, 3], [4, 6])
    loss = seeded(lambda: learner(batch))
    assert {"cross_entropy", "balance", "cross_entropy_consistency"} == loss.sums.keys() <= learner.counts(batch).keys()
    assert all(one.isfinite().all() for one in derivatives(learner, loss).values())


def test_a_strategy_that_does_not_show_what_it_judges_is_refused_by_name(make_model, make_batch):
    class Hidden(LengthHead):
        def loss(self, model, batch):
            return replace(super().loss(model, batch), judged=())

    learner = Learner(make_model(), strategy_of(Hidden, consistency=0.5)).train()
    with pytest.raises(ConfigError, match=r"strategy\.consistency 0\.5: strategy\.kind length_head") as found:
        learner(make_batch([5], [4]))
    assert found.value.remedy == "set strategy.consistency=0"


@pytest.mark.parametrize(
    ("task", "settings", "draws"),
    [
        ("translation", "", False),
        ("translation", "backbone.dropout=0.1", True),
        ("translation", "backbone.attention_dropout=0.1", True),
        ("translation", "strategy.scheduled_sampling=0.1", True),
        ("translation", "strategy.kind=ctc", False),
        ("translation", "strategy.kind=ctc strategy.glancing=[0.5,0.3]", True),
        ("translation", "strategy.kind=length_head", False),
        ("translation", "strategy.kind=mask_predict", True),
        ("translation", "strategy.kind=blocks", True),
        ("parsing", "", True),
        ("parsing", "parsing.unknown_rate=0", False),
        ("asr", "strategy.kind=ctc", True),
        ("asr", "strategy.kind=ctc audio.time_bars=0 audio.frequency_bars=0", False),
    ],
)
def test_two_passes_that_cannot_differ_are_refused_by_name(tmp_path, task, settings, draws):
    file = tmp_path / "p.yaml"
    file.write_text(f"task: {task}\nbackbone:\n  dropout: 0.0\n")
    given = [*settings.split(), "strategy.consistency=0.5"]
    if draws:
        assert load(file, given).strategy.consistency == 0.5
    else:
        with pytest.raises(ConfigError, match=r"strategy\.consistency 0\.5 has no effect with backbone\.dropout 0\.0"):
            load(file, given)


@pytest.mark.parametrize("order", ["random", "free"])
def test_orders_that_each_pass_draws_anew_are_refused_by_name(tmp_path, order):
    file = tmp_path / "labels.yaml"
    file.write_text("task: multilabel\n")
    assert load(file, ["strategy.consistency=1"]).strategy.consistency == 1.0
    with pytest.raises(ConfigError, match=f"strategy.consistency 1.0 has no effect with multilabel.order {order}"):
        load(file, ["strategy.consistency=1", f"multilabel.order={order}"])
