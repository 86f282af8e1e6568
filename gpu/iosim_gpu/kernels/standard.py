"""Standard attention, forward: three launches, between which the scores S and the weights P lie whole in global memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from iosim_gpu.declaration import Function, Kernel, launch
from iosim_gpu.kernels.frame import framed
from iosim_gpu.kernels.tiles import HIDDEN, LOWEST, Device, clipping, device, loading, storing, zeroing
from iosim_gpu.tiling import Tiling

if TYPE_CHECKING:
    from iosim_gpu.cuda import cuda


@launch("Q K S", "Q.loads K.loads S.stores", "queries", lambda t: (t.rows * t.dp, t.cols * t.dp))
def scores(tiling: Tiling) -> Function:
    """S = scale Q K^T (Dao et al. 2022, arXiv 2205.14135, Algorithm 0, line 1) for one tiling.

    Grid ``(ceil(N_q / Br), B H)``. Q_i and K_j lie in shared memory. S is stored whole: where no pair of a tile may attend it is
    filled with -inf, and K is not read.
    """
    Br, Bc, d, T, DP, causal = tiling.rows, tiling.cols, tiling.d, tiling.threads, tiling.dp, tiling.causal
    parts, counters, tell = framed(scores, tiling)
    load_tile, (end_of_keys, _) = loading(tiling), clipping(tiling)
    Q_LOADS, K_LOADS, S_STORES = range(3)

    def kernel(Q, K, S, scale, counts):  # type: ignore[no-untyped-def]
        q, k = parts(cuda.shared.array)
        n = counters(cuda.local.array)
        t, head, i0 = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * Br
        rows = min(Br, Q.shape[1] - i0)
        ahead = K.shape[1] - Q.shape[1]  # causal is aligned bottom-right
        end = end_of_keys(i0 + rows, ahead, K.shape[1])
        load_tile(Q, head, i0, rows, q, t, n, Q_LOADS)
        for j0 in range(0, K.shape[1], Bc):
            cols = min(Bc, K.shape[1] - j0)
            if j0 < end:
                cuda.syncthreads()
                load_tile(K, head, j0, cols, k, t, n, K_LOADS)
                cuda.syncthreads()
            for e in range(t, rows * cols, T):
                r, c = e // cols, e % cols
                acc = HIDDEN
                if not causal or j0 + c <= i0 + r + ahead:
                    acc = np.float32(0.0)
                    for x in range(d):
                        acc += q[r * DP + x] * k[c * DP + x]
                    acc *= scale
                S[head, i0 + r, j0 + c] = acc
                n[S_STORES] += 1
        tell(n, counts, cuda.atomic.add)

    return kernel


@launch("S P", "S.loads P.stores", "queries", lambda t: (t.rows * t.cp, t.rows, t.rows))
def softmax(tiling: Tiling) -> Function:
    """P = softmax(S) (line 2 there) for one tiling, in tiles: an online pass for m and l, then a second read of S.

    Grid ``(ceil(N_q / Br), B H)``. S_ij, m and l lie in shared memory, in the first pass; the second needs no tile.
    """
    Br, Bc, T, CP = tiling.rows, tiling.cols, tiling.threads, tiling.cp
    parts, counters, tell = framed(softmax, tiling)
    load_pairs = loading_pairs(tiling)
    S_LOADS, P_STORES = range(2)

    def kernel(S, P, scale, counts):  # type: ignore[no-untyped-def]
        s, m, l = parts(cuda.shared.array)
        n = counters(cuda.local.array)
        t, head, i0 = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * Br
        rows = min(Br, S.shape[1] - i0)
        for r in range(t, rows, T):
            m[r] = LOWEST
            l[r] = 0.0
        for j0 in range(0, S.shape[2], Bc):
            cols = min(Bc, S.shape[2] - j0)
            cuda.syncthreads()
            load_pairs(S, head, i0, rows, j0, cols, s, t, n, S_LOADS)
            cuda.syncthreads()
            for r in range(t, rows, T):
                m_new = m[r]
                for c in range(cols):
                    m_new = max(m_new, s[r * CP + c])
                l_new = l[r] * math.exp(m[r] - m_new)
                for c in range(cols):
                    l_new += math.exp(s[r * CP + c] - m_new)
                m[r] = m_new
                l[r] = l_new
        cuda.syncthreads()
        for j0 in range(0, S.shape[2], Bc):
            cols = min(Bc, S.shape[2] - j0)
            for e in range(t, rows * cols, T):
                r, c = e // cols, e % cols
                total = l[r]
                if total == np.float32(0.0):
                    total = np.float32(1.0)
                P[head, i0 + r, j0 + c] = math.exp(S[head, i0 + r, j0 + c] - m[r]) / total
                n[S_LOADS] += 1
                n[P_STORES] += 1
        tell(n, counts, cuda.atomic.add)

    return kernel


@launch("P V O", "P.loads V.loads O.stores", "queries", lambda t: (t.rows * t.cp, t.cols * t.dp, t.rows * t.dp))
def weighted(tiling: Tiling) -> Function:
    """O = P V (line 3 there) for one tiling, over the tiles in which a pair may attend.

    Grid ``(ceil(N_q / Br), B H)``. P_ij, V_j and O_i lie in shared memory.
    """
    Br, Bc, d, T, DP, CP = tiling.rows, tiling.cols, tiling.d, tiling.threads, tiling.dp, tiling.cp
    parts, counters, tell = framed(weighted, tiling)
    load_tile, store_tile, zero_tile, load_pairs = loading(tiling), storing(tiling), zeroing(tiling), loading_pairs(tiling)
    end_of_keys, _ = clipping(tiling)
    P_LOADS, V_LOADS, O_STORES = range(3)

    def kernel(P, V, O, scale, counts):  # type: ignore[no-untyped-def]
        p, v, o = parts(cuda.shared.array)
        n = counters(cuda.local.array)
        t, head, i0 = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * Br
        rows = min(Br, P.shape[1] - i0)
        ahead = P.shape[2] - P.shape[1]  # causal is aligned bottom-right
        end = end_of_keys(i0 + rows, ahead, P.shape[2])
        zero_tile(o, rows, t)
        for j0 in range(0, end, Bc):
            cols = min(Bc, P.shape[2] - j0)
            cuda.syncthreads()
            load_pairs(P, head, i0, rows, j0, cols, p, t, n, P_LOADS)
            load_tile(V, head, j0, cols, v, t, n, V_LOADS)
            cuda.syncthreads()
            for e in range(t, rows * d, T):
                r, x = e // d, e % d
                acc = o[r * DP + x]
                for c in range(cols):
                    acc += p[r * CP + c] * v[c * DP + x]
                o[r * DP + x] = acc
        store_tile(O, head, i0, rows, o, t, n, O_STORES)
        tell(n, counts, cuda.atomic.add)

    return kernel


def loading_pairs(tiling: Tiling) -> Device:
    """``load_pairs``: ``rows`` x ``cols`` elements of S or P, from pair ``(i0, j0)`` on, come on chip.

    A device function in the manner of :mod:`iosim_gpu.kernels.tiles`.
    """
    CP, T = tiling.cp, tiling.threads

    @device
    def load_pairs(X, head, i0, rows, j0, cols, x, t, n, slot):  # type: ignore[no-untyped-def]
        for e in range(t, rows * cols, T):
            x[e // cols * CP + e % cols] = X[head, i0 + e // cols, j0 + e % cols]
            n[slot] += 1

    return load_pairs


KERNEL = Kernel(
    "standard", lambda: (scores, softmax, weighted), listing={"softmax": "streamed"}, timed=True, baseline=True, place=1
)  # fmt: skip
