"""What a kernel does with one tile: load it, store it, fill it, score it. Device functions that know the tiling.

They take ``t``, the thread that calls, and share the elements of a tile out among the T threads of a block, element e to thread e mod T,
so that a thread meets the same elements of a tile every time. They hold no barrier: a kernel says itself where its threads meet. Nor do
they name ``cuda``, which the simulator's threads could find exchanged under their hands outside the kernel's own module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iosim_gpu.tiling import Tiling

Device = Callable[..., Any]

LOWEST = np.float32(-3.4028234663852886e38)
"""Where a running maximum begins on chip: the lowest finite number, since -inf - (-inf) is not a number."""

HIDDEN = np.float32(-np.inf)
"""The score of a pair that may not attend; in global memory, m and the log-sum-exp of a query that attends to nothing."""


def device(function: Device) -> Device:
    """``function`` as part of the kernels that call it: Numba puts its body in the place of the call, so that constants reach it."""
    from iosim_gpu.cuda import cuda

    made: Device = cuda.jit(function, device=True, inline="always")
    return made


def loading(tiling: Tiling) -> Device:
    """``load_tile``: ``rows`` rows of d elements of ``X[head]``, from row ``first`` on, come on chip; counted in ``n[slot]``."""
    d, DP, T = tiling.d, tiling.dp, tiling.threads

    @device
    def load_tile(X, head, first, rows, x, t, n, slot):  # type: ignore[no-untyped-def]
        for e in range(t, rows * d, T):
            x[e // d * DP + e % d] = X[head, first + e // d, e % d]
            n[slot] += 1

    return load_tile


def storing(tiling: Tiling) -> Device:
    """``store_tile``: the way back."""
    d, DP, T = tiling.d, tiling.dp, tiling.threads

    @device
    def store_tile(X, head, first, rows, x, t, n, slot):  # type: ignore[no-untyped-def]
        for e in range(t, rows * d, T):
            X[head, first + e // d, e % d] = x[e // d * DP + e % d]
            n[slot] += 1

    return store_tile


def zeroing(tiling: Tiling) -> Device:
    """``zero_tile``: ``rows`` rows of d zeros on chip."""
    d, DP, T = tiling.d, tiling.dp, tiling.threads

    @device
    def zero_tile(x, rows, t):  # type: ignore[no-untyped-def]
        for e in range(t, rows * d, T):
            x[e // d * DP + e % d] = np.float32(0.0)

    return zero_tile


def scoring(tiling: Tiling) -> Device:
    """``score_tile``: S_ij = scale Q_i K_j^T on chip; by the causal rule row r attends to columns c <= r + reach."""
    d, DP, CP, T, causal = tiling.d, tiling.dp, tiling.cp, tiling.threads, tiling.causal

    @device
    def score_tile(q, k, s, rows, cols, scale, reach, t):  # type: ignore[no-untyped-def]
        for e in range(t, rows * cols, T):
            r, c = e // cols, e % cols
            acc = np.float32(0.0)
            for x in range(d):
                acc += q[r * DP + x] * k[c * DP + x]
            acc *= scale
            if causal and c > r + reach:
                acc = HIDDEN
            s[r * CP + c] = acc

    return score_tile


def clipping(tiling: Tiling) -> tuple[Device, Device]:
    """``end_of_keys`` of the queries before ``last``; ``first_query``, where the first query tile begins that meets a key from j0 on.

    Without the causal rule these are all keys, and 0. ``ahead``: how many more keys there are than queries.
    """
    Br, causal = tiling.rows, tiling.causal

    @device
    def end_of_keys(last, ahead, keys):  # type: ignore[no-untyped-def]
        end = keys
        if causal:
            end = min(end, last + ahead)
        return end

    @device
    def first_query(j0, ahead):  # type: ignore[no-untyped-def]
        first = 0
        if causal:
            first = max(0, j0 - ahead) // Br * Br
        return first

    return end_of_keys, first_query
