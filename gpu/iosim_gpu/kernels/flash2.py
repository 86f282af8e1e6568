"""FlashAttention-2, forward: one block of threads for every query tile; K and V stream past it."""

from __future__ import annotations

import math
from collections.abc import Callable

from iosim_gpu.cuda import cuda, float32, int64
from iosim_gpu.kernels.tiles import HIDDEN, LOWEST, loading, scoring, zeroing
from iosim_gpu.steps import ROOMS
from iosim_gpu.tiling import Tiling, offsets

Q_LOADS, K_LOADS, V_LOADS, O_STORES, LSE_STORES, SLOTS = range(6)


def make_flash2(tiling: Tiling) -> Callable[..., None]:
    """FlashAttention-2 forward (Dao 2023, arXiv 2307.08691, Algorithm 1) for one tiling.

    Grid ``(ceil(N_q / Br), B H)``. Q_i, K_j, V_j, S_ij, O_i, m, l and alpha lie in shared memory.
    """
    Br, Bc, d, T = tiling.rows, tiling.cols, tiling.d, tiling.threads
    DP, CP, causal, counting = tiling.dp, tiling.cp, tiling.causal, tiling.counting
    Q0, K0, V0, S0, O0, M0, L0, A0, END = offsets(ROOMS["flash2"](tiling))
    WORDS = 0 if tiling.dynamic else END
    load_tile, zero_tile, score_tile = loading(tiling), zeroing(tiling), scoring(tiling)

    def flash2(Q, K, V, O, LSE, scale, counts):  # type: ignore[no-untyped-def]
        room = cuda.shared.array(WORDS, float32)
        q, k, v, s, o = room[Q0:K0], room[K0:V0], room[V0:S0], room[S0:O0], room[O0:M0]
        m, l, alpha = room[M0:L0], room[L0:A0], room[A0:END]
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
            if total == float32(0.0):
                total = float32(1.0)
            O[head, i0 + r, x] = o[r * DP + x] / total
            n[O_STORES] += 1
        for r in range(t, rows, T):
            lse = HIDDEN
            if l[r] > float32(0.0):
                lse = m[r] + math.log(l[r])
            LSE[head, i0 + r] = lse
            n[LSE_STORES] += 1
        if counting:
            for slot in range(SLOTS):
                cuda.atomic.add(counts, slot, n[slot])

    return flash2
