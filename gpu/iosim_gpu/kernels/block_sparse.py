"""Block-sparse FlashAttention, forward: ``flash`` over a list of tiles, which it reads from global memory too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iosim_gpu.declaration import Function, Kernel, launch
from iosim_gpu.kernels.frame import framed
from iosim_gpu.kernels.tiles import loading, scoring
from iosim_gpu.kernels.visits import ARRAYS, K_LOADS, Q_LOADS, SLOTS, V_LOADS, room, starting, updating, weighing
from iosim_gpu.tiling import Tiling

if TYPE_CHECKING:
    from iosim_gpu.cuda import cuda

LISTED = 3
"""Words in which one thread hands on where a list begins and ends, and an entry of it. Static whatever the tiling says."""

INDPTR_LOADS, INDICES_LOADS = range(9, 11)


@launch(f"{ARRAYS} indptr indices", f"{SLOTS} indptr.loads indices.loads", "head", room, LISTED)
def block_sparse(tiling: Tiling) -> Function:
    """Block-sparse FlashAttention forward (Dao et al. 2022, arXiv 2205.14135, Algorithm 5) for one tiling.

    Grid ``(1, B H)``, and shared memory as in ``flash``. Key tile j meets the query tiles ``indices[indptr[j]:indptr[j + 1]]``: one thread
    reads these numbers and hands them on in ``listed``. K_j and V_j are loaded for a key tile that meets none too, as printed.
    """
    Br, Bc = tiling.rows, tiling.cols
    parts, counters, tell = framed(block_sparse, tiling)
    load_tile, score_tile = loading(tiling), scoring(tiling)
    start_rows, update_rows, weigh_values = starting(tiling), updating(tiling), weighing(tiling)

    def kernel(Q, K, V, O, l, m, indptr, indices, scale, counts):  # type: ignore[no-untyped-def]
        q, k, v, s, a, b = parts(cuda.shared.array)
        listed = cuda.shared.array(LISTED, np.int32)
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
        tell(n, counts, cuda.atomic.add)

    return kernel


KERNEL = Kernel("block-sparse", lambda: (block_sparse,), masked=True, place=4)
