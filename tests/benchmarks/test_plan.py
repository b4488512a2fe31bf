"""The plan's arithmetic agrees with numbers that others published or counted."""

import dataclasses

import pytest

from benchmarks import plan
from benchmarks.systems import Shape, suite

BASE, BIG = (plan.RECIPES[name].shape for name in ("base", "big"))


@pytest.mark.parametrize("shape", [BASE, BIG])
def test_operations_of_a_step_are_six_for_each_weight_that_multiplies_a_token(shape):
    """Kaplan et al. 2020, section 2.1: 6 N D; the encoder's weights meet source tokens, the others target tokens."""
    width, inner = shape.width, shape.feed_forward
    encoder = shape.layers * (4 * width**2 + 2 * width * inner)
    decoder = shape.layers * (6 * width**2 + 2 * width * inner) + width * shape.vocabulary
    memory = shape.layers * 2 * width**2  # keys and values of the source
    expected = 6 * (encoder + memory + decoder) * plan.TOKENS
    assert expected < plan.operations(shape) < 1.03 * expected


def test_parameters_are_those_of_the_model_and_near_the_published_ones():
    small = Shape(16, 32, 2, 2, 50)
    assert plan.parameters(small) == sum(one.numel() for one in set(suite.build(small).parameters()))
    assert plan.parameters(BASE) == pytest.approx(65e6, rel=0.04)  # Vaswani et al. 2017, Table 3
    assert plan.parameters(BIG) == pytest.approx(213e6, rel=0.04)


def test_the_length_of_sentences_hardly_matters(monkeypatch):
    found = []
    for length in (15, 60):
        monkeypatch.setattr(plan, "LENGTH", length)
        found.append(plan.operations(BASE))
    assert 1.0 < found[1] / found[0] < 1.03


def test_activations_grow_like_those_that_korthikanti_counts():
    """Korthikanti et al. 2022, section 4.1: 34 bytes for each unit of width of a layer in 16 bits, without the
    attention matrix; here a layer of the encoder and one of the decoder, with cross-attention and norms in float32."""
    three, two = (plan.counted(Shape(64, 256, 4, layers, 100))[0] for layers in (3, 2))
    per_layer = three - two
    assert 0.8 < per_layer / (64 * (34 + 34 + 11)) < 1.6


def test_the_exchange_is_that_of_a_ring_and_only_what_outlasts_the_backward_pass_is_exposed():
    link = plan.Link("", 8, 100e9)
    assert plan.exchange(800e6, link) == pytest.approx(2 * 7 / 8 * 800e6 / 100e9)
    across = dataclasses.replace(link, gpus=16, between=10e9)
    assert plan.exchange(800e6, across) == pytest.approx(0.014 + 0.08)
    assert plan.waiting(800e6, across, 0.05) == pytest.approx(0.044)
    assert plan.waiting(800e6, link, 1.0) == pytest.approx(plan.exchange(plan.BUCKET, link))
