"""The float bounds: a right tiled kernel stays within them, a wrong or narrow one does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim_reference import Gradients, allowed, attention, gradient_bound, gradients, kept, lse_bound, output_bound

Array = NDArray[np.floating]
Fault = Literal["", "D left out", "dropout left out of dP", "no scale in dK", "another row's dO"]


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
    """|dO| and |dLSE| of the tiled kernel over their bounds, which are those of ``assumed`` or ``dtype``.

    For the LSE, products of q and k count with their absolute values: they may cancel, their rounding does not.
    """
    exact, (o, lse) = attention(q, k, v), tiled(q, k, v, bc, dtype, rescale)
    products = attention(np.abs(q), np.abs(k), v).max_score
    bound = output_bound(exact.max_score, len(k), bc, float(np.abs(v).max()), assumed or dtype)
    return (
        float(np.abs(o - exact.output).max()) / bound,
        float(np.abs(lse - exact.lse).max()) / lse_bound(products, len(k), bc, assumed or dtype),
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


CANCELLING = np.array([[1234.567, 987.6543]], np.float32), np.array([[987.654, -1234.5674]], np.float32)
"""Two products of 1.2 million with a sum of -0.7. In float32 one is off by -0.04, the other by 0.03, whatever the order."""


def test_the_lse_of_a_key_whose_products_cancel_needs_their_absolute_values() -> None:
    v = np.ones((1, 1), np.float32)
    exact, (_, lse) = attention(*CANCELLING, v), tiled(*CANCELLING, v, 1, "float32")
    assert np.abs(lse - exact.lse).max() > 100 * lse_bound(exact.max_score, 1, 1)
    assert over(*CANCELLING, v, 1, "float32")[1] < 1


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


@dataclass(frozen=True)
class Head:
    """One head in float32, to be run in any dtype."""

    q: Array
    k: Array
    v: Array
    do: Array
    pairs: NDArray[np.bool_]
    dropout: float = 0.0
    seed: int = 0

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.q), len(self.k)

    def exact(self) -> Gradients:
        return gradients(self.q, self.k, self.v, self.do, mask=self.pairs, dropout=self.dropout, seed=self.seed)

    def z(self, dtype: str) -> Array:
        return (kept(*self.sizes, self.dropout, seed=self.seed, head=0) / (1 - self.dropout)).astype(dtype)


def scores(q: Array, k: Array, pairs: NDArray[np.bool_]) -> Array:
    return np.where(pairs, q @ k.T * np.asarray(1 / np.sqrt(q.shape[1]), q.dtype), np.asarray(-np.inf, q.dtype))


def forward(head: Head, bc: int, dtype: str) -> tuple[Array, Array, Array]:
    """O, m and l of FlashAttention-2 in ``dtype``; m = 0 and l = 1 where a query attends to nothing."""
    q, k, v, z = head.q.astype(dtype), head.k.astype(dtype), head.v.astype(dtype), head.z(dtype)
    m, l, o = np.full((len(q), 1), -np.inf, dtype), np.zeros((len(q), 1), dtype), np.zeros(head.do.shape, dtype)
    for j in (slice(start, start + bc) for start in range(0, len(k), bc)):
        s = scores(q, k[j], head.pairs[:, j])
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        below = np.where(np.isneginf(m_new), np.zeros_like(m), m_new)
        p, alpha = np.exp(s - below), np.exp(m - below)
        l, o, m = alpha * l + p.sum(axis=1, keepdims=True), alpha * o + (p * z[:, j]) @ v[j], m_new
    l[np.isneginf(m)], m[np.isneginf(m)] = 1, 0
    return o / l, m, l


def backward(head: Head, blocks: tuple[int, int], dtype: str, bc: int, statistics: str = "lse", fault: Fault = "") -> list[Array]:
    """dQ, dK and dV in ``dtype`` by tiles, keys outside, from what a forward pass in blocks of ``bc`` keys leaves."""
    (o, m, l), z = forward(head, bc, dtype), head.z(dtype)
    q, k, v, do = (x.astype(dtype) for x in (head.q, head.k, head.v, head.do))
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    tau, lse = np.asarray(1 / np.sqrt(q.shape[1]), dtype), m + np.log(l)
    d = (do * o).sum(axis=1, keepdims=True) * np.asarray(fault != "D left out", dtype)
    for j in (slice(start, start + blocks[1]) for start in range(0, len(k), blocks[1])):
        for i in (slice(start, start + blocks[0]) for start in range(0, len(q), blocks[0])):
            s = scores(q[i], k[j], head.pairs[i, j])
            p = np.exp(s - lse[i]) if statistics == "lse" else np.exp(s - m[i]) / l[i]
            dp = do[i] @ v[j].T * (1 if fault == "dropout left out of dP" else z[i, j])
            ds = p * (dp - d[i])
            dq[i] += tau * (ds @ k[j])
            dk[j] += (ds if fault == "no scale in dK" else tau * ds).T @ q[i]
            dv[j] += (p * z[i, j]).T @ (np.roll(do, 1, axis=0) if fault == "another row's dO" else do)[i]
    return [dq, dk, dv]


def gradients_over(head: Head, blocks: tuple[int, int], dtype: str, *, bc: int = 0, assumed: str = "", **how: Any) -> list[float]:
    """The errors of dQ, dK and dV over their bounds, which are those of ``assumed`` or ``dtype``."""
    exact, found = head.exact(), backward(head, blocks, dtype, bc or blocks[1], **how)
    bounds = gradient_bound(exact, blocks, assumed or dtype, forward_cols=bc or None)
    errors = [float(np.abs(x - y).max()) for x, y in zip(found, (exact.dq, exact.dk, exact.dv), strict=True)]
    return [error / bound for error, bound in zip(errors, bounds, strict=True)]


def random_head(seed: int, n: int, nk: int, d: int, dv: int, amplitude: float = 1.0, **rules: Any) -> Head:
    normal = np.random.default_rng(seed).standard_normal
    q, k, v, do = (normal(shape).astype(np.float32) for shape in ((n, d), (nk, d), (nk, dv), (n, dv)))
    return Head(q * np.float32(amplitude), k * np.float32(amplitude), v, do, **{"pairs": np.ones((n, nk), bool), "seed": seed, **rules})


@st.composite
def heads(draw: st.DrawFn) -> Head:
    n, nk, d, dv = draw(st.integers(1, 12)), draw(st.integers(1, 20)), draw(st.integers(1, 33)), draw(st.integers(1, 9))
    seed = draw(st.integers(0, 2**32))
    pairs = allowed(n, nk, causal=draw(st.booleans()))
    if draw(st.booleans()):
        pairs &= np.random.default_rng(seed).random((n, nk)) < 0.7
    amplitude, dropout = draw(st.sampled_from([0.1, 1.0, 5.0])), draw(st.sampled_from([0.0, 0.2, 0.75]))
    head = random_head(seed, n, nk, d, dv, amplitude, pairs=pairs, dropout=dropout)
    return replace(head, do=head.do * np.float32(draw(st.sampled_from([1.0, 1e-38, 1e15]))))


@given(
    head=heads(),
    blocks=st.tuples(st.integers(1, 13), st.integers(1, 21)),
    bc=st.integers(1, 21),
    dtype=st.sampled_from(["float32", "float64"]),
    statistics=st.sampled_from(["lse", "m and l"]),
)
def test_a_tiled_backward_stays_within(head: Head, blocks: tuple[int, int], bc: int, dtype: str, statistics: str) -> None:
    assert max(gradients_over(head, blocks, dtype, bc=bc, statistics=statistics)) <= 1


@given(heads(), st.sampled_from(["float32", "float64"]))
def test_an_untiled_backward_stays_within(head: Head, dtype: str) -> None:
    assert max(gradients_over(head, head.sizes, dtype)) <= 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("blocks", [(16, 1), (1, 16), (512, 512)])
def test_long_sums_of_one_sign_stay_within(dtype: str, blocks: tuple[int, int]) -> None:
    head = random_head(0, 512, 512, 2, 1, 1e-3)
    same = replace(head, q=np.full_like(head.q, 0.1), v=np.full_like(head.v, 1 / 3), do=np.full_like(head.do, 0.7))
    assert max(gradients_over(same, blocks, dtype)) <= 1


def test_products_that_cancel_need_their_absolute_values() -> None:
    q, k = CANCELLING[0], np.vstack([CANCELLING[1], np.zeros((1, 2), np.float32)])
    head = Head(q, k, np.array([[1], [3]], np.float32), np.ones((1, 1), np.float32), np.ones((1, 2), bool))
    exact, errors = head.exact(), gradients_over(head, (1, 1), "float32")
    assert max(errors) <= 1
    signed = replace(exact, magnitudes=replace(exact.magnitudes, logit=exact.max_score))
    bounds = zip(gradient_bound(exact, (1, 1)), gradient_bound(signed, (1, 1)), strict=True)
    assert min(error * bound / too_small for error, (bound, too_small) in zip(errors, bounds, strict=True)) > 10


FAULTS: list[tuple[Fault, list[int]]] = [
    ("D left out", [0, 1]),
    ("dropout left out of dP", [0, 1]),
    ("no scale in dK", [1]),
    ("another row's dO", [2]),
]


@pytest.mark.parametrize(("fault", "seen_in"), FAULTS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "d"), [(8, 4), (64, 16), (256, 64)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_wrong_gradient_is_far_beyond(fault: Fault, seen_in: list[int], causal: bool, n: int, d: int, dtype: str) -> None:
    head = random_head(0, n, n, d, d, pairs=allowed(n, n, causal=causal), dropout=0.2)
    errors = gradients_over(head, (min(n, 32), min(n, 16)), dtype, fault=fault)
    assert min(errors[which] for which in seen_in) > 50
    assert max(error for which, error in enumerate(errors) if which not in seen_in) <= 1


@pytest.mark.parametrize(("dtype", "assumed"), [("float16", "float32"), ("float32", "float64")])
def test_a_narrower_backward_is_caught(dtype: str, assumed: str) -> None:
    assert min(gradients_over(random_head(0, 9, 70, 16, 16), (4, 7), dtype, assumed=assumed)) > 1


def test_gradient_bounds_of_shared_heads_count_them_all() -> None:
    q, k = np.ones((1, 4, 3, 1)), np.ones((1, 2, 3, 1))
    exact = gradients(q, k, k, q)
    group, alone = gradient_bound(exact, (1, 3)), gradient_bound(replace(exact, dq=exact.dq[:, :2]), (1, 3))
    assert (group.dk > alone.dk, group.dv > alone.dv) == (True, True)


def test_gradient_bounds_by_hand() -> None:
    """One query, two keys, d = 2, dv = 1, max|q||k| = 3; a forward pass in one tile, a backward pass in two."""
    exact = gradients([[1.0, 2.0]], [[3.0, 0.0], [0.0, 0.0]], [[1.0], [3.0]], [[1.0]], scale=1.0)

    def expected(u: float, tiles: int, block: int) -> list[float]:
        w = 2 * (2 + 8) * 3 + 3 * 3 + 2 * 8 + 2 + 21 + 14 * np.log(2) + 2
        of_o = 2 + 5 + 1
        r = (11 + of_o + block + tiles, 11 + of_o + 1 + 1, 11 + 1 + 1)
        parts = zip((2 * w, 2 * w, w), r, exact.magnitudes.weights, exact.magnitudes.products, strict=True)
        return [float(np.expm1(x * u) * a + np.exp(x * u) * np.expm1(y * u) * b) for x, y, a, b in parts]

    kernel, oracle = expected(1.01 * 2**-24, 2, 1), expected(1.01 * 2**-53, 1, 2)
    both = [x + y for x, y in zip(kernel, oracle, strict=True)]
    assert list(gradient_bound(exact, (1, 1), forward_cols=2)) == pytest.approx(both, rel=1e-12, abs=0)


def test_refuses_what_has_no_gradient_bound() -> None:
    exact = gradients([[1.0]], [[1.0]], [[1.0]], [[1.0]])
    with pytest.raises(ValueError, match="float16"):
        gradient_bound(exact, (1, 1), "float16")
    with pytest.raises(ValueError, match="bc >= 1"):
        gradient_bound(exact, (0, 1))
    with pytest.raises(ValueError, match="bc >= 1"):
        gradient_bound(exact, (1, 1), forward_cols=0)


def test_logits_beyond_all_rounding_have_a_bound_that_tells_nothing() -> None:
    assert min(gradient_bound(gradients([[1e10]], [[1e10]], [[1.0]], [[1.0]], scale=1.0), (1, 1))) > 1e100
