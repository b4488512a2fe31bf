"""Learning rates, the optimiser's groups and the moving average."""

import math

import pytest
import torch
from making import auxiliaries_of, strategy_of
from pydantic import ValidationError
from torch import nn

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape, WordShape
from seq2seq_suite.config.schema import Config
from seq2seq_suite.model.build import build_model
from seq2seq_suite.options.backbone import Backbone
from seq2seq_suite.options.schedules import SCHEDULES
from seq2seq_suite.options.training import OPTIMIZERS, Training
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.learner import JointLearner, Learner
from seq2seq_suite.training.optimizer import MovingAverage, build_optimizer, learning_rate, set_rate


def options(**values: object) -> Training:
    return Training.model_validate({"learning_rate": 0.1, "warmup_updates": 10, **values})


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_rises_in_a_line_to_its_peak(schedule):
    rates = [learning_rate(options(schedule=schedule), update, 0.0) for update in range(10)]
    assert rates == pytest.approx([0.01 * (update + 1) for update in range(10)])


def test_schedules_at_their_key_points():
    cosine, power = options(schedule="cosine"), options(schedule="power", decay_power=2.0)
    assert [learning_rate(cosine, 99, share) for share in (0, 0.5, 1)] == pytest.approx([0.1, 0.05, 0.0])
    assert [learning_rate(power, 99, share) for share in (0, 0.5, 1)] == pytest.approx([0.1, 0.025, 0.0])
    root = options(schedule="inverse_sqrt")
    assert [learning_rate(root, update, 0.9) for update in (9, 39, 999)] == pytest.approx([0.1, 0.05, 0.01])
    assert learning_rate(options(schedule="constant"), 10**6, 1.0) == 0.1


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_warm_up_and_a_share_beyond_the_end_give_finite_rates(schedule):
    for update, share in ((0, 0.0), (5, 1.5), (5, -1.0)):
        rate = learning_rate(options(schedule=schedule, warmup_updates=0), update, share)
        assert math.isfinite(rate) and 0.0 <= rate <= 0.1


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_is_built_by_its_row_and_takes_its_options(name):
    model = small_model()
    for given in ({}, OPTIMIZERS[name].options):
        optimizer = build_optimizer(model, options(optimizer=name, optimizer_options=dict(given)))
        assert {one for group in optimizer.param_groups for one in group["params"]} == set(model.parameters())
        assert {group["kind"] for group in optimizer.param_groups} <= OPTIMIZERS.keys()
    with pytest.raises(ValidationError, match=f"lion: {name} has no such option: choose from betas"):
        options(optimizer=name, optimizer_options={"lion": 1})
    with pytest.raises(ConfigError, match=rf"training.optimizer: {name} fails: (Type|Value)Error"):
        build_optimizer(model, options(optimizer=name, optimizer_options={"betas": (2.0, "no")}))


def test_the_options_of_an_optimizer_reach_it():
    groups = build_optimizer(
        small_model(), options(optimizer="muon", optimizer_options={"momentum": 0.5, "factor": 2.0, "eps": 1e-3})
    ).param_groups
    assert [group.get("momentum") for group in groups] == [0.5, None, None]
    assert [group.get("factor", 1.0) for group in groups] == [2.0, 1.0, 1.0]
    assert [group.get("eps") for group in groups] == [None, 1e-3, 1e-3]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_an_optimizer_cannot_do_is_refused(name):
    given = {"task": "translation", "training": {"optimizer": name, "shard": True}}
    if "training.shard" in OPTIMIZERS[name].without:
        with pytest.raises(ValidationError, match=f"training.shard does not go with training.optimizer {name}"):
            Config.model_validate(given)
    else:
        assert Config.model_validate(given).training.shard


def test_only_matrices_decay():
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.fill_(1.0)
    optimizer = build_optimizer(model, options(weight_decay=0.5))
    (model.weight.sum() * 0.0 + model.bias.sum() * 0.0).backward()
    optimizer.step()
    assert torch.allclose(model.weight, torch.full((2, 3), 0.95)) and torch.equal(model.bias, torch.ones(2))


