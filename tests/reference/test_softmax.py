"""Softmax three ways, and the merge: any cut into tiles, in any order, gives the same result."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from numpy.typing import NDArray

from iosim_reference import lse_bound, output_bound
from iosim_reference.softmax import IDENTITY, State, merge, naive, online, safe, state

Float = NDArray[np.float64]

LOGITS = st.floats(-50, 50) | st.just(-np.inf)
VECTORS = nps.arrays(np.float64, st.integers(1, 20), elements=LOGITS)


def tiles(draw: st.DrawFn, x: Float, v: Float) -> list[State]:
    """``x`` and ``v`` in a random order, cut at random places; some tiles may be empty."""
    order = np.array(draw(st.permutations(range(len(x)))), dtype=int)
    cuts = sorted(draw(st.lists(st.integers(0, len(x)), max_size=6)))
    return [state(x[part], v[part]) for part in np.split(order, cuts)]


def exactly(a: State, b: State) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("m", "l", "o"))


def numbers(one: State) -> list[float]:
    """m, l, o, O and LSE of one row with one value each."""
    return [float(np.asarray(x).item()) for x in (one.m, one.l, one.o, one.output, one.lse)]


@given(x=VECTORS, data=st.data())
def test_any_cut_in_any_order_gives_the_same(x: Float, data: st.DataObject) -> None:
    v = np.linspace(-1.0, 2.0, 3 * len(x)).reshape(-1, 3)
    whole, parts = state(x, v), data.draw(st.composite(tiles)(x, v))
    while len(parts) > 1:  # merge neighbours at random places: any bracketing
        at = data.draw(st.integers(0, len(parts) - 2))
        parts[at : at + 2] = [merge(parts[at], parts[at + 1])]
    top = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
    np.testing.assert_allclose(parts[0].output, whole.output, rtol=0, atol=output_bound(top, len(x), 1, 2.0, "float64"))
    np.testing.assert_allclose(parts[0].lse, whole.lse, rtol=0, atol=lse_bound(top, len(x), 1, "float64"))


@given(VECTORS, VECTORS)
def test_merge_commutes_exactly(x: Float, y: Float) -> None:
    a, b = (state(z, np.outer(np.arange(len(z)), [1.0, -1.0])) for z in (x, y))
    assert exactly(merge(a, b), merge(b, a))


@given(VECTORS)
def test_a_part_that_saw_nothing_changes_nothing(x: Float) -> None:
    one = state(x, np.ones((len(x), 2)))
    masked = state([-np.inf, -np.inf], [[1.0, 2.0], [3.0, 4.0]])
    for nothing in (IDENTITY, masked):
        assert exactly(merge(nothing, one), one)
        assert exactly(merge(one, nothing), one)


def test_nothing_seen_gives_zero_and_minus_infinity() -> None:
    nothing = merge(IDENTITY, IDENTITY)
    assert nothing.output == 0
    assert nothing.lse == -np.inf


def test_h04_two_tiles_by_hand() -> None:
    told: Any = json.loads((Path(__file__).parents[1] / "cases" / "H04.json").read_text(encoding="utf-8"))
    x, v = (np.array(told["inputs"][name]) for name in "kv")
    first = state(x[:2, 0], v[:2])
    assert numbers(first) == [0, 2, 4, 2, math.log(2)]
    both = merge(first, state(x[2:, 0], v[2:]))
    assert numbers(both) == pytest.approx([math.log(3), 2, 12, 6, math.log(6)], rel=1e-15)


def test_rows_are_merged_side_by_side() -> None:
    x, v = np.random.default_rng(0).standard_normal((3, 5)), np.arange(10.0).reshape(5, 2)
    both = merge(state(x[:, :2], v[:2]), state(x[:, 2:], v[2:]))
    np.testing.assert_allclose(both.output, safe(x) @ v, rtol=1e-14)


@pytest.mark.parametrize("softmax", [naive, safe, online])
@given(x=nps.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.floats(-300, 300)))
def test_three_ways_one_result(softmax: Callable[[Float], Float], x: Float) -> None:
    rows = softmax(x)
    expected = [[math.exp(b - max(row)) / math.fsum(math.exp(c - max(row)) for c in row) for b in row] for row in x.tolist()]
    np.testing.assert_allclose(rows, expected, rtol=1e-12)
    np.testing.assert_array_equal(softmax(x[0]), rows[0])


@pytest.mark.parametrize("shift", [1e3, -1e3, 1e300])
def test_only_naive_overflows(shift: float) -> None:
    x = np.full(4, shift)
    assert not np.isfinite(naive(x)).all()
    assert safe(x).tolist() == online(x).tolist() == [0.25] * 4


def test_a_masked_row_is_all_zero() -> None:
    x = np.array([[-np.inf, -np.inf], [-np.inf, 3.0]])
    assert safe(x).tolist() == online(x).tolist() == [[0, 0], [0, 1]]


class Metered(np.ndarray[tuple[int], np.dtype[np.float64]]):
    """A vector that counts how many of its elements are loaded and stored, in itself and in arrays made like it."""

    accesses = 0

    def __getitem__(self, index: Any) -> Any:
        part = np.asarray(self)[index]
        Metered.accesses += part.size
        return part

    def __setitem__(self, index: Any, value: Any) -> None:
        np.asarray(self)[index] = value
        Metered.accesses += np.asarray(self)[index].size


@pytest.mark.parametrize(("softmax", "each"), [(naive, 3), (safe, 4), (online, 3)])
def test_accesses_per_element(softmax: Callable[[Float], Float], each: int) -> None:
    Metered.accesses = 0
    softmax(np.arange(50.0).view(Metered))
    assert Metered.accesses == each * 50


@pytest.mark.parametrize("softmax", [naive, safe, online, state])
@pytest.mark.parametrize("x", [np.nan, [np.nan], [0.0, np.inf], 3.0, [[[1.0]]]])
def test_refuses_what_is_no_row_of_logits(softmax: Callable[[object], object], x: object) -> None:
    with pytest.raises(ValueError, match="logits"):
        softmax(x)
