"""FlashAttention, forward, in the loop order of the first paper: keys outside; O, l and m live in global memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iosim_gpu.declaration import Function, Kernel, launch
from iosim_gpu.kernels.frame import framed
from iosim_gpu.kernels.tiles import clipping, loading, scoring
from iosim_gpu.kernels.visits import ARRAYS, K_LOADS, Q_LOADS, SLOTS, V_LOADS, room, starting, updating, weighing
from iosim_gpu.tiling import Tiling

if TYPE_CHECKING:
    from iosim_gpu.cuda import cuda


@launch(ARRAYS, SLOTS, "head", room)
def flash(tiling: Tiling) -> Function:
    """FlashAttention forward (Dao et al. 2022, arXiv 2205.14135, Algorithms 1 and 2) for one tiling.

    Grid ``(1, B H)``: one thread block for a head, in which the tiles follow one another. Q_i, K_j, V_j, S_ij and the factors a and b
    lie in shared memory; O_i, l_i and m_i are read from global memory where they are used, and written back there, normalised after every
    key tile. These need no barrier, since a thread meets its own elements every time.
    """
    Br, Bc = tiling.rows, tiling.cols
    parts, counters, tell = framed(flash, tiling)
    load_tile, score_tile, (_, first_query) = loading(tiling), scoring(tiling), clipping(tiling)
    start_rows, update_rows, weigh_values = starting(tiling), updating(tiling), weighing(tiling)

    def kernel(Q, K, V, O, l, m, scale, counts):  # type: ignore[no-untyped-def]
        q, k, v, s, a, b = parts(cuda.shared.array)
        n = counters(cuda.local.array)
        t, head = cuda.threadIdx.x, cuda.blockIdx.y
        ahead = K.shape[1] - Q.shape[1]  # causal is aligned bottom-right
        for i0 in range(0, Q.shape[1], Br):
            start_rows(O, l, m, head, i0, min(Br, Q.shape[1] - i0), t, n)
        for j0 in range(0, K.shape[1], Bc):
            cols = min(Bc, K.shape[1] - j0)
            cuda.syncthreads()
            load_tile(K, head, j0, cols, k, t, n, K_LOADS)
            load_tile(V, head, j0, cols, v, t, n, V_LOADS)
            for i0 in range(first_query(j0, ahead), Q.shape[1], Br):
                rows = min(Br, Q.shape[1] - i0)
                load_tile(Q, head, i0, rows, q, t, n, Q_LOADS)
                cuda.syncthreads()
                score_tile(q, k, s, rows, cols, scale, i0 + ahead - j0, t)
                cuda.syncthreads()
                update_rows(s, l, m, a, b, head, i0, rows, cols, t, n)
                cuda.syncthreads()
                weigh_values(s, v, a, b, O, head, i0, rows, cols, t, n)
        tell(n, counts, cuda.atomic.add)

    return kernel


KERNEL = Kernel("flash", lambda: (flash,), timed=True, place=2)
