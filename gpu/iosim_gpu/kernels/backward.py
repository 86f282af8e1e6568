"""FlashAttention-2, backward: D first; then keys outside for dK and dV, with dQ added atomically or made by a pass of its own."""

from __future__ import annotations

import math
from collections.abc import Callable

from iosim_gpu.cuda import cuda, float32, int64
from iosim_gpu.kernels.tiles import HIDDEN, LOWEST, Device, device, loading, storing, zeroing
from iosim_gpu.steps import ROOMS
from iosim_gpu.tiling import Tiling, offsets


def make_delta(tiling: Tiling) -> Callable[..., None]:
    """D = rowsum(dO * O) (Dao 2023, arXiv 2307.08691, Algorithm 2, before its loops) for one tiling.

    Grid ``(ceil(N_q / Br), B H)``. The products of a tile lie in shared memory until a thread adds up their row.
    """
    Br, d, T = tiling.rows, tiling.d, tiling.threads
    DP, counting = tiling.dp, tiling.counting
    WORDS = 0 if tiling.dynamic else sum(ROOMS["delta"](tiling))
    O_LOADS, DO_LOADS, D_STORES, SLOTS = range(4)

    def delta(O, dO, D, scale, counts):  # type: ignore[no-untyped-def]
        products = cuda.shared.array(WORDS, float32)
        n = cuda.local.array(SLOTS, int64)
        for slot in range(SLOTS):
            n[slot] = 0
        t, head = cuda.threadIdx.x, cuda.blockIdx.y
        i0 = cuda.blockIdx.x * Br
        rows = min(Br, O.shape[1] - i0)
        for e in range(t, rows * d, T):
            r, x = e // d, e % d
            products[r * DP + x] = dO[head, i0 + r, x] * O[head, i0 + r, x]
            n[O_LOADS] += 1
            n[DO_LOADS] += 1
        cuda.syncthreads()
        for r in range(t, rows, T):
            acc = float32(0.0)
            for x in range(d):
                acc += products[r * DP + x]
            D[head, i0 + r] = acc
            n[D_STORES] += 1
        if counting:
            for slot in range(SLOTS):
                cuda.atomic.add(counts, slot, n[slot])

    return delta


