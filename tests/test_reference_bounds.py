"""The float bounds: a right tiled kernel stays within them, a wrong or narrow one does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim_reference import attention, lse_bound, output_bound

Array = NDArray[np.floating]


def tiled(q: Array, k: Array, v: Array, bc: int, dtype: str, rescale: bool = True) -> tuple[Array, Array]:
    """FlashAttention-2 in ``dtype``, all queries at once; ``rescale=False`` forgets exp(m_old - m_new)."""
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    m, l, o = np.full((len(q), 1), -np.inf, dtype), np.zeros((len(q), 1), dtype), np.zeros((len(q), v.shape[1]), dtype)
    for j in range(0, len(k), bc):
        s = q @ k[j : j + bc].T * np.asarray(1 / np.sqrt(q.shape[1]), dtype)
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        p, alpha = np.exp(s - m_new), np.exp(m - m_new) if rescale else np.ones_like(m)
        l, o, m = alpha * l + p.sum(axis=1, keepdims=True), alpha * o + p @ v[j : j + bc], m_new
    return o / l, (m + np.log(l))[:, 0]


def over(q: Array, k: Array, v: Array, bc: int, dtype: str, *, assumed: str = "", rescale: bool = True) -> tuple[float, float]:
    """|dO| and |dLSE| of the tiled kernel over their bounds, which are those of ``assumed`` or ``dtype``."""
    exact, (o, lse) = attention(q, k, v), tiled(q, k, v, bc, dtype, rescale)
    bound = output_bound(exact.max_score, len(k), bc, float(np.abs(v).max()), assumed or dtype)
    return (
        float(np.abs(o - exact.output).max()) / bound,
        float(np.abs(lse - exact.lse).max()) / lse_bound(exact.max_score, len(k), bc, assumed or dtype),
    )


def inputs(seed: int, n: int, nk: int, d: int, amplitude: float = 1.0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((n, d)), rng.standard_normal((nk, d)), rng.standard_normal((nk, 3))
    return (amplitude * q).astype(np.float32), (amplitude * k).astype(np.float32), v.astype(np.float32)


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 9),
    nk=st.integers(1, 70),
    d=st.integers(1, 33),
    bc=st.integers(1, 80),
    amplitude=st.sampled_from([0.01, 0.1, 1.0, 8.0]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_a_tiled_kernel_stays_within(seed: int, n: int, nk: int, d: int, bc: int, amplitude: float, dtype: str) -> None:
    assert max(over(*inputs(seed, n, nk, d, amplitude), bc, dtype)) <= 1


@pytest.mark.parametrize("bc", [1, 7, 64])
def test_the_error_grows_with_the_rescalings_and_so_does_the_bound(bc: int) -> None:
    nk = 16384
    q, k, _ = inputs(0, 16, nk, 16, 1e-3)
    assert max(over(q, k, np.full((nk, 1), 1 / 3, np.float32), bc, "float32")) <= 1


def test_without_the_rescalings_the_bounds_would_be_wrong() -> None:
    nk = 16384
    q, k, _ = inputs(0, 16, nk, 16, 1e-3)
    v = np.full((nk, 1), 1 / 3, np.float32)
    exact, (o, lse) = attention(q, k, v), tiled(q, k, v, 1, "float32")
    assert np.abs(o - exact.output).max() > output_bound(exact.max_score, nk, nk, float(v.max()))
    assert np.abs(lse - exact.lse).max() > lse_bound(exact.max_score, nk, nk)


def test_a_forgotten_rescaling_is_caught() -> None:
    assert min(over(*inputs(0, 9, 70, 16), 7, "float32", rescale=False)) > 1000


@pytest.mark.parametrize(("dtype", "assumed"), [("float16", "float32"), ("float32", "float64")])
def test_narrower_arithmetic_is_caught(dtype: str, assumed: str) -> None:
    assert min(over(*inputs(0, 9, 70, 16), 7, dtype, assumed=assumed)) > 1


def test_by_hand() -> None:
    assert output_bound(3.0, 100, 30, 0.5) == 2**-24 * (16 * 4 + 2 * 4) * 0.5
    assert output_bound(3.0, 100, 30, 0.5, "float64") == 2**-53 * (64 * 4 + 2 * 4) * 0.5
    assert lse_bound(3.0, 1, 30) == 2**-24 * (8 * 4 + 2)
    assert lse_bound(3.0, 1, 30, "float64") == 2**-53 * (64 * 4 + 2)


def test_refuses_what_has_no_bound() -> None:
    with pytest.raises(ValueError, match="float16"):
        output_bound(1.0, 8, 4, 1.0, "float16")
    with pytest.raises(ValueError, match="bc >= 1"):
        lse_bound(1.0, 8, 0)
    with pytest.raises(ValueError, match="nan"):
        output_bound(float("nan"), 8, 4, 1.0)
