"""Gradients of the float64 oracle: finite differences, cases by hand, heads, masks, and the absolute sums that bounds stand on."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim_reference import Gradients, allowed, attention, gradient_bound, gradients, kept

Float = NDArray[np.float64]
STEP = 2.0**-18


@dataclass(frozen=True)
class Problem:
    q: Float
    k: Float
    v: Float
    do: Float
    rules: dict[str, Any]

    def loss(self) -> float:
        return float((self.do * attention(self.q, self.k, self.v, **self.rules).output).sum())

    def gradients(self) -> Gradients:
        return gradients(self.q, self.k, self.v, self.do, **self.rules)

    def differences(self, name: str) -> Float:
        """Central differences of the loss by each element of one tensor."""
        there: Float = getattr(self, name)
        found = np.empty_like(there)
        for index in np.ndindex(there.shape):
            step = np.zeros_like(there)
            step[index] = STEP
            found[index] = (self.moved(name, there + step).loss() - self.moved(name, there - step).loss()) / (2 * STEP)
        return found

    def moved(self, name: str, there: Float) -> Problem:
        changed: dict[str, Any] = {name: there}
        return replace(self, **changed)


def random_problem(seed: int, heads: tuple[int, ...], kv_heads: tuple[int, ...], sizes: tuple[int, ...], rules: dict[str, Any]) -> Problem:
    (n, nk, d, dv), normal = sizes, np.random.default_rng(seed).standard_normal
    q, k, v = normal((*heads, n, d)), normal((*kv_heads, nk, d)), normal((*kv_heads, nk, dv))
    return Problem(q, k, v, normal((*heads, n, dv)), rules)


SIZES = st.integers(1, 5)


@st.composite
def rules(draw: st.DrawFn, n: int, nk: int) -> dict[str, Any]:
    rng, br, bc = np.random.default_rng(draw(st.integers(0, 2**32))), draw(SIZES), draw(SIZES)
    blocks = rng.random((-(-n // br), -(-nk // bc))) < 0.6
    return {
        "scale": draw(st.sampled_from([None, 0.0, 1.0, -0.7])),
        "causal": draw(st.booleans()),
        "window": draw(st.none() | st.tuples(st.integers(-1, 3), st.integers(-1, 3))),
        "mask": draw(st.sampled_from([None, rng.random((n, nk)) < 0.7])),
        "block_mask": draw(st.sampled_from([None, (blocks, br, bc)])),
        "dropout": draw(st.sampled_from([0.0, 0.3])),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "head": draw(st.integers(0, 9)),
    }


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    sizes = tuple(draw(SIZES) for _ in range(4))
    return random_problem(draw(st.integers(0, 2**32)), (), (), sizes, draw(rules(*sizes[:2])))


def case(name: str) -> Any:
    return json.loads((Path(__file__).parents[1] / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def agree_with_differences(problem: Problem) -> None:
    """A difference is off by STEP^2 / 6 (3e-12) of a third derivative and by 2^-52 / STEP (6e-11) of the loss."""
    found = problem.gradients()
    for name, gradient in ("q", found.dq), ("k", found.dk), ("v", found.dv):
        expected = problem.differences(name)
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-7 * (1 + np.abs(expected).max()), err_msg=f"d{name}")


@given(problems())
def test_agrees_with_finite_differences(problem: Problem) -> None:
    agree_with_differences(problem)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_heads_agree_with_finite_differences(kv_heads: int, dropout: float) -> None:
    agree_with_differences(random_problem(0, (2, 4), (2, kv_heads), (3, 4, 2, 1), {"causal": True, "dropout": dropout, "seed": 5}))


@pytest.mark.parametrize("which", ["ones", "random"])
def test_h15_every_number(which: str) -> None:
    told, expected = case("H15")["inputs"], case("H15")["expect"][which]
    found = gradients(told["q"], told["k"], told["v"], expected["do"], scale=told["scale"])
    for name, bound in gradient_bound(found, (2, 2), "float64")._asdict().items():
        np.testing.assert_allclose(getattr(found, name), expected[name], rtol=0, atol=bound)
        assert bound < 1e-11


def test_h15_a_faulty_dv_shows_with_a_random_do_only() -> None:
    told, expected = case("H15")["inputs"], case("H15")["expect"]
    column_sums = gradients(told["q"], told["k"], told["v"], [[1.0, 1.0]] * 2, scale=1.0).dv[:, :1]
    for which, differs in ("ones", False), ("random", True):
        faulty = column_sums * np.array(expected[which]["do"])
        np.testing.assert_allclose(faulty, expected[which]["faulty_dv"], rtol=0, atol=1e-15)
        right = gradients(told["q"], told["k"], told["v"], expected[which]["do"], scale=1.0).dv
        assert (np.abs(faulty - right).max() > 0.01) == differs


def test_h01_a_query_that_attends_to_nothing_has_no_gradient_and_adds_none() -> None:
    told = case("H01")["inputs"]
    q, k, v, keep = (np.array(told[name]) for name in ("q", "k", "v", "mask_keep"))
    found = gradients(q, k, v, [[0.7], [-1.3]], scale=told["scale"], mask=keep.astype(bool))
    alone = gradients(q[:1], k, v, [[0.7]], scale=told["scale"])
    assert not found.dq[1].any()
    for whole, one in zip((found.dq[:1], found.dk, found.dv), (alone.dq, alone.dk, alone.dv), strict=True):
        np.testing.assert_array_equal(whole, one)
    np.testing.assert_allclose(found.output, case("H01")["expect"]["o"], rtol=1e-9)
    assert found.lse[1] == -np.inf


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_where_nobody_attends_all_is_zero(dropout: float) -> None:
    q, k = np.ones((4, 2)), np.ones((2, 2))
    found = gradients(q, k, k, q, mask=np.zeros((4, 2), bool), dropout=dropout)
    assert not any(x.any() for x in (found.dq, found.dk, found.dv, found.output))
    assert (found.max_score, found.magnitudes.logit, *found.magnitudes.products) == (0, 0, 0, 0, 0)


def test_h02_causal_is_aligned_bottom_right() -> None:
    told = case("H02")["inputs"]
    found = gradients(told["q"], told["k"], told["v"], [[1.0], [0.0]], scale=1.0, causal=True)
    assert (found.dv.ravel() > 0).tolist() == [True, True, True, True, False]
    assert not found.dq[1].any()
    first = gradients(told["q"][:1], told["k"][:4], told["v"][:4], [[1.0]], scale=1.0)
    np.testing.assert_allclose(found.dk[:4], first.dk, rtol=0, atol=1e-15)


def test_h09_the_sequence_is_the_third_axis() -> None:
    zeros, do = np.zeros((1, 2, 3, 4)), np.zeros((1, 2, 3, 4))
    do[0, 1, 2] = 3.0
    found = gradients(zeros, zeros, zeros + np.arange(3.0)[:, None], do)
    np.testing.assert_allclose(found.dv[0, 1], 1.0, rtol=1e-15)
    assert not found.dv[0, 0].any()


@given(problems())
def test_output_lse_and_largest_score_are_those_of_attention(problem: Problem) -> None:
    found, expected = problem.gradients(), attention(problem.q, problem.k, problem.v, **problem.rules)
    np.testing.assert_allclose(found.output, expected.output, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(found.lse, expected.lse)
    assert found.max_score == expected.max_score


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_kv_head_sums_over_the_query_heads_that_read_it(kv_heads: int) -> None:
    whole, group = random_problem(1, (2, 4), (2, kv_heads), (5, 6, 3, 2), {"dropout": 0.3, "seed": 8}), 4 // kv_heads
    found, dk, dv = whole.gradients(), np.zeros((2, kv_heads, 6, 3)), np.zeros((2, kv_heads, 6, 2))
    for b, h in np.ndindex(2, 4):
        q, k, v, do = whole.q[b, h], whole.k[b, h // group], whole.v[b, h // group], whole.do[b, h]
        one = gradients(q, k, v, do, head=4 * b + h, **whole.rules)
        np.testing.assert_array_equal(found.dq[b, h], one.dq)
        dk[b, h // group] += one.dk
        dv[b, h // group] += one.dv
    np.testing.assert_allclose(found.dk, dk, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.dv, dv, rtol=0, atol=1e-14)


def test_many_row_blocks_give_what_dense_matrices_give() -> None:
    problem = random_problem(0, (), (), (800, 1501, 3, 2), {"causal": True, "dropout": 0.5, "seed": 6})
    found, z = problem.gradients(), kept(800, 1501, 0.5, seed=6, head=0) * 2.0
    p = np.where(allowed(800, 1501, causal=True), np.exp(problem.q @ problem.k.T / math.sqrt(3)), 0.0)
    p /= p.sum(axis=1, keepdims=True)
    # Here D = dO . O, which the reference does not use.
    ds = p * (problem.do @ problem.v.T * z - (problem.do * (p * z @ problem.v)).sum(axis=1, keepdims=True)) / math.sqrt(3)
    for gradient, expected in (found.dq, ds @ problem.k), (found.dk, ds.T @ problem.q), (found.dv, (p * z).T @ problem.do):
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-12)


def test_no_array_is_n_by_n() -> None:
    x = np.zeros((4096, 4))
    tracemalloc.start()
    gradients(x, x, x, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4096 * 4096 * 8 / 2


def addends(problem: Problem, signed: bool) -> tuple[float, float, float]:
    """The magnitudes by their definition, pair by pair; ``signed`` products may cancel, as ``Magnitudes.weights`` has it."""
    n, nk, rule = len(problem.q), len(problem.k), problem.rules
    z = kept(n, nk, rule["dropout"], seed=rule["seed"], head=rule["head"]) / (1 - rule["dropout"])
    pairs = allowed(n, nk, **{name: rule[name] for name in ("causal", "window", "mask", "block_mask")})
    tau = 1 / math.sqrt(problem.q.shape[1]) if rule["scale"] is None else rule["scale"]
    p = np.where(pairs, np.exp(tau * problem.q @ problem.k.T), 0.0)
    p /= np.maximum(p.sum(axis=1, keepdims=True), 1e-300)
    dq, dk, dv = np.zeros_like(problem.q), np.zeros_like(problem.k), np.zeros_like(problem.v)
    for i, j in np.ndindex(n, nk):
        a = [z[i, l] * abs(sum(x if signed else abs(x) for x in problem.do[i] * problem.v[l])) for l in range(nk)]
        both = abs(tau) * p[i, j] * (a[j] + sum(p[i, l] * a[l] for l in range(nk)))
        dq[i] += both * np.abs(problem.k[j])
        dk[j] += both * np.abs(problem.q[i])
        dv[j] += p[i, j] * z[i, j] * np.abs(problem.do[i])
    return dq.max(), dk.max(), dv.max()


@given(problems())
def test_magnitudes_are_what_they_say(problem: Problem) -> None:
    found = problem.gradients()
    assert found.magnitudes.products == pytest.approx(addends(problem, signed=False), rel=1e-9, abs=1e-12)
    assert found.magnitudes.weights == pytest.approx(addends(problem, signed=True), rel=1e-9, abs=1e-12)
    assert found.max_score <= found.magnitudes.logit * (1 + 1e-12)
    for gradient, weights, products in zip(
        (found.dq, found.dk, found.dv), found.magnitudes.weights, found.magnitudes.products, strict=True
    ):
        assert np.abs(gradient).max() <= weights * (1 + 1e-9) + 1e-12
        assert weights <= products * (1 + 1e-9)


def test_a_logit_is_the_largest_that_could_have_been() -> None:
    found = gradients([[3.0, 2.0]], [[1.0, -1.0], [9.0, 9.0]], [[1.0], [1.0]], [[1.0]], scale=-2.0, mask=[[True, False]])
    assert (found.max_score, found.magnitudes.logit) == (2.0, 10.0)


def test_reach_by_hand_where_heads_share_keys() -> None:
    q, k = np.array([[[[1.0], [2.0]], [[3.0], [-3.0]]]]), np.array([[[[1.0], [-2.0]]]])
    reach = gradients(q, k, k, np.array([[[[1.0], [0.0]], [[1.0], [5.0]]]]), scale=-3.0, dropout=0.5).magnitudes.reach
    into_ds = (1 + 5 * (1 + 2)) / 0.5
    assert reach == (3 * (1 + 3) * into_ds, 3 * 2 * (1 + 6) * into_ds, 2 * (1 + 6) / 0.5)


def test_what_is_masked_does_not_leak() -> None:
    found = gradients([[1.0]], [[0.0], [1e200]], [[5.0], [1e300]], [[1e300]], mask=[[True, False]])
    assert (found.dq.item(), found.dk.tolist(), found.dv.tolist()) == (0.0, [[0.0], [0.0]], [[1e300], [0.0]])


ONES = np.ones((3, 2))


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (np.ones((3, 3)), r"do has shape \(3, 3\) but the output has \(3, 2\)"),
        (np.ones((1, 1, 3, 2)), r"do has shape \(1, 1, 3, 2\) but"),
        (np.ones(3), r"do has shape \(3,\); give"),
        (np.ones((0, 2)), "do is empty"),
        (np.array([[1.0, 1.0], [1.0, np.nan], [1.0, 1.0]]), r"do\[1, 1\] is nan"),
        (1e308 * ONES, "gradients, or the absolute values that they add up, overflow"),
    ],
)
def test_refuses_a_do_by_name(do: Float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gradients(ONES, ONES, ONES, do)


def test_refuses_absolute_values_that_overflow_where_their_sum_does_not() -> None:
    with pytest.raises(ValueError, match="absolute values that they add up, overflow"):
        gradients([[0.0]], [[1.0], [1.0]], [[1.0, 1.0], [1.0, 1.0]], [[1e308, -1e308]])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"q": np.ones((3, 4))}, "q has d = 4 but k has d = 2"),
        ({"k": np.full((3, 2), np.inf)}, r"k\[0, 0\] is inf"),
        ({"q": 1e200 * ONES, "k": 1e200 * ONES}, "overflows float64"),
        ({"scale": math.inf}, "scale"),
        ({"window": (-2, 0)}, "window"),
        ({"mask": np.ones((3, 4), bool)}, "mask has shape"),
        ({"block_mask": (np.ones((3, 3), bool), 2, 2)}, "block_mask has shape"),
        ({"dropout": 1.0}, "dropout"),
        ({"seed": -1}, "seed"),
    ],
)
def test_refuses_what_attention_refuses(asked: dict[str, Any], message: str) -> None:
    call: Callable[..., Gradients] = gradients
    with pytest.raises(ValueError, match=message):
        call(**{"q": ONES, "k": ONES, "v": ONES, "do": ONES, **asked})
