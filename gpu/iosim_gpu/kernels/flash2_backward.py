"""FlashAttention-2, backward: D first; then keys outside for dK and dV, with dQ added atomically or made by a pass of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from iosim_gpu.declaration import Function, Kernel, Option, Step, launch
from iosim_gpu.kernels.frame import framed
from iosim_gpu.kernels.tiles import HIDDEN, LOWEST, Device, clipping, device, loading, storing, zeroing
from iosim_gpu.tiling import Tiling

if TYPE_CHECKING:
    from iosim_gpu.cuda import cuda

GIVEN = "Q K V dO LSE D"
GIVEN_LOADS = "Q.loads K.loads V.loads dO.loads LSE.loads D.loads"
Q_LOADS, K_LOADS, V_LOADS, DO_LOADS, LSE_LOADS, D_LOADS = range(6)


@launch("O dO D", "O.loads dO.loads D.stores", "queries", lambda t: (t.rows * t.dp,))
def delta(tiling: Tiling) -> Function:
    """D = rowsum(dO * O) (Dao 2023, arXiv 2307.08691, Algorithm 2, before its loops) for one tiling.

    Grid ``(ceil(N_q / Br), B H)``. The products of a tile lie in shared memory until a thread adds up their row.
    """
    Br, d, T, DP = tiling.rows, tiling.d, tiling.threads, tiling.dp
    parts, counters, tell = framed(delta, tiling)
    O_LOADS, DO_LOADS, D_STORES = range(3)

    def kernel(O, dO, D, scale, counts):  # type: ignore[no-untyped-def]
        (products,) = parts(cuda.shared.array)
        n = counters(cuda.local.array)
        t, head, i0 = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * Br
        rows = min(Br, O.shape[1] - i0)
        for e in range(t, rows * d, T):
            r, x = e // d, e % d
            products[r * DP + x] = dO[head, i0 + r, x] * O[head, i0 + r, x]
            n[O_LOADS] += 1
            n[DO_LOADS] += 1
        cuda.syncthreads()
        for r in range(t, rows, T):
            acc = np.float32(0.0)
            for x in range(d):
                acc += products[r * DP + x]
            D[head, i0 + r] = acc
            n[D_STORES] += 1
        tell(n, counts, cuda.atomic.add)

    return kernel


@launch("dQ", "dQ.stores", "queries")
def fill(tiling: Tiling) -> Function:
    """dQ = 0 in global memory, where the key tiles are to add to it, for one tiling. Grid ``(ceil(N_q / Br), B H)``."""
    Br, d, T = tiling.rows, tiling.d, tiling.threads
    _, counters, tell = framed(fill, tiling)
    DQ_STORES = 0

    def kernel(dQ, scale, counts):  # type: ignore[no-untyped-def]
        n = counters(cuda.local.array)
        t, head, i0 = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * Br
        for e in range(t, min(Br, dQ.shape[1] - i0) * d, T):
            dQ[head, i0 + e // d, e % d] = np.float32(0.0)
            n[DQ_STORES] += 1
        tell(n, counts, cuda.atomic.add)

    return kernel


def keys_room(t: Tiling) -> tuple[int, ...]:
    """The tiles that stand on chip where keys are outside."""
    return (*[t.cols * t.dp] * 4, *[t.rows * t.dp] * 2, *[t.rows * t.cp] * 2, t.rows, t.rows)


@launch(f"{GIVEN} dQ dK dV", f"{GIVEN_LOADS} dK.stores dV.stores dQ.atomics", "keys", keys_room)
def keys_outside(tiling: Tiling) -> Function:
    """dK and dV on chip while the query tiles stream past, and dQ by atomic additions in global memory; see :func:`streamed`."""
    return streamed(keys_outside, tiling, add_dq=True)


@launch(f"{GIVEN} dQ dK dV", f"{GIVEN_LOADS} dK.stores dV.stores dQ.atomics", "keys", keys_room)
def keys_outside_alone(tiling: Tiling) -> Function:
    """The same without dQ, which it is given and leaves alone."""
    return streamed(keys_outside_alone, tiling, add_dq=False)


def streamed(step: Step, tiling: Tiling, *, add_dq: bool) -> Function:
    """FlashAttention-2 backward (Dao 2023, arXiv 2307.08691, Algorithm 2) for one tiling.

    Grid ``(ceil(N_k / Bc), B H)``. K_j, V_j, dK_j, dV_j, Q_i, dO_i, P_ij, dS_ij, LSE_i and D_i lie in shared memory.
    """
    Br, Bc, d, T, DP, CP = tiling.rows, tiling.cols, tiling.d, tiling.threads, tiling.dp, tiling.cp
    parts, counters, tell = framed(step, tiling)
    load_tile, store_tile, zero_tile, load_rows = loading(tiling), storing(tiling), zeroing(tiling), loading_rows(tiling)
    remake_tile, (_, first_query) = remaking(tiling), clipping(tiling)
    DK_STORES, DV_STORES, DQ_ATOMICS = range(6, 9)

    def kernel(Q, K, V, dO, LSE, D, dQ, dK, dV, scale, counts):  # type: ignore[no-untyped-def]
        k, v, dk, dv, q, do, p, ds, lse, dots = parts(cuda.shared.array)
        n = counters(cuda.local.array)
        t, head, j0 = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * Bc
        cols = min(Bc, K.shape[1] - j0)
        ahead = K.shape[1] - Q.shape[1]  # causal is aligned bottom-right
        load_tile(K, head, j0, cols, k, t, n, K_LOADS)
        load_tile(V, head, j0, cols, v, t, n, V_LOADS)
        zero_tile(dk, cols, t)
        zero_tile(dv, cols, t)
        for i0 in range(first_query(j0, ahead), Q.shape[1], Br):
            rows = min(Br, Q.shape[1] - i0)
            cuda.syncthreads()
            load_tile(Q, head, i0, rows, q, t, n, Q_LOADS)
            load_tile(dO, head, i0, rows, do, t, n, DO_LOADS)
            load_rows(LSE, D, head, i0, rows, lse, dots, t, n)
            cuda.syncthreads()
            remake_tile(q, k, do, v, lse, dots, p, ds, rows, cols, scale, i0 + ahead - j0, t)
            cuda.syncthreads()
            for e in range(t, cols * d, T):
                c, x = e // d, e % d
                acc_v, acc_k = np.float32(0.0), np.float32(0.0)
                for r in range(rows):
                    acc_v += p[r * CP + c] * do[r * DP + x]
                    acc_k += ds[r * CP + c] * q[r * DP + x]
                dv[c * DP + x] += acc_v
                dk[c * DP + x] += scale * acc_k
            if add_dq:
                for e in range(t, rows * d, T):
                    r, x = e // d, e % d
                    acc = np.float32(0.0)
                    for c in range(cols):
                        acc += ds[r * CP + c] * k[c * DP + x]
                    cuda.atomic.add(dQ, (head, i0 + r, x), scale * acc)
                    n[DQ_ATOMICS] += 1
        store_tile(dK, head, j0, cols, dk, t, n, DK_STORES)
        store_tile(dV, head, j0, cols, dv, t, n, DV_STORES)
        tell(n, counts, cuda.atomic.add)

    return kernel


@launch(
    f"{GIVEN} dQ", f"{GIVEN_LOADS} dQ.stores", "queries",
    lambda t: (*[t.rows * t.dp] * 3, *[t.cols * t.dp] * 2, t.rows * t.cp, t.rows, t.rows),
)  # fmt: skip
def queries_outside(tiling: Tiling) -> Function:
    """dQ on chip while the key tiles stream past, in a pass of its own, for one tiling.

    Grid ``(ceil(N_q / Br), B H)``. Q_i, dO_i, dQ_i, K_j, V_j, P_ij (later dS_ij), LSE_i and D_i lie in shared memory.
    """
    Br, Bc, d, T, DP, CP = tiling.rows, tiling.cols, tiling.d, tiling.threads, tiling.dp, tiling.cp
    parts, counters, tell = framed(queries_outside, tiling)
    load_tile, store_tile, zero_tile, load_rows = loading(tiling), storing(tiling), zeroing(tiling), loading_rows(tiling)
    remake_tile, (end_of_keys, _) = remaking(tiling), clipping(tiling)
    DQ_STORES = 6

    def kernel(Q, K, V, dO, LSE, D, dQ, scale, counts):  # type: ignore[no-untyped-def]
        q, do, dq, k, v, s, lse, dots = parts(cuda.shared.array)
        n = counters(cuda.local.array)
        t, head, i0 = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * Br
        rows = min(Br, Q.shape[1] - i0)
        ahead = K.shape[1] - Q.shape[1]  # causal is aligned bottom-right
        end = end_of_keys(i0 + rows, ahead, K.shape[1])
        load_tile(Q, head, i0, rows, q, t, n, Q_LOADS)
        load_tile(dO, head, i0, rows, do, t, n, DO_LOADS)
        zero_tile(dq, rows, t)
        load_rows(LSE, D, head, i0, rows, lse, dots, t, n)
        for j0 in range(0, end, Bc):
            cols = min(Bc, K.shape[1] - j0)
            cuda.syncthreads()
            load_tile(K, head, j0, cols, k, t, n, K_LOADS)
            load_tile(V, head, j0, cols, v, t, n, V_LOADS)
            cuda.syncthreads()
            remake_tile(q, k, do, v, lse, dots, s, s, rows, cols, scale, i0 + ahead - j0, t)  # dS_ij takes the room of P_ij
            cuda.syncthreads()
            for e in range(t, rows * d, T):
                r, x = e // d, e % d
                acc = np.float32(0.0)
                for c in range(cols):
                    acc += s[r * CP + c] * k[c * DP + x]
                dq[r * DP + x] += scale * acc
        store_tile(dQ, head, i0, rows, dq, t, n, DQ_STORES)
        tell(n, counts, cuda.atomic.add)

    return kernel


def loading_rows(tiling: Tiling) -> Device:
    """``load_rows``: LSE_i and D_i come on chip. A device function in the manner of :mod:`iosim_gpu.kernels.tiles`."""
    T = tiling.threads

    @device
    def load_rows(LSE, D, head, i0, rows, lse, dots, t, n):  # type: ignore[no-untyped-def]
        for r in range(t, rows, T):
            lse[r] = max(LOWEST, LSE[head, i0 + r])
            dots[r] = D[head, i0 + r]
            n[LSE_LOADS] += 1
            n[D_LOADS] += 1

    return load_rows


def remaking(tiling: Tiling) -> Device:
    """``remake_tile``: P_ij = exp(S_ij - LSE_i), made again, and dS_ij = P_ij * (dO_i V_j^T - D_i), on chip."""
    d, DP, CP, T, causal = tiling.d, tiling.dp, tiling.cp, tiling.threads, tiling.causal

    @device
    def remake_tile(q, k, do, v, lse, dots, p, ds, rows, cols, scale, reach, t):  # type: ignore[no-untyped-def]
        for e in range(t, rows * cols, T):
            r, c = e // cols, e % cols
            s, dp = np.float32(0.0), np.float32(0.0)
            for x in range(d):
                s += q[r * DP + x] * k[c * DP + x]
                dp += do[r * DP + x] * v[c * DP + x]
            s *= scale
            if causal and c > r + reach:
                s = HIDDEN
            weight = math.exp(s - lse[r])
            p[r * CP + c] = weight
            ds[r * CP + c] = weight * (dp - dots[r])

    return remake_tile


def steps(dq_pass: str) -> tuple[Step, ...]:
    """The launches for each value of the option."""
    return (delta, fill, keys_outside) if dq_pass == "shared" else (delta, keys_outside_alone, queries_outside)


DQ_PASS = Option("dq_pass", ("shared", "own"), "dQ accumulated in HBM by the pass that makes dK and dV, or made by a pass of its own")
KERNEL = Kernel("flash2-backward", steps, (DQ_PASS,), ("Q", "K", "V", "dO", "O", "LSE"), tiles=(32, 16), place=5)
