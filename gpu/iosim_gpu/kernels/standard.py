"""Standard attention, forward: three launches, between which the scores S and the weights P lie whole in global memory."""

from __future__ import annotations

import math
from collections.abc import Callable

from iosim_gpu.cuda import cuda, float32, int64
from iosim_gpu.kernels.tiles import HIDDEN, LOWEST, loading, storing, zeroing
from iosim_gpu.steps import ROOMS
from iosim_gpu.tiling import Tiling, offsets


def make_scores(tiling: Tiling) -> Callable[..., None]:
    """S = scale Q K^T (Dao et al. 2022, arXiv 2205.14135, Algorithm 0, line 1) for one tiling.

    Grid ``(ceil(N_q / Br), B H)``. Q_i and K_j lie in shared memory. S is stored whole: where no pair of a tile may attend it is
    filled with -inf, and K is not read.
    """
    Br, Bc, d, T = tiling.rows, tiling.cols, tiling.d, tiling.threads
    DP, causal, counting = tiling.dp, tiling.causal, tiling.counting
    Q0, K0, END = offsets(ROOMS["scores"](tiling))
    WORDS = 0 if tiling.dynamic else END
    load_tile = loading(tiling)
    Q_LOADS, K_LOADS, S_STORES, SLOTS = range(4)

    def scores(Q, K, S, scale, counts):  # type: ignore[no-untyped-def]
        room = cuda.shared.array(WORDS, float32)
        q, k = room[Q0:K0], room[K0:END]
        n = cuda.local.array(SLOTS, int64)
        for slot in range(SLOTS):
            n[slot] = 0
        t, head = cuda.threadIdx.x, cuda.blockIdx.y
        i0 = cuda.blockIdx.x * Br
        rows = min(Br, Q.shape[1] - i0)
        ahead = K.shape[1] - Q.shape[1]  # causal is aligned bottom-right
        end = K.shape[1]
        if causal:
            end = min(end, i0 + rows + ahead)
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
                    acc = float32(0.0)
                    for x in range(d):
                        acc += q[r * DP + x] * k[c * DP + x]
                    acc *= scale
                S[head, i0 + r, j0 + c] = acc
                n[S_STORES] += 1
        if counting:
            for slot in range(SLOTS):
                cuda.atomic.add(counts, slot, n[slot])

    return scores


def make_softmax(tiling: Tiling) -> Callable[..., None]:
    """P = softmax(S) (line 2 there) for one tiling, in tiles: an online pass for m and l, then a second read of S.

    Grid ``(ceil(N_q / Br), B H)``. S_ij, m and l lie in shared memory, in the first pass; the second needs no tile.
    """
    Br, Bc, T = tiling.rows, tiling.cols, tiling.threads
    CP, counting = tiling.cp, tiling.counting
    S0, M0, L0, END = offsets(ROOMS["softmax"](tiling))
    WORDS = 0 if tiling.dynamic else END
    S_LOADS, P_STORES, SLOTS = range(3)

    def softmax(S, P, scale, counts):  # type: ignore[no-untyped-def]
        room = cuda.shared.array(WORDS, float32)
        s, m, l = room[S0:M0], room[M0:L0], room[L0:END]
        n = cuda.local.array(SLOTS, int64)
        for slot in range(SLOTS):
            n[slot] = 0
        t, head = cuda.threadIdx.x, cuda.blockIdx.y
        i0 = cuda.blockIdx.x * Br
        rows = min(Br, S.shape[1] - i0)
        for r in range(t, rows, T):
            m[r] = LOWEST
            l[r] = 0.0
        for j0 in range(0, S.shape[2], Bc):
            cols = min(Bc, S.shape[2] - j0)
            cuda.syncthreads()
            for e in range(t, rows * cols, T):
                s[e // cols * CP + e % cols] = S[head, i0 + e // cols, j0 + e % cols]
                n[S_LOADS] += 1
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
                if total == float32(0.0):
                    total = float32(1.0)
                P[head, i0 + r, j0 + c] = math.exp(S[head, i0 + r, j0 + c] - m[r]) / total
                n[S_LOADS] += 1
                n[P_STORES] += 1
        if counting:
            for slot in range(SLOTS):
                cuda.atomic.add(counts, slot, n[slot])

    return softmax


def make_weighted(tiling: Tiling) -> Callable[..., None]:
    """O = P V (line 3 there) for one tiling, over the tiles in which a pair may attend.

    Grid ``(ceil(N_q / Br), B H)``. P_ij, V_j and O_i lie in shared memory.
    """
    Br, Bc, d, T = tiling.rows, tiling.cols, tiling.d, tiling.threads
    DP, CP, causal, counting = tiling.dp, tiling.cp, tiling.causal, tiling.counting
    P0, V0, O0, END = offsets(ROOMS["weighted"](tiling))
    WORDS = 0 if tiling.dynamic else END
    load_tile, store_tile, zero_tile = loading(tiling), storing(tiling), zeroing(tiling)
    P_LOADS, V_LOADS, O_STORES, SLOTS = range(4)

    def weighted(P, V, O, scale, counts):  # type: ignore[no-untyped-def]
        room = cuda.shared.array(WORDS, float32)
        p, v, o = room[P0:V0], room[V0:O0], room[O0:END]
        n = cuda.local.array(SLOTS, int64)
        for slot in range(SLOTS):
            n[slot] = 0
        t, head = cuda.threadIdx.x, cuda.blockIdx.y
        i0 = cuda.blockIdx.x * Br
        rows = min(Br, P.shape[1] - i0)
        end = P.shape[2]
        if causal:
            end = min(end, i0 + rows + P.shape[2] - P.shape[1])  # aligned bottom-right
        zero_tile(o, rows, t)
        for j0 in range(0, end, Bc):
            cols = min(Bc, P.shape[2] - j0)
            cuda.syncthreads()
            for e in range(t, rows * cols, T):
                p[e // cols * CP + e % cols] = P[head, i0 + e // cols, j0 + e % cols]
                n[P_LOADS] += 1
            load_tile(V, head, j0, cols, v, t, n, V_LOADS)
            cuda.syncthreads()
            for e in range(t, rows * d, T):
                r, x = e // d, e % d
                acc = o[r * DP + x]
                for c in range(cols):
                    acc += p[r * CP + c] * v[c * DP + x]
                o[r * DP + x] = acc
        store_tile(O, head, i0, rows, o, t, n, O_STORES)
        if counting:
            for slot in range(SLOTS):
                cuda.atomic.add(counts, slot, n[slot])

    return weighted