def test_the_average_follows_its_law():
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
    average, expected = MovingAverage(model, 0.5), 0.0
    for update in range(1, 12):
        with torch.no_grad():
            model.weight.fill_(float(update))
        average.update(model, update)
        decay = min(0.5, (1 + update) / (10 + update))
        expected = decay * expected + (1 - decay) * update
    assert float(average.weights["weight"]) == pytest.approx(expected, rel=1e-6)
    assert min(0.5, 12 / 21) == 0.5  # the ramp has reached the decay


def test_swapping_twice_changes_nothing():
    model = nn.Linear(2, 2)
    average = MovingAverage(model, 0.9)
    kept = {name: value.clone() for name, value in average.weights.items()}
    with torch.no_grad():
        model.weight.add_(1.0)
    trained = model.weight.clone()
    average.swap(model)
    assert torch.equal(model.weight, kept["weight"]) and torch.equal(average.weights["weight"], trained)
    average.swap(model)
    assert torch.equal(model.weight, trained) and torch.equal(average.weights["weight"], kept["weight"])


def small_model(**variant: object) -> nn.Module:
    torch.manual_seed(0)
    backbone = Backbone.model_validate(
        {"width": 32, "feed_forward_width": 64, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, **variant}
    )
    return build_model(backbone, Shape(WordShape(11, 7, (0.0,) * 11), TargetShape(9, num_focus=2, num_context=1)))


@pytest.mark.parametrize("variant", [{}, {"experts": 3, "embedding_width": 8, "attention_score": "additive"}], ids=str)
def test_muon_moves_hidden_matrices_by_orthogonal_steps_and_leaves_the_rest_to_adamw(variant):
    model, other = small_model(**variant), small_model(**variant)
    muon = build_optimizer(model, options(optimizer="muon", weight_decay=0.0))
    adamw = build_optimizer(other, options(weight_decay=0.0))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        one.grad = torch.randn_like(one)
        two.grad = one.grad.clone()
    for optimizer in (muon, adamw):
        set_rate(optimizer, 0.01)
        optimizer.step()
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    plain = dict(other.named_parameters())
    for name, parameter in model.named_parameters():
        if name not in linear or name.endswith("router.weight"):
            assert torch.equal(parameter, plain[name]), name
            continue
        step = before[name] - parameter.detach()
        # The published coefficients bring singular values near one, not to one.
        values = torch.linalg.svdvals(step) / (0.01 * 3.0 * 0.2 * math.sqrt(max(step.shape)))
        assert float(values.max()) < 1.4 and float(values.quantile(0.1)) > 0.5, name


def test_of_a_joint_model_too_muon_leaves_the_labels_to_adamw():
    torch.manual_seed(0)
    shape = Shape(TokenShape(11), TargetShape(9, source_labels=(("tags", 5, 0.5),)))
    parts = {
        name: Learner(model, strategy_of(Autoregressive, auxiliaries=auxiliaries_of(shape)))
        for name, model in (("one", small_model()), ("two", small_model(experts=3)))
    }
    model = JointLearner(parts, {"one": 1.0, "two": 1.0})
    optimizer = build_optimizer(model, options(optimizer="muon"))
    moved = {parameter for group in optimizer.param_groups if "momentum" in group for parameter in group["params"]}
    names = {name for name, parameter in model.named_parameters() if parameter in moved}
    assert "encoder.layers.0.feed_forward.inner.weight" in names
    assert not [name for name in names if "tags" in name or "router" in name]


def test_muon_takes_a_convolution_over_planes_for_a_matrix():
    torch.manual_seed(3)
    model = nn.Conv2d(4, 6, 3, padding=1, bias=False)
    before = model.weight.detach().clone()
    optimizer = build_optimizer(model, options(optimizer="muon", learning_rate=1.0, weight_decay=0.0))
    model(torch.randn(2, 4, 7, 9)).square().sum().backward()
    optimizer.step()
    sizes = torch.linalg.svdvals((model.weight.detach() - before).flatten(1))
    assert sizes.max() / sizes.min() < 3.0


def test_a_joined_optimiser_has_one_state_for_all_parameters():
    model = small_model()
    optimizer = build_optimizer(model, options(optimizer="muon"))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert optimizer.state.keys() == set(model.parameters())
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())
