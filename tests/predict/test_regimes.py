"""The three regimes of M: every M lies in one, and what grows how there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import Attention
from iosim.predict.regimes import regimes, theta_words


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_every_m_lies_in_one_regime(n: int, nk: int, d: int, backward: bool) -> None:
    found = regimes(Attention(n, d, nk=nk), backward=backward)
    names = [[one.name.replace("large cache", "everything fits") for one in found if one.holds(m)] for m in range(1, max(d * d, n * d) + 3)]
    small, middle, whole = min(d * d, min(n, nk) * d) - 1, max(0, min(n, nk) * d - d * d), len(names) + 1 - min(n, nk) * d
    assert names == [["small cache"]] * small + [["middle"]] * middle + [["everything fits"]] * whole


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (Attention(4096, 64), "everything fits"),
        (Attention(64, 16, nk=4096, dv=200), "large cache"),  # V is much more than Nd
        (Attention(1, 1), "large cache"),  # no blocks need so little
        (Attention(30, 64), "everything fits"),
    ],
)
def test_everything_fits_only_where_it_may(problem: Attention, name: str) -> None:
    assert {regimes(problem, backward=backward)[-1].name for backward in (False, True)} == {name}


def test_what_stands_in_the_theta() -> None:
    square, n, d = Attention(4096, 64), 4096, 64
    assert theta_words(square, d * d) == n * n
    assert theta_words(square, d * d, backward=True) == n * n + n * d
    assert theta_words(square, 64 * n * d) == n * d
    assert theta_words(Attention(4096, 64, nk=4095), 64) is None
