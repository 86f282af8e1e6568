"""Lower bounds in M: exact integers of their formulas, below every count, and above nothing that is known to be possible."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import BACKWARD, FORWARD, Attention, BlockMask, simulate
from iosim.errors import BadInput, SramOverflow
from iosim.theory.bounds import pairs
from iosim.theory.io_bounds import bounds, least_words, product_bounds

small = st.integers(1, 40)


@st.composite
def problems(draw: st.DrawFn) -> Attention:
    """Dense, causal, windowed and masked problems, with heads that share K and V."""
    n, nk, group = draw(small), draw(small), draw(st.integers(1, 3))
    rule = draw(st.sampled_from(["none", "causal", "window", "mask"]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    rules = {"none": {}, "causal": {"causal": True}, "window": {"window": (3, 2)}, "mask": {"mask": rng.random((n, nk)) < 0.5}}[rule]
    return Attention(n, draw(st.integers(1, 12)), nk=nk, dv=draw(st.integers(1, 12)), heads=group, kv_heads=1, **rules)  # type: ignore[arg-type]


@given(problems())
def test_pairs_are_those_that_attend(problem: Attention) -> None:
    ahead = np.arange(problem.nk)[None, :] - np.arange(problem.n)[:, None] - (problem.nk - problem.n)
    keep = np.ones(ahead.shape, bool) if problem.mask is None else problem.mask
    if problem.causal:
        keep = keep & (ahead <= 0)
    if problem.window is not None:
        keep = keep & (-problem.window[0] <= ahead) & (ahead <= problem.window[1])
    assert pairs(problem) == keep.sum()


@given(n=small, nk=small, rows=st.integers(1, 9), cols=st.integers(1, 9), seed=st.integers(0, 99))
def test_pairs_of_a_block_mask_are_those_in_its_tiles(n: int, nk: int, rows: int, cols: int, seed: int) -> None:
    keep = np.random.default_rng(seed).random((-(-n // rows), -(-nk // cols))) < 0.5
    mask = BlockMask.from_dense(keep, n, nk, rows, cols)
    assert pairs(Attention(n, 4, nk=nk, block_mask=mask)) == keep.repeat(rows, 0)[:n].repeat(cols, 1)[:, :nk].sum()


@given(problems(), st.integers(1, 5000))
def test_each_bound_is_its_formula_rounded_up(problem: Attention, m: int) -> None:
    found = {bound.name: bound.words for bound in bounds(problem, m)}
    e, d = (pairs(problem) or 0) * problem.group, problem.d
    assert found["Saha-Ye"] == math.ceil(Fraction(e * d * d, m + 4 * d * d) - m)
    root = found["small cache"] + 2 * m + e
    assert (root - 1) ** 2 * m < 4 * e * e * d * d <= root**2 * m or (e == 0 and root == 0)


def test_the_published_curve() -> None:
    # In units of N^2, N = 4096 and d = 64, for M / d^2 = 1/16, 1/4, 1, 4, 16, 64: worked out by hand from the same two papers.
    problem, n, d = Attention(4096, 64), 4096, 64
    curve = [(least_words(problem, m) or 0) / n**2 for m in (d * d // 16, d * d // 4, d * d, 4 * d * d, 16 * d * d, 64 * d * d)]
    assert [round(value, 2) for value in curve] == [7.0, 3.0, 1.0, 0.12, 0.06, 0.06]


@given(problems(), st.sampled_from([*FORWARD]), st.integers(4, 4000))
def test_no_kernel_moves_less(problem: Attention, kernel: str, m: int) -> None:
    if kernel == "block-sparse":
        problem = Attention(problem.n, problem.d, nk=problem.nk, dv=problem.dv)
    try:
        made = simulate(kernel, problem, sram=m, blocks="best", execute=False)
    except (SramOverflow, BadInput):
        return
    least = least_words(made.plan.problem, m)
    assert least is None or made.overflow == 0
    assert least is None or least * problem.instances <= made.total


@pytest.mark.parametrize("m", [0, -1, 1.5])
def test_an_sram_of_no_words_has_no_bound(m: float) -> None:
    with pytest.raises(BadInput, match="sram must be"):
        bounds(Attention(8, 4), m)  # type: ignore[arg-type]


def test_nobody_has_counted_a_block_mask_under_another_rule() -> None:
    mask = BlockMask.from_dense([[1, 0], [1, 1]], 4, 4, 2, 2)
    problem = Attention(4, 2, block_mask=mask, causal=True)
    assert least_words(problem, 64) is None
    with pytest.raises(BadInput, match="give one of them alone"):
        bounds(problem, 64)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.integers(3, 400))
def test_a_product_in_the_best_tile_moves_no_less(rows: int, inner: int, cols: int, m: int) -> None:
    side = max(1, math.isqrt(m + 1) - 1)  # one tile of the product, and a column and a row beside it
    moved = rows * cols + inner * (rows * -(-cols // side) + cols * -(-rows // side))
    assert max(bound.words for bound in product_bounds(rows, inner, cols, m)) <= moved


def test_backward_kernels_have_no_constant_to_compare_with() -> None:
    assert all(simulate(name, Attention(16, 4), sram=4096, execute=False).lower_bound is None for name in BACKWARD.values())
