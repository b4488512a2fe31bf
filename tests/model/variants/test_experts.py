"""Mixtures of experts: the equations position by position, capacity, and the load-balance loss of every strategy."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from making import parallel_kinds, strategy_of

from seq2seq_suite.common.shapes import SetShape, Shape, TargetShape, TokenShape
from seq2seq_suite.model.layers import TransformerLayer
from seq2seq_suite.model.variants.experts import MixtureOfExperts, load_balances
from seq2seq_suite.model.variants.real_positions import on_real_positions
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.strategies.sets import Sets

WIDTH = 16
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
MASK = torch.arange(6) < torch.tensor([[4], [6], [1]])


def make_mixture(layer_shape, roughen, *, experts=4, experts_per_token=2, capacity=1.0, **shape) -> MixtureOfExperts:
    torch.manual_seed(1)
    made = layer_shape(**shape)
    networks = [made.feed_forward(made) for _ in range(experts)]
    mixture = MixtureOfExperts(networks, WIDTH, experts_per_token=experts_per_token, capacity=capacity)
    return roughen(mixture, noise=0.4)


def masked(mixture: MixtureOfExperts, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    with on_real_positions(mask):
        return mixture(x)


def by_loops(mixture: MixtureOfExperts, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """One position, choice and expert at a time; those that come too late find no room in training."""
    count, wanted = len(mixture.experts), mixture.experts_per_token
    places = mask.nonzero().tolist()
    room = math.ceil(mixture.capacity * wanted * len(places) / count) if mixture.training else math.inf
    taken, out = [0] * count, {}
    for rank in range(wanted):
        for row, place in places:
            here = x[row, place]
            probabilities = (mixture.router.weight @ here).softmax(0)
            likeliest = probabilities.argsort(descending=True)[:wanted]
            expert = int(likeliest[rank])
            gate = probabilities[expert] / (probabilities[likeliest].sum() if wanted > 1 else 1.0)
            before = out.get((row, place), torch.zeros_like(here))
            out[row, place] = before + gate * mixture.experts[expert](here) if taken[expert] < room else before
            taken[expert] += 1
    rows = [[out.get((row, place), torch.zeros(WIDTH)) for place in range(x.size(1))] for row in range(x.size(0))]
    return torch.stack([torch.stack(row) for row in rows])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "shape", [{"experts_per_token": 1}, {"capacity": 0.5}, {"experts": 5, "activation": "swiglu"}], ids=str
)
def test_a_mixture_is_its_equation_in_value_and_gradient(layer_shape, roughen, shape, training):
    mixture = make_mixture(layer_shape, roughen, **shape).train(training)
    found = []
    in_equal_parts = lambda x, mask: mixture.in_equal_parts(x.flatten(0, 1), mask.flatten()).view(x.shape)  # noqa: E731
    for function in (lambda x, mask: by_loops(mixture, x, mask), partial(masked, mixture), in_equal_parts):
        torch.manual_seed(2)
        x = torch.randn(3, 6, WIDTH).requires_grad_()
        out = function(x, MASK)
        out.mul(torch.randn(out.shape)).sum().backward()
        gradients = {name: parameter.grad for name, parameter in mixture.named_parameters()}
        found.append((out.detach(), x.grad, {name: 0.0 if grad is None else grad for name, grad in gradients.items()}))
        mixture.zero_grad()
    wanted, *ours = found
    for out, slope, gradients in ours:
        torch.testing.assert_close((out, slope), wanted[:2], **CLOSE)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, torch.zeros_like(gradient) + wanted[2][name], **CLOSE)
        assert not out[~MASK].any()


def test_what_finds_no_room_is_carried_by_the_residual_alone(layer_shape, roughen):
    layer = roughen(TransformerLayer(layer_shape(experts=2, experts_per_token=1, expert_capacity=0.5)))
    with torch.no_grad():
        layer.feed_forward_norm.gain.zero_()
        layer.feed_forward_norm.bias.fill_(1.0)
        layer.feed_forward.router.weight[0], layer.feed_forward.router.weight[1] = 1.0, -1.0
        layer.attention.output.weight.zero_()
        layer.attention.output.bias.zero_()
    x, mask = torch.randn(2, 4, WIDTH), torch.ones(2, 4, dtype=torch.bool)
    # All choose the first expert, which takes half of an even share.
    changed = (layer(x, mask.unsqueeze(1))[0] != x).any(2)
    assert changed.tolist() == [[True, True, False, False], [False] * 4]
    assert (layer.eval()(x, mask.unsqueeze(1))[0] != x).any(2).all()


def test_the_load_balance_loss_is_that_computed_by_hand():
    # The router passes its input on: log p goes in, p comes out.
    mixture = MixtureOfExperts([torch.nn.Identity()] * 2, 2, experts_per_token=1, capacity=1.0)
    mixture.router.weight.data = torch.eye(2)
    p = torch.tensor([[[0.9, 0.1], [0.8, 0.2]], [[0.3, 0.7], [0.5, 0.5]]])
    with load_balances() as balance:
        masked(mixture, p.log(), torch.tensor([[True, True], [True, False]]))
        mixture.in_equal_parts(p.log().flatten(0, 1), torch.tensor([True, True, True, False]))
    f, mean = (2 / 3, 1 / 3), (2.0 / 3, 1.0 / 3)  # two of three choose the first, p sums to 2.0 and 1.0
    assert [float(loss.detach()) for loss in balance] == [pytest.approx(2 * (f[0] * mean[0] + f[1] * mean[1]))] * 2
    assert 2 * (f[0] * mean[0] + f[1] * mean[1]) == pytest.approx(10 / 9)


def test_an_output_does_not_depend_on_its_batch_in_evaluation(make_model, make_batch):
    model, batch = make_model(experts=4, expert_capacity=0.25), make_batch([4, 7, 1], [2, 2, 2])
    together = model.encode(batch).values
    for row, length in enumerate((4, 7, 1)):
        alone = replace(
            batch, source=batch.source[row : row + 1, :length], source_mask=batch.source_mask[row : row + 1, :length]
        )
        torch.testing.assert_close(model.encode(alone).values[0], together[row, :length], **CLOSE)


STRATEGIES = {
    "autoregressive": lambda: strategy_of(Autoregressive),
    "scheduled_sampling": lambda: strategy_of(Autoregressive, scheduled_sampling=0.5),
    "sets": lambda: strategy_of(Sets, target=SetShape(9)),
    "sets_free": lambda: strategy_of(Sets, target=SetShape(9, order="free")),
    **{kind: partial(make, glancing=(0.5, 0.3)) for kind, make in parallel_kinds().items()},
}
SHAPE = Shape(TokenShape(11), TargetShape(9))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_learns_each_layers_balance_once(make_model, make_batch, name):
    model, batch = make_model(SHAPE, experts=4, decoder_steps=2), make_batch([4, 6, 5, 3], [5, 7, 3, 4])
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, MixtureOfExperts):
                part.router.weight.zero_()  # p = 1 / N everywhere: the loss of a layer is 1
    learner = Learner(model, STRATEGIES[name]()).train()
    loss = learner(batch)
    assert loss.counts == learner.counts(batch) and loss.counts["balance"] == 19
    assert float(loss.sums["balance"].detach()) == pytest.approx(19 * (2 + 2 * 2))
    assert "balance" in loss.weights


@pytest.mark.parametrize("encoder, decoder, layers", [("rnn", "transformer", 2), ("self_attention", "rnn", 2)])
def test_networks_without_feed_forward_have_no_balance(make_model, make_batch, encoder, decoder, layers):
    model, batch = make_model(experts=4, encoder=encoder, decoder=decoder), make_batch([4, 6], [5, 3])
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, MixtureOfExperts):
                part.router.weight.zero_()
    loss = Learner(model, strategy_of(Autoregressive))(batch)
    assert float(loss.sums["balance"].detach()) == pytest.approx(8 * layers)
    assert "balance" not in Learner(make_model(), strategy_of(Autoregressive))(batch).sums


def test_low_precision_learns_every_weight(make_model, make_batch):
    model, batch = make_model(experts=2, experts_per_token=1).train(), make_batch([4, 6, 5, 3], [5, 7, 3, 4])
    with torch.autocast("cpu", torch.bfloat16):
        loss = Learner(model, strategy_of(Autoregressive))(batch)
    assert loss.sums["balance"].dtype == torch.float32
    sum(loss.sums.values()).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
