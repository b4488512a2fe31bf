"""Shares of the tasks of a joint run."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_suite.data.mixture import shares


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=6), st.floats(1.0, 5.0), st.data())
def test_shares_add_up_and_keep_to_their_caps(sizes, temperature, data):
    caps, factors = (
        data.draw(st.lists(st.floats(least, 1.0), min_size=len(sizes), max_size=len(sizes))) for least in (0.05, 0.2)
    )
    found = shares(sizes, temperature=temperature, factors=factors, most=caps)
    assert sum(found) == pytest.approx(1.0)
    if sum(caps) >= 1.0:
        assert all(share <= cap + 1e-9 for share, cap in zip(found, caps, strict=True))
    free = [index for index, share in enumerate(found) if sum(caps) >= 1.0 and share < caps[index] - 1e-9]
    for one, two in itertools.pairwise(free):
        of_sizes, of_factors = (sizes[one] / sizes[two]) ** (1.0 / temperature), factors[one] / factors[two]
        assert found[one] / found[two] == pytest.approx(of_sizes * of_factors, rel=1e-6)