def make_fill(tiling: Tiling) -> Callable[..., None]:
    """dQ = 0 in global memory, where the key tiles are to add to it, for one tiling. Grid ``(ceil(N_q / Br), B H)``."""
    Br, d, T, counting = tiling.rows, tiling.d, tiling.threads, tiling.counting
    DQ_STORES, SLOTS = range(2)

    def fill(dQ, scale, counts):  # type: ignore[no-untyped-def]
        n = cuda.local.array(SLOTS, int64)
        for slot in range(SLOTS):
            n[slot] = 0
        t, head = cuda.threadIdx.x, cuda.blockIdx.y
        i0 = cuda.blockIdx.x * Br
        for e in range(t, min(Br, dQ.shape[1] - i0) * d, T):
            dQ[head, i0 + e // d, e % d] = float32(0.0)
            n[DQ_STORES] += 1
        if counting:
            for slot in range(SLOTS):
                cuda.atomic.add(counts, slot, n[slot])

    return fill


def make_keys_outside(tiling: Tiling) -> Callable[..., None]:
    """dK and dV on chip while the query tiles stream past, and dQ by atomic additions in global memory; see :func:`keys_outside`."""
    return keys_outside(tiling, add_dq=True)


def make_keys_outside_alone(tiling: Tiling) -> Callable[..., None]:
    """The same without dQ, which it is given and leaves alone."""
    return keys_outside(tiling, add_dq=False)


def keys_outside(tiling: Tiling, *, add_dq: bool) -> Callable[..., None]:
    """FlashAttention-2 backward (Dao 2023, arXiv 2307.08691, Algorithm 2) for one tiling.

    Grid ``(ceil(N_k / Bc), B H)``. K_j, V_j, dK_j, dV_j, Q_i, dO_i, P_ij, dS_ij, LSE_i and D_i lie in shared memory.
    """
    Br, Bc, d, T = tiling.rows, tiling.cols, tiling.d, tiling.threads
    DP, CP, causal, counting = tiling.dp, tiling.cp, tiling.causal, tiling.counting
    K0, V0, DK0, DV0, Q0, DO0, P0, DS0, LSE0, D0, END = offsets(ROOMS["keys-outside"](tiling))
    WORDS = 0 if tiling.dynamic else END
    load_tile, store_tile, zero_tile, remake_tile = loading(tiling), storing(tiling), zeroing(tiling), remaking(tiling)
    Q_LOADS, K_LOADS, V_LOADS, DO_LOADS, LSE_LOADS, D_LOADS, DK_STORES, DV_STORES, DQ_ATOMICS, SLOTS = range(10)

    def keys_outside(Q, K, V, dO, LSE, D, dQ, dK, dV, scale, counts):  # type: ignore[no-untyped-def]
        room = cuda.shared.array(WORDS, float32)
        k, v, dk, dv = room[K0:V0], room[V0:DK0], room[DK0:DV0], room[DV0:Q0]
        q, do, p, ds = room[Q0:DO0], room[DO0:P0], room[P0:DS0], room[DS0:LSE0]
        lse, delta = room[LSE0:D0], room[D0:END]
        n = cuda.local.array(SLOTS, int64)
        for slot in range(SLOTS):
            n[slot] = 0
        t, head = cuda.threadIdx.x, cuda.blockIdx.y
        j0 = cuda.blockIdx.x * Bc
        cols = min(Bc, K.shape[1] - j0)
        ahead = K.shape[1] - Q.shape[1]  # causal is aligned bottom-right
        load_tile(K, head, j0, cols, k, t, n, K_LOADS)
        load_tile(V, head, j0, cols, v, t, n, V_LOADS)
        zero_tile(dk, cols, t)
        zero_tile(dv, cols, t)
        first = 0
        if causal:
            first = max(0, j0 - ahead) // Br * Br
        for i0 in range(first, Q.shape[1], Br):
            rows = min(Br, Q.shape[1] - i0)
            cuda.syncthreads()
            load_tile(Q, head, i0, rows, q, t, n, Q_LOADS)
            load_tile(dO, head, i0, rows, do, t, n, DO_LOADS)
            for r in range(t, rows, T):
                lse[r] = max(LOWEST, LSE[head, i0 + r])
                delta[r] = D[head, i0 + r]
                n[LSE_LOADS] += 1
                n[D_LOADS] += 1
            cuda.syncthreads()
            remake_tile(q, k, do, v, lse, delta, p, ds, rows, cols, scale, i0 + ahead - j0, t)
            cuda.syncthreads()
            for e in range(t, cols * d, T):
                c, x = e // d, e % d
                acc_v, acc_k = float32(0.0), float32(0.0)
                for r in range(rows):
                    acc_v += p[r * CP + c] * do[r * DP + x]
                    acc_k += ds[r * CP + c] * q[r * DP + x]
                dv[c * DP + x] += acc_v
                dk[c * DP + x] += scale * acc_k
            if add_dq:
                for e in range(t, rows * d, T):
                    r, x = e // d, e % d
                    acc = float32(0.0)
                    for c in range(cols):
                        acc += ds[r * CP + c] * k[c * DP + x]
                    cuda.atomic.add(dQ, (head, i0 + r, x), scale * acc)
                    n[DQ_ATOMICS] += 1
        store_tile(dK, head, j0, cols, dk, t, n, DK_STORES)
        store_tile(dV, head, j0, cols, dv, t, n, DV_STORES)
        if counting:
            for slot in range(SLOTS):
                cuda.atomic.add(counts, slot, n[slot])

    return keys_outside


def make_queries_outside(tiling: Tiling) -> Callable[..., None]:
    """dQ on chip while the key tiles stream past, in a pass of its own, for one tiling.

    Grid ``(ceil(N_q / Br), B H)``. Q_i, dO_i, dQ_i, K_j, V_j, P_ij (later dS_ij), LSE_i and D_i lie in shared memory.
    """
    Br, Bc, d, T = tiling.rows, tiling.cols, tiling.d, tiling.threads
    DP, CP, causal, counting = tiling.dp, tiling.cp, tiling.causal, tiling.counting
    Q0, DO0, DQ0, K0, V0, S0, LSE0, D0, END = offsets(ROOMS["queries-outside"](tiling))
    WORDS = 0 if tiling.dynamic else END
    load_tile, store_tile, zero_tile, remake_tile = loading(tiling), storing(tiling), zeroing(tiling), remaking(tiling)
    Q_LOADS, K_LOADS, V_LOADS, DO_LOADS, LSE_LOADS, D_LOADS, DQ_STORES, SLOTS = range(8)

    def queries_outside(Q, K, V, dO, LSE, D, dQ, scale, counts):  # type: ignore[no-untyped-def]
        room = cuda.shared.array(WORDS, float32)
        q, do, dq = room[Q0:DO0], room[DO0:DQ0], room[DQ0:K0]
        k, v, s = room[K0:V0], room[V0:S0], room[S0:LSE0]
        lse, delta = room[LSE0:D0], room[D0:END]
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
        load_tile(dO, head, i0, rows, do, t, n, DO_LOADS)
        zero_tile(dq, rows, t)
        for r in range(t, rows, T):
            lse[r] = max(LOWEST, LSE[head, i0 + r])
            delta[r] = D[head, i0 + r]
            n[LSE_LOADS] += 1
            n[D_LOADS] += 1
        for j0 in range(0, end, Bc):
            cols = min(Bc, K.shape[1] - j0)
            cuda.syncthreads()
            load_tile(K, head, j0, cols, k, t, n, K_LOADS)
            load_tile(V, head, j0, cols, v, t, n, V_LOADS)
            cuda.syncthreads()
            remake_tile(q, k, do, v, lse, delta, s, s, rows, cols, scale, i0 + ahead - j0, t)  # dS_ij takes the room of P_ij
            cuda.syncthreads()
            for e in range(t, rows * d, T):
                r, x = e // d, e % d
                acc = float32(0.0)
                for c in range(cols):
                    acc += s[r * CP + c] * k[c * DP + x]
                dq[r * DP + x] += scale * acc
        store_tile(dQ, head, i0, rows, dq, t, n, DQ_STORES)
        if counting:
            for slot in range(SLOTS):
                cuda.atomic.add(counts, slot, n[slot])

    return queries_outside


def remaking(tiling: Tiling) -> Device:
    """``remake_tile``: P_ij = exp(S_ij - LSE_i), made again, and dS_ij = P_ij * (dO_i V_j^T - D_i), on chip.

    A device function in the manner of :mod:`iosim_gpu.kernels.tiles`.
    """
    d, DP, CP, T, causal = tiling.d, tiling.dp, tiling.cp, tiling.threads, tiling.causal

    @device
    def remake_tile(q, k, do, v, lse, delta, p, ds, rows, cols, scale, reach, t):  # type: ignore[no-untyped-def]
        for e in range(t, rows * cols, T):
            r, c = e // cols, e % cols
            s, dp = float32(0.0), float32(0.0)
            for x in range(d):
                s += q[r * DP + x] * k[c * DP + x]
                dp += do[r * DP + x] * v[c * DP + x]
            s *= scale
            if causal and c > r + reach:
                s = HIDDEN
            weight = math.exp(s - lse[r])
            p[r * CP + c] = weight
            ds[r * CP + c] = weight * (dp - delta[r])

    return remake_tile
