"""Which cases of a parametrisation the daily tests run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def daily(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """Cases for `parametrize`: `kept` run daily, the others are marked slow.

    Args:
        cases: values of one argument, or tuples of the values of several.
        kept: some of them.
    """
    cases = list(cases)
    assert all(one in cases for one in kept), f"not among the cases: {[one for one in kept if one not in cases]}"
    return [
        case if case in kept else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
