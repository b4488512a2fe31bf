"""Positions: the sinusoid's equation, rotary distances, offsets, and no silent end of the table."""

import math

import numpy as np
import pytest
import torch

from seq2seq_suite.model.positions import (
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
    sinusoids,
)

WIDTH, MAX_POSITIONS = 8, 32


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoids_are_the_equation(width):
    expected = np.zeros((MAX_POSITIONS, width))
    for position in range(MAX_POSITIONS):
        for feature in range(width):
            angle = position / 10_000 ** (2 * (feature // 2) / width)
            expected[position, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    np.testing.assert_allclose(sinusoids(MAX_POSITIONS, width).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [SinusoidalPositions, LearnedPositions])
def test_an_offset_continues_where_the_first_part_ended(kind):
    torch.manual_seed(1)
    positions, x = kind(WIDTH, MAX_POSITIONS), torch.randn(2, 9, WIDTH)
    parts = torch.cat((positions(x[:, :4]), positions(x[:, 4:], 4)), 1)
    assert torch.equal(parts, positions(x))
    assert not torch.equal(positions(x), x)


def test_rotary_scores_depend_on_the_distance_alone():
    torch.manual_seed(2)
    rotary, query, key = RotaryPositions(WIDTH, MAX_POSITIONS), torch.randn(WIDTH), torch.randn(WIDTH)

    def score(query_at: int, key_at: int) -> torch.Tensor:
        turned = (rotary.rotate(x.view(1, 1, 1, -1), at).flatten() for x, at in ((query, query_at), (key, key_at)))
        return torch.dot(*turned)

    for distance in (0, 1, 7):
        torch.testing.assert_close(score(distance, 0), score(20 + distance, 20), rtol=1e-4, atol=1e-5)
    assert abs(score(3, 0) - score(0, 0)) > 1e-3
    torch.testing.assert_close(score(0, 0), query @ key)


def test_rotary_turns_each_pair_by_its_angle():
    torch.manual_seed(3)
    x, place = torch.randn(WIDTH), 5
    turned = RotaryPositions(WIDTH, MAX_POSITIONS).rotate(x.view(1, 1, 1, -1), place).flatten()
    for pair in range(WIDTH // 2):
        angle = place * 10_000 ** (-2 * pair / WIDTH)
        first, second = float(x[pair]), float(x[pair + WIDTH // 2])
        assert float(turned[pair]) == pytest.approx(first * math.cos(angle) - second * math.sin(angle), abs=1e-5)
        assert float(turned[pair + WIDTH // 2]) == pytest.approx(
            second * math.cos(angle) + first * math.sin(angle), abs=1e-5
        )


def test_rotary_with_an_offset_continues_where_the_first_part_ended():
    torch.manual_seed(4)
    rotary, x = RotaryPositions(WIDTH, MAX_POSITIONS), torch.randn(2, 3, 9, WIDTH)
    assert torch.equal(torch.cat((rotary.rotate(x[:, :, :4]), rotary.rotate(x[:, :, 4:], 4)), 2), rotary.rotate(x))


def test_no_positions_change_nothing():
    x = torch.randn(2, 3, WIDTH)
    assert NoPositions()(x, 5) is x


@pytest.mark.parametrize("kind", [SinusoidalPositions, LearnedPositions, RotaryPositions])
def test_beyond_the_last_position_raises(kind):
    positions, shape = kind(WIDTH, MAX_POSITIONS), (1, 1) if kind is RotaryPositions else (1,)
    act = positions.rotate if kind is RotaryPositions else positions
    act(torch.zeros(*shape, 2, WIDTH), MAX_POSITIONS - 2)
    with pytest.raises(ValueError, match="beyond max_positions 32"):
        act(torch.zeros(*shape, 2, WIDTH), MAX_POSITIONS - 1)
