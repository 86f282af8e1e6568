"""Narrow storage: what is rounded once is as good as an untiled computation; what waits in HBM is rounded at every visit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from iosim import Attention, simulate
from iosim.attention import judge
from iosim.attention.inputs import random_inputs
from iosim.attention.plan import make_plan
from iosim.core import dtypes

Float = NDArray[np.float32]
NARROW = tuple(name for name in dtypes.NAMES if dtypes.itemsize(name) < 4)
N, D, BC = 256, 32, 8
TILES = N // BC


class Problem(NamedTuple):
    """A narrow problem and its numbers, widened to float32."""

    dtype: str
    q: Float
    k: Float
    v: Float
    do: Float

    @property
    def attention(self) -> Attention:
        return Attention(N, D, dtype=self.dtype)

    def rounded(self, x: Float) -> Float:
        return x.astype(dtypes.storage(self.dtype)).astype(np.float32)

    def weights(self, keys: slice = slice(None)) -> Float:
        return np.asarray(self.q @ self.k[keys].T * np.float32(self.attention.softmax_scale))


def problem(dtype: str, seed: int) -> Problem:
    values = random_inputs(Attention(N, D, dtype=dtype), seed, gradient=True)
    return Problem(dtype, *(values[name].astype(np.float32) for name in ("Q", "K", "V", "dO")))


def error(kernel: str, p: Problem, seed: int, tensor: str, **options: str) -> float:
    """How far ``tensor`` of an executed kernel is from the float64 oracle's."""
    plan = make_plan(kernel, p.attention, 10**8, (64, BC), None, options)
    return judge.execute(plan, [random_inputs(p.attention, seed, gradient="backward" in kernel)]).errors()[tensor]


def untiled_output(p: Problem) -> Float:
    """softmax(S) V in float32, not rounded."""
    s = p.weights()
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return np.asarray(e @ p.v / e.sum(axis=1, keepdims=True))


def recurrence(p: Problem) -> Float:
    """Algorithm 1 for all queries at once, O rounded after every key tile."""
    o, l, m = np.zeros((N, D), np.float32), np.zeros((N, 1), np.float32), np.full((N, 1), -np.inf, np.float32)
    for j in range(0, N, BC):
        s = p.weights(slice(j, j + BC))
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        old, e = l * np.exp(m - m_new), np.exp(s - m_new)
        l_new = old + e.sum(axis=1, keepdims=True)
        o = p.rounded((old * o + e @ p.v[j : j + BC]) / l_new)
        l, m = l_new, m_new
    return o


def score_gradient(p: Problem) -> Float:
    """dS in float32, from the O that HBM holds."""
    s = p.weights()
    e = np.exp(s - s.max(axis=1, keepdims=True))
    weights = e / e.sum(axis=1, keepdims=True)
    delta = (p.do * p.rounded(untiled_output(p))).sum(axis=1, keepdims=True)
    return np.asarray(np.float32(p.attention.softmax_scale) * weights * (p.do @ p.v.T - delta))


def accumulated(p: Problem) -> Float:
    """dQ = dS K, rounded after every key tile."""
    ds, dq = score_gradient(p), np.zeros((N, D), np.float32)
    for j in range(0, N, BC):
        dq = p.rounded(dq + ds[:, j : j + BC] @ p.k[j : j + BC])
    return dq


def distance(p: Problem, seed: int, tensor: str, found: Float) -> float:
    """How far ``found`` is from the float64 oracle's ``tensor``."""
    kernel = "flash2" if tensor == "O" else "flash2-backward"
    plan = make_plan(kernel, p.attention, 10**8, (64, BC), None, {})
    run = judge.execute(plan, [random_inputs(p.attention, seed, gradient=tensor != "O")])
    return float(np.abs(found.astype(np.float64) - run.truths[0].values[tensor]).max())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", NARROW)
def test_an_output_that_is_rounded_once_is_as_good_as_an_untiled_one(dtype: str, seed: int) -> None:
    p = problem(dtype, seed)
    least = distance(p, seed, "O", p.rounded(untiled_output(p)))
    assert error("flash2", p, seed, "O") <= 2 * least
    for kernel, options in (("flash", {"first_pass": "create", "accumulator": "float32"}), ("released", {})):
        assert error(kernel, p, seed, "O", **options) <= 2 * least


@pytest.mark.parametrize("first_pass", ["load", "create"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", NARROW)
def test_an_output_that_waits_in_hbm_is_as_good_as_the_recurrence_that_rounds_as_often(dtype: str, seed: int, first_pass: str) -> None:
    p = problem(dtype, seed)
    assert error("flash", p, seed, "O", first_pass=first_pass) <= 2 * distance(p, seed, "O", recurrence(p))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", NARROW)
def test_a_gradient_that_is_rounded_once_is_as_good_as_an_untiled_one(dtype: str, seed: int) -> None:
    p = problem(dtype, seed)
    least = distance(p, seed, "dQ", p.rounded(score_gradient(p) @ p.k))
    create = {"first_pass": "create", "accumulator": "float32"}
    for kernel, options in (
        ("flash2-backward", {"accumulator": "float32"}), ("flash2-backward", {"dq_pass": "own"}), ("flash-backward", create),
    ):  # fmt: skip
        assert error(kernel, p, seed, "dQ", **options) <= 2 * least


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", NARROW[:2])
@pytest.mark.parametrize("kernel", ["flash-backward", "flash2-backward"])
def test_a_gradient_that_waits_in_hbm_is_as_good_as_a_sum_that_rounds_as_often(kernel: str, dtype: str, seed: int) -> None:
    p = problem(dtype, seed)
    assert error(kernel, p, seed, "dQ") <= 2 * distance(p, seed, "dQ", accumulated(p))


def test_the_lesson_rounding_at_every_visit_costs_several_times_the_error() -> None:
    p = problem("float16", 0)
    often, once = error("flash", p, 0, "O"), error("flash2", p, 0, "O")
    assert TILES == 32
    assert 3 < often / once < 15


@pytest.mark.parametrize(("dtype", "width"), [("float16", 2), ("bfloat16", 2), ("float8_e4m3fn", 1), ("float8_e5m2", 1), ("float64", 8)])
def test_bytes_follow_the_type_of_each_array(dtype: str, width: int) -> None:
    wide = max(4, width)
    made = simulate("flash2-backward", Attention(64, 16, dtype=dtype), sram="64KiB", accumulator="float32")
    widths = {name: array.itemsize for name, array in made.arrays.items()}
    assert widths == dict.fromkeys(("Q", "K", "V", "O", "dO", "dQ", "dK", "dV"), width) | dict.fromkeys(("LSE", "D", "dQ_acc"), wide)
    assert made.bytes == sum((array.reads + array.writes) * widths[name] for name, array in made.arrays.items())
