"""FlashAttention, forward, in the loop order of the first paper: keys outside; O, l and m live in global memory."""

from __future__ import annotations

from collections.abc import Callable

from iosim_gpu.cuda import cuda, float32, int64
from iosim_gpu.kernels.tiles import loading, scoring
from iosim_gpu.kernels.visits import K_LOADS, Q_LOADS, V_LOADS, starting, updating, weighing
from iosim_gpu.steps import ROOMS
from iosim_gpu.tiling import Tiling, offsets

SLOTS = 9


def make_flash(tiling: Tiling) -> Callable[..., None]:
    """FlashAttention forward (Dao et al. 2022, arXiv 2205.14135, Algorithms 1 and 2) for one tiling.

    Grid ``(1, B H)``: one block of threads for a head, in which the tiles follow one another. Q_i, K_j, V_j, S_ij and the factors a and b
    lie in shared memory; O_i, l_i and m_i are read from global memory where they are used, and written back there, normalised after every
    key tile. These need no barrier, since a thread meets its own elements every time.
    """
    Br, Bc, causal, counting = tiling.rows, tiling.cols, tiling.causal, tiling.counting
    Q0, K0, V0, S0, A0, B0, END = offsets(ROOMS["flash"](tiling))
    WORDS = 0 if tiling.dynamic else END
    load_tile, score_tile = loading(tiling), scoring(tiling)
    start_rows, update_rows, weigh_values = starting(tiling), updating(tiling), weighing(tiling)

    def flash(Q, K, V, O, l, m, scale, counts):  # type: ignore[no-untyped-def]
        room = cuda.shared.array(WORDS, float32)
        q, k, v, s = room[Q0:K0], room[K0:V0], room[V0:S0], room[S0:A0]
        a, b = room[A0:B0], room[B0:END]
        n = cuda.local.array(SLOTS, int64)
        for slot in range(SLOTS):
            n[slot] = 0
        t, head = cuda.threadIdx.x, cuda.blockIdx.y
        ahead = K.shape[1] - Q.shape[1]  # causal is aligned bottom-right
        for i0 in range(0, Q.shape[1], Br):
            start_rows(O, l, m, head, i0, min(Br, Q.shape[1] - i0), t, n)
        for j0 in range(0, K.shape[1], Bc):
            cols = min(Bc, K.shape[1] - j0)
            cuda.syncthreads()
            load_tile(K, head, j0, cols, k, t, n, K_LOADS)
            load_tile(V, head, j0, cols, v, t, n, V_LOADS)
            first = 0
            if causal:
                first = max(0, j0 - ahead) // Br * Br
            for i0 in range(first, Q.shape[1], Br):
                rows = min(Br, Q.shape[1] - i0)
                load_tile(Q, head, i0, rows, q, t, n, Q_LOADS)
                cuda.syncthreads()
                score_tile(q, k, s, rows, cols, scale, i0 + ahead - j0, t)
                cuda.syncthreads()
                update_rows(s, l, m, a, b, head, i0, rows, cols, t, n)
                cuda.syncthreads()
                weigh_values(s, v, a, b, O, head, i0, rows, cols, t, n)
        if counting:
            for slot in range(SLOTS):
                cuda.atomic.add(counts, slot, n[slot])

    return flash
