"""Dropout in kernels: one mask for every kernel, tile size, loop order and pass, and no words for it but where software stores it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim import KERNELS, Attention, simulate
from iosim.attention.catalogue import FORWARD
from iosim.attention.plan import make_plan
from iosim_reference import kept

STORING = {name for name, found in KERNELS.items() if any(array.name == "R" for array in found.arrays)}
SEEDS = st.integers(0, 2**64 - 1)
BLOCKS = st.tuples(st.integers(1, 24), st.integers(1, 24))


def dropped(n: int, nk: int, p: float, seed: int, *, heads: int = 1) -> Attention:
    return Attention(n, 3, nk=nk, dv=nk, heads=heads, dropout=p, dropout_seed=seed, dtype="float64")


def ones(*shape: int) -> NDArray[np.float64]:
    return np.zeros(shape) + 1e-3


@pytest.mark.parametrize("kernel", [name for name, found in KERNELS.items() if found.forward is None])
@given(n=st.integers(1, 24), nk=st.integers(1, 24), blocks=BLOCKS, p=st.sampled_from([0.1, 0.5, 0.9]), seed=SEEDS, heads=st.integers(1, 2))
def test_forward(kernel: str, n: int, nk: int, blocks: tuple[int, int], p: float, seed: int, heads: int) -> None:
    """With V = 1 the output is P after dropout, whose zeros are the pairs that were dropped."""
    q, k, v = ones(1, heads, n, 3), ones(1, heads, nk, 3), np.broadcast_to(np.eye(nk), (1, heads, nk, nk))
    problem = dropped(n, nk, p, seed, heads=heads)
    rules = {} if kernel != "block-sparse" else {"skip_empty": False}
    if kernel == "block-sparse":  # its own pattern hides pairs; a full one does not
        problem = full_blocks(problem, blocks)
    made = simulate(kernel, problem, sram=10**6, blocks=blocks, inputs=(q, k, v), overflow="record", **rules)
    assert made.output is not None
    for head in range(heads):
        np.testing.assert_array_equal(made.output[0, head] != 0, kept(n, nk, p, seed=seed, head=head))


def full_blocks(problem: Attention, blocks: tuple[int, int]) -> Attention:
    from dataclasses import replace

    from iosim import BlockMask

    rows, cols = (-(-size // block) for size, block in zip((problem.n, problem.nk), blocks, strict=True))
    return replace(problem, block_mask=BlockMask.from_dense(np.ones((rows, cols), dtype=bool), problem.n, problem.nk, *blocks))


@pytest.mark.parametrize("kernel", [name for name, found in KERNELS.items() if found.forward is not None])
@given(n=st.integers(1, 24), nk=st.integers(1, 24), blocks=BLOCKS, p=st.sampled_from([0.1, 0.5, 0.9]), seed=SEEDS)
def test_backward(kernel: str, n: int, nk: int, blocks: tuple[int, int], p: float, seed: int) -> None:
    """With dO = 1 the gradient of V is the transpose of P after dropout."""
    problem = Attention(n, 3, nk=nk, dv=n, dropout=p, dropout_seed=seed, dtype="float64")
    inputs = ones(n, 3), ones(nk, 3), ones(nk, n), np.eye(n)
    made = simulate(kernel, problem, sram=10**6, blocks=blocks, inputs=inputs, overflow="record", replay=False)
    np.testing.assert_array_equal(made.values["dV"].T != 0, kept(n, nk, p, seed=seed, head=0))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_mask_made_from_indices_moves_no_words(kernel: str) -> None:
    counts = [make_plan(kernel, Attention(40, 8, dropout=p), 10**6, (16, 8), None, {}).count() for p in (0.0, 0.2)]
    without, with_dropout = (sum(a.reads + a.writes for a in found.arrays.values()) for found in counts)
    stored = 3 * 40 * 40 if kernel in STORING else 0  # P again, read and written, and a byte a pair: a one-byte element is one word
    assert with_dropout - without == stored
    assert ("R" in counts[1].arrays) == (kernel in STORING)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_what_is_kept_is_scaled_so_that_the_expectation_stays(p: float) -> None:
    """The mean of 1 - p kept weights, each scaled by 1 / (1 - p), is 1 within five standard errors."""
    n = nk = 200
    made = simulate("flash2", dropped(n, nk, p, 5), sram=10**6, inputs=(ones(n, 3), ones(nk, 3), np.eye(nk)))
    assert made.output is not None
    weights = made.output.astype(np.float64) * nk
    np.testing.assert_allclose(weights[weights != 0], 1 / (1 - p), rtol=1e-9)
    assert abs(weights.mean() - 1) <= 5 * np.sqrt(p / (1 - p) / (n * nk))


def test_the_default_kernels_are_those_of_papers() -> None:
    assert all(KERNELS[name].paper and KERNELS[name].forward is None for name in FORWARD)
