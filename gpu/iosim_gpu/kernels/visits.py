"""One visit in the first paper's loop order: a query tile's O, l and m come from global memory and go back there.

Device functions in the manner of :mod:`iosim_gpu.kernels.tiles`, which ``flash`` and ``block_sparse`` share, and with them their arrays,
the slots of their counters and their tiles on chip.
"""

from __future__ import annotations

import math

import numpy as np

from iosim_gpu.kernels.tiles import HIDDEN, LOWEST, Device, device
from iosim_gpu.tiling import Tiling

ARRAYS = "Q K V O l m"
SLOTS = "Q.loads K.loads V.loads O.loads O.stores l.loads l.stores m.loads m.stores"
Q_LOADS, K_LOADS, V_LOADS, O_LOADS, O_STORES, L_LOADS, L_STORES, M_LOADS, M_STORES = range(9)


def room(t: Tiling) -> tuple[int, ...]:
    """Words of Q_i, K_j, V_j, S_ij, a and b."""
    return (t.rows * t.dp, t.cols * t.dp, t.cols * t.dp, t.rows * t.cp, t.rows, t.rows)


def starting(tiling: Tiling) -> Device:
    """``start_rows``: O_i = 0, l_i = 0, m_i = -inf in global memory (Algorithm 1, line 2)."""
    d, T = tiling.d, tiling.threads

    @device
    def start_rows(O, l, m, head, i0, rows, t, n):  # type: ignore[no-untyped-def]
        for e in range(t, rows * d, T):
            O[head, i0 + e // d, e % d] = np.float32(0.0)
            n[O_STORES] += 1
        for r in range(t, rows, T):
            l[head, i0 + r] = np.float32(0.0)
            m[head, i0 + r] = HIDDEN
            n[L_STORES] += 1
            n[M_STORES] += 1

    return start_rows


def updating(tiling: Tiling) -> Device:
    """``update_rows``: S_ij becomes P_ij, and l_i and m_i take it in (lines 10 and 11).

    ``a`` and ``b`` get the factors by which line 12 multiplies O_i and P_ij V_j.
    """
    CP, T = tiling.cp, tiling.threads

    @device
    def update_rows(s, l, m, a, b, head, i0, rows, cols, t, n):  # type: ignore[no-untyped-def]
        for r in range(t, rows, T):
            m_t = LOWEST
            for c in range(cols):
                m_t = max(m_t, s[r * CP + c])
            l_t = np.float32(0.0)
            for c in range(cols):
                p = math.exp(s[r * CP + c] - m_t)
                s[r * CP + c] = p
                l_t += p
            m_i = max(LOWEST, m[head, i0 + r])
            m_new = max(m_i, m_t)
            old = math.exp(m_i - m_new) * l[head, i0 + r]
            new = math.exp(m_t - m_new)
            l_new = old + new * l_t
            total = l_new
            if l_new == np.float32(0.0):  # this query has met no key
                total = np.float32(1.0)
                m_new = HIDDEN
            a[r] = old / total
            b[r] = new / total
            l[head, i0 + r] = l_new
            m[head, i0 + r] = m_new
            n[L_LOADS] += 1
            n[M_LOADS] += 1
            n[L_STORES] += 1
            n[M_STORES] += 1

    return update_rows


def weighing(tiling: Tiling) -> Device:
    """``weigh_values``: O_i = a O_i + b P_ij V_j in global memory (line 12)."""
    d, DP, CP, T = tiling.d, tiling.dp, tiling.cp, tiling.threads

    @device
    def weigh_values(s, v, a, b, O, head, i0, rows, cols, t, n):  # type: ignore[no-untyped-def]
        for e in range(t, rows * d, T):
            r, x = e // d, e % d
            acc = np.float32(0.0)
            for c in range(cols):
                acc += s[r * CP + c] * v[c * DP + x]
            O[head, i0 + r, x] = a[r] * O[head, i0 + r, x] + b[r] * acc
            n[O_LOADS] += 1
            n[O_STORES] += 1

    return weigh_values
