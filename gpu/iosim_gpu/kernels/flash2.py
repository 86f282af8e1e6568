"""FlashAttention-2, forward: one thread block for every query tile; K and V stream past it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from iosim_gpu.declaration import Function, Kernel, launch
from iosim_gpu.kernels.frame import framed
from iosim_gpu.kernels.tiles import HIDDEN, LOWEST, clipping, loading, scoring, zeroing
from iosim_gpu.tiling import Tiling

if TYPE_CHECKING:
    from iosim_gpu.cuda import cuda

Q_LOADS, K_LOADS, V_LOADS, O_STORES, LSE_STORES = range(5)


@launch(
    "Q K V O LSE", "Q.loads K.loads V.loads O.stores LSE.stores", "queries",
    lambda t: (t.rows * t.dp, t.cols * t.dp, t.cols * t.dp, t.rows * t.cp, t.rows * t.dp, t.rows, t.rows, t.rows),
)  # fmt: skip
def flash2(tiling: Tiling) -> Function:
    """FlashAttention-2 forward (Dao 2023, arXiv 2307.08691, Algorithm 1) for one tiling.

    Grid ``(ceil(N_q / Br), B H)``. Q_i, K_j, V_j, S_ij, O_i, m, l and alpha lie in shared memory.
    """
    Br, Bc, d, T = tiling.rows, tiling.cols, tiling.d, tiling.threads
    DP, CP = tiling.dp, tiling.cp
    parts, counters, tell = framed(flash2, tiling)
    load_tile, zero_tile, score_tile, (end_of_keys, _) = loading(tiling), zeroing(tiling), scoring(tiling), clipping(tiling)

    def kernel(Q, K, V, O, LSE, scale, counts):  # type: ignore[no-untyped-def]
        q, k, v, s, o, m, l, alpha = parts(cuda.shared.array)
        n = counters(cuda.local.array)
        t, head, i0 = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * Br
        rows = min(Br, Q.shape[1] - i0)
        ahead = K.shape[1] - Q.shape[1]  # causal is aligned bottom-right
        end = end_of_keys(i0 + rows, ahead, K.shape[1])
        load_tile(Q, head, i0, rows, q, t, n, Q_LOADS)
        zero_tile(o, rows, t)
        for r in range(t, rows, T):
            m[r] = LOWEST
            l[r] = 0.0
        for j0 in range(0, end, Bc):
            cols = min(Bc, K.shape[1] - j0)
            cuda.syncthreads()
            load_tile(K, head, j0, cols, k, t, n, K_LOADS)
            load_tile(V, head, j0, cols, v, t, n, V_LOADS)
            cuda.syncthreads()
            score_tile(q, k, s, rows, cols, scale, i0 + ahead - j0, t)
            cuda.syncthreads()
            for r in range(t, rows, T):
                m_new = m[r]
                for c in range(cols):
                    m_new = max(m_new, s[r * CP + c])
                alpha[r] = math.exp(m[r] - m_new)
                l_new = alpha[r] * l[r]
                for c in range(cols):
                    p = math.exp(s[r * CP + c] - m_new)
                    s[r * CP + c] = p
                    l_new += p
                m[r] = m_new
                l[r] = l_new
            cuda.syncthreads()
            for e in range(t, rows * d, T):
                r, x = e // d, e % d
                acc = alpha[r] * o[r * DP + x]
                for c in range(cols):
                    acc += s[r * CP + c] * v[c * DP + x]
                o[r * DP + x] = acc
        cuda.syncthreads()  # for the sake of query tiles that met no key tile
        for e in range(t, rows * d, T):
            r, x = e // d, e % d
            total = l[r]
            if total == np.float32(0.0):
                total = np.float32(1.0)
            O[head, i0 + r, x] = o[r * DP + x] / total
            n[O_STORES] += 1
        for r in range(t, rows, T):
            lse = HIDDEN
            if l[r] > np.float32(0.0):
                lse = m[r] + math.log(l[r])
            LSE[head, i0 + r] = lse
            n[LSE_STORES] += 1
        tell(n, counts, cuda.atomic.add)

    return kernel


KERNEL = Kernel("flash2", lambda: (flash2,), timed=True, place=3)
