"""Block-sparse FlashAttention, forward: ``flash`` over a list of tiles, which it reads from global memory too."""

from __future__ import annotations

from collections.abc import Callable

from iosim_gpu.cuda import cuda, float32, int32, int64
from iosim_gpu.kernels.tiles import loading, scoring
from iosim_gpu.kernels.visits import K_LOADS, Q_LOADS, V_LOADS, starting, updating, weighing
from iosim_gpu.steps import LISTED, ROOMS
from iosim_gpu.tiling import Tiling, offsets

INDPTR_LOADS, INDICES_LOADS, SLOTS = range(9, 12)


def make_block_sparse(tiling: Tiling) -> Callable[..., None]:
    """Block-sparse FlashAttention forward (Dao et al. 2022, arXiv 2205.14135, Algorithm 5) for one tiling.

    Grid ``(1, B H)``, and shared memory as in ``flash``. Key tile j meets the query tiles ``indices[indptr[j]:indptr[j + 1]]``: one thread
    reads these numbers and hands them on in ``listed``. K_j and V_j are loaded for a key tile that meets none too, as printed.
    """
    Br, Bc, counting = tiling.rows, tiling.cols, tiling.counting
    Q0, K0, V0, S0, A0, B0, END = offsets(ROOMS["block-sparse"](tiling))
    WORDS = 0 if tiling.dynamic else END
    load_tile, score_tile = loading(tiling), scoring(tiling)
    start_rows, update_rows, weigh_values = starting(tiling), updating(tiling), weighing(tiling)

    def block_sparse(Q, K, V, O, l, m, indptr, indices, scale, counts):  # type: ignore[no-untyped-def]
        room = cuda.shared.array(WORDS, float32)
        q, k, v, s = room[Q0:K0], room[K0:V0], room[V0:S0], room[S0:A0]
        a, b = room[A0:B0], room[B0:END]
        listed = cuda.shared.array(LISTED, int32)
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
            if t == 0:
                listed[0] = indptr[j0 // Bc]
                listed[1] = indptr[j0 // Bc + 1]
                n[INDPTR_LOADS] += 2
            cuda.syncthreads()
            for entry in range(listed[0], listed[1]):
                if t == 0:
                    listed[2] = indices[entry]
                    n[INDICES_LOADS] += 1
                cuda.syncthreads()
                i0 = listed[2] * Br
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

    return block_sparse
