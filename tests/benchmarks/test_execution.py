"""What counting costs: a kernel executed on the machine, against the same mathematics as a bare NumPy loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import thread_time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iosim import KERNELS, Attention, Blocks, Machine, Options, random_inputs
from iosim.attention.arrays import launch
from iosim.memory import Counts, Event, Hbm, Observer

Array = NDArray[np.generic]
Float = NDArray[np.float32]

PROBLEM, BLOCKS = Attention(n=1024, d=64), Blocks(64, 64)
VALUES = random_inputs(PROBLEM)
LOWEST = np.array(np.finfo(np.float32).min)


class ByHand(NamedTuple):
    """What the machine counts."""

    reads: dict[str, int]
    writes: dict[str, int]
    matmul: int
    elementwise: int
    exp: int
    peak: int


def bare(Q: Float, K: Float, V: Float, Br: int, Bc: int, scale: float) -> tuple[Float, Float, ByHand]:
    """The expressions and guards of :func:`iosim.attention.kernels.flash2.flash2` on NumPy arrays, every count added by hand."""
    N_q, (N_k, d_v) = len(Q), V.shape
    O, LSE = np.empty((N_q, d_v), np.float32), np.empty((N_q, 1), np.float32)
    reads, writes = (dict.fromkeys(("Q", "K", "V", "O", "LSE"), 0) for _ in range(2))
    matmul = elementwise = exp = peak = 0
    for i in range(0, N_q, Br):
        q = Q[i : i + Br]
        reads["Q"] += q.size
        o = np.full((len(q), d_v), 0.0, np.float32)
        l_i = np.full((len(q), 1), 0.0, np.float32)
        m_i = np.full((len(q), 1), -np.inf, np.float32)
        outer = q.size + o.size + l_i.size + m_i.size
        for j in range(0, N_k, Bc):
            k, v = K[j : j + Bc], V[j : j + Bc]
            reads["K"] += k.size
            reads["V"] += v.size
            s = scale * (q @ k.T)
            matmul += 2 * q.size * len(k)
            elementwise += s.size
            m_new = np.maximum(np.maximum(m_i, s.max(axis=1, keepdims=True)), LOWEST)
            elementwise += s.size + 2 * m_i.size
            s = np.exp(s - m_new)
            elementwise += s.size
            exp += s.size
            alpha = np.exp(m_i - m_new)
            elementwise += m_i.size
            exp += m_i.size
            peak = max(peak, outer + k.size + v.size + s.size + m_new.size + alpha.size)
            l_i *= alpha
            l_i += s.sum(axis=1, keepdims=True)
            elementwise += 2 * l_i.size + s.size
            o *= alpha
            o += s @ v
            elementwise += 2 * o.size
            matmul += 2 * s.size * d_v
            m_i[...] = m_new
        O[i : i + Br] = o / np.where(l_i == 0, 1, l_i)
        with np.errstate(divide="ignore"):
            LSE[i : i + Br] = m_i + np.log(l_i)
        elementwise += o.size + 2 * l_i.size
        exp += l_i.size
        writes["O"] += o.size
        writes["LSE"] += l_i.size
    return O, LSE, ByHand(reads, writes, matmul, elementwise, exp, peak)


def plain() -> tuple[Float, Float, ByHand]:
    Q, K, V = (VALUES[name].astype(np.float32, copy=False) for name in "QKV")
    return bare(Q, K, V, BLOCKS.rows, BLOCKS.cols, PROBLEM.softmax_scale)


def simulated(observers: Sequence[Observer] = ()) -> tuple[dict[str, Hbm], Counts]:
    m = Machine(49152, mode="execute", observers=observers)
    return launch(KERNELS["flash2"], m, PROBLEM, BLOCKS, Options(), VALUES), m.finish()


def observed() -> None:
    events: list[Event] = []
    simulated([events.append])


def test_the_bare_loop_does_the_same() -> None:
    (arrays, counts), (O, LSE, by_hand) = simulated(), plain()
    for name, values in {"O": O, "LSE": LSE}.items():
        assert arrays[name].data is not None
        assert np.array_equal(np.asarray(arrays[name].data), values)
    moved = {name: (array.reads, array.writes) for name, array in counts.arrays.items()}
    assert moved == {name: (by_hand.reads[name], by_hand.writes[name]) for name in moved}
    assert (counts.flops.matmul, counts.flops.elementwise, counts.flops.exp) == (by_hand.matmul, by_hand.elementwise, by_hand.exp)
    assert counts.peak_sram == by_hand.peak


def test_executed_and_counted(turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None]) -> None:
    """flash2, N = 1024, d = 64, 64x64, float32, on one BLAS thread; seconds of that thread, which other processes cannot add to."""
    ours, bare_loop, with_observer = turns(simulated, plain, observed, rounds=61, clock=thread_time)
    figure("times a bare NumPy loop", median(map(float.__truediv__, ours, bare_loop)), "<= 1.6")
    figure("times it with an observer", median(map(float.__truediv__, with_observer, bare_loop)), "<= 3")


LONG = "import iosim; report = iosim.simulate('flash2', iosim.Attention(n=16384, d=64)); assert report.sound and report.max_error"


def test_executed_at_16384(
    turns: Callable[..., list[list[float]]],
    figure: Callable[[str, float, str], None],
    peak_megabytes: Callable[[str], float],
) -> None:
    """flash2 with the float64 oracle through the Python API: no N x N array, which alone would take 1 GiB in float32."""
    peaks: list[float] = []
    [seconds] = turns(lambda: peaks.append(peak_megabytes(LONG)), rounds=1, warmup=0)
    figure("MB at the peak, oracle included", max(peaks), "< 400")
    figure("seconds, oracle included", median(seconds), "")
