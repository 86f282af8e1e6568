"""The float64 oracle: cases by hand, agreement with three plain loops on ragged shapes, and what it refuses."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim_reference import Result, allowed, attention, lse_bound, output_bound
from tests.reference import scalar

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


class Rules(TypedDict, total=False):
    causal: bool
    window: tuple[int, int] | None
    mask: Bool | None
    block_mask: tuple[Bool, int, int] | None


@dataclass(frozen=True)
class Problem:
    q: Float
    k: Float
    v: Float
    rules: Rules

    def by_loops(self) -> tuple[list[list[float]], list[float]]:
        mask, blocks = self.rules.get("mask"), self.rules.get("block_mask")
        return scalar.attention(
            self.q.tolist(),
            self.k.tolist(),
            self.v.tolist(),
            causal=self.rules.get("causal", False),
            window=self.rules.get("window"),
            mask=None if mask is None else mask.tolist(),
            block_mask=None if blocks is None else (blocks[0].tolist(), *blocks[1:]),
        )


SIZES = st.integers(1, 7)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    n, nk, d, dv, br, bc = (draw(SIZES) for _ in range(6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    keep = rng.random((-(-n // br), -(-nk // bc))) < 0.6
    rules = Rules(
        causal=draw(st.booleans()),
        window=draw(st.none() | st.tuples(st.integers(-1, 4), st.integers(-1, 4))),
        mask=draw(st.sampled_from([None, rng.random((n, nk)) < 0.7])),
        block_mask=draw(st.sampled_from([None, (keep, br, bc)])),
    )
    amplitude = draw(st.sampled_from([0.1, 1.0, 30.0]))
    return Problem(amplitude * rng.standard_normal((n, d)), rng.standard_normal((nk, d)), rng.standard_normal((nk, dv)), rules)


def case(name: str) -> Any:
    return json.loads((Path(__file__).parents[1] / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def agree(result: Result, output: object, lse: object, bound: float = 1e-9) -> None:
    np.testing.assert_allclose(result.output, np.asarray(output, float), rtol=0, atol=bound)
    np.testing.assert_allclose(result.lse, np.asarray(lse, float), rtol=0, atol=bound)


@pytest.mark.parametrize("name", ["H01", "H02", "H03", "H04", "H05", "H06"])
def test_cases_from_the_field(name: str) -> None:
    told, expected = case(name)["inputs"], case(name)["expect"]
    keep = None if told["mask_keep"] is None else np.array(told["mask_keep"], dtype=bool)
    tensors, scale, causal = (told["q"], told["k"], told["v"]), told["scale"], told["causal"]
    agree(attention(*tensors, scale=scale, causal=causal, mask=keep), expected["o"], expected["lse"])
    output, lse = scalar.attention(*tensors, scale=scale, causal=causal, mask=None if keep is None else keep.tolist())
    agree(Result(np.array(output), np.array(lse), 0.0), expected["o"], expected["lse"])


def test_h05_the_default_scale_is_one_over_root_d() -> None:
    told = case("H05")["inputs"]
    assert attention(told["q"], told["k"], told["v"]).output.ravel().round(4).tolist() == [1.1116, 2.8884]


def test_h07_true_means_may_attend_and_what_is_masked_does_not_leak() -> None:
    assert attention([[1.0]], [[0.0], [0.0]], [[5.0], [1e30]], mask=[[True, False]]).output == 5
    with pytest.raises(ValueError, match="boolean"):
        attention([[1.0]], [[0.0], [0.0]], [[5.0], [1.0]], mask=[[1, 0]])


def test_h08_windows_are_inclusive() -> None:
    assert allowed(5, 5, window=(1, 0)).sum() == 9
    for left in (-1, 4, 5):
        np.testing.assert_array_equal(allowed(5, 5, window=(left, 0)), allowed(5, 5, causal=True))
    np.testing.assert_array_equal(allowed(3, 5, window=(-1, 1), causal=True), allowed(3, 5, causal=True))


def test_h09_the_sequence_is_the_third_axis() -> None:
    zeros = np.zeros((1, 2, 3, 4))
    np.testing.assert_allclose(attention(zeros, zeros, zeros + np.arange(3.0)[:, None]).output, 1.0, rtol=1e-15)


def test_a_block_mask_has_query_tiles_as_rows() -> None:
    keep = np.array([[True, False, False], [True, True, False], [False, False, True]])
    pairs = allowed(5, 7, block_mask=(keep, 2, 3))
    np.testing.assert_array_equal(pairs, np.kron(keep, np.ones((2, 3), dtype=bool))[:5, :7])


@given(problems())
def test_agrees_with_three_plain_loops(problem: Problem) -> None:
    result = attention(problem.q, problem.k, problem.v, **problem.rules)
    output, lse = problem.by_loops()
    nk, max_v = len(problem.k), float(np.abs(problem.v).max())
    np.testing.assert_allclose(result.output, output, rtol=0, atol=output_bound(result.max_score, nk, nk, max_v, "float64"))
    np.testing.assert_allclose(result.lse, lse, rtol=0, atol=lse_bound(result.max_score, nk, nk, "float64"))


@given(problems(), st.integers(0, 7), st.integers(0, 7))
def test_pairs_of_some_rows_are_those_rows_of_all_pairs(problem: Problem, start: int, stop: int) -> None:
    n, nk = len(problem.q), len(problem.k)
    rows = slice(start, stop)
    np.testing.assert_array_equal(allowed(n, nk, **problem.rules, rows=rows), allowed(n, nk, **problem.rules)[rows])


@given(problems())
def test_the_largest_score_is_over_allowed_pairs(problem: Problem) -> None:
    scores = np.abs(problem.q @ problem.k.T) / np.sqrt(problem.q.shape[1])
    pairs = allowed(len(problem.q), len(problem.k), **problem.rules)
    result = attention(problem.q, problem.k, problem.v, **problem.rules)
    assert result.max_score == pytest.approx(scores[pairs].max(initial=0.0), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_heads_are_apart_and_kv_heads_are_shared_by_neighbours(kv_heads: int) -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.random((2, 4, 5, 3)), rng.random((2, kv_heads, 6, 3)), rng.random((2, kv_heads, 6, 2))
    whole = attention(q, k, v, causal=True)
    for b, h in np.ndindex(2, 4):
        one = attention(q[b, h], k[b, h * kv_heads // 4], v[b, h * kv_heads // 4], causal=True)
        np.testing.assert_array_equal(whole.output[b, h], one.output)
        np.testing.assert_array_equal(whole.lse[b, h], one.lse)


def test_the_largest_score_is_over_all_heads() -> None:
    heads = np.array([1.0, 5.0, 2.0]).reshape(1, 3, 1, 1)
    assert attention(heads, np.ones((1, 3, 1, 1)), heads).max_score == 5


def test_many_row_blocks_give_what_one_gives() -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((1500, 8)), rng.standard_normal((1501, 8)), rng.standard_normal((1501, 3))
    whole = attention(q, k, v, causal=True)
    for i in (0, 348, 349, 350, 1499):
        row = attention(q[i : i + 1], k[: i + 2], v[: i + 2])
        agree(Result(whole.output[i : i + 1], whole.lse[i : i + 1], 0.0), row.output, row.lse, 1e-13)


def test_no_array_is_n_by_n() -> None:
    q = np.zeros((4096, 8))
    tracemalloc.start()
    attention(q, q, q)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4096 * 4096 * 8 / 4


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int64])
def test_any_dtype_is_widened_first(dtype: type) -> None:
    q, k, v = (np.random.default_rng(seed).integers(-4, 5, (5, 3)) for seed in range(3))
    narrow, wide = (attention(q.astype(x), k.astype(x), v.astype(x)) for x in (dtype, np.float64))
    np.testing.assert_array_equal(narrow.output, wide.output)


ONES = np.ones((3, 2))
HEADS = np.ones((1, 2, 3, 2))
NAN = np.array([[1.0, 1.0], [1.0, np.nan], [np.inf, 1.0]])


@pytest.mark.parametrize(
    ("q", "k", "v", "message"),
    [
        (np.ones(3), ONES, ONES, r"q has shape \(3,\)"),
        (ONES, np.ones((1, 3, 2)), ONES, r"k has shape \(1, 3, 2\)"),
        (np.ones((0, 2)), ONES, ONES, "q is empty"),
        (ONES, np.ones((0, 2)), np.ones((0, 2)), "k is empty"),
        (NAN, ONES, ONES, r"q\[1, 1\] is nan"),
        (ONES, ONES, -NAN[::-1], r"v\[0, 0\] is -inf"),
        (ONES, np.ones((3, 4)), ONES, "q has d = 2 but k has d = 4"),
        (ONES, ONES, np.ones((4, 2)), r"k has shape \(3, 2\) but v has \(4, 2\)"),
        (ONES, HEADS, HEADS, "as many axes"),
        (np.ones((1, 3, 3, 2)), HEADS, HEADS, "heads divide"),
        (np.ones((2, 2, 3, 2)), HEADS, HEADS, "B must agree"),
        (1e200 * ONES, 1e200 * ONES, ONES, "overflows"),
    ],
)
def test_refuses_tensors_by_name(q: Float, k: Float, v: Float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attention(q, k, v)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (Rules(window=(-2, 0)), "window"),
        (Rules(mask=np.ones((3, 4), dtype=bool)), r"\(3, 4\) but the problem needs \(3, 3\)"),
        (Rules(block_mask=(np.ones((3, 3), dtype=bool), 2, 2)), r"\(3, 3\) but the problem needs \(2, 2\)"),
        (Rules(block_mask=(np.ones((3, 3), dtype=bool), 0, 2)), "0 x 2"),
    ],
)
def test_refuses_rules_that_do_not_fit(rules: Rules, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attention(ONES, ONES, ONES, **rules)


def test_refuses_a_scale_that_is_no_number() -> None:
    with pytest.raises(ValueError, match="scale"):
        attention(ONES, ONES, ONES, scale=float("nan"))
