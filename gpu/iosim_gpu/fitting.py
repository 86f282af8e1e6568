"""How much shared memory a thread block may have, and which tiles fit into it. Needs no Numba."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from iosim_gpu.declaration import Step
from iosim_gpu.tiling import Tiling

STATIC_LIMIT = 48 * 1024
"""Bytes that every kernel may have unasked; a static array can never be larger."""

OPT_IN = {"sm_80": 163 * 1024, "sm_86": 99 * 1024, "sm_89": 99 * 1024, "sm_90": 227 * 1024, "sm_100": 227 * 1024}
"""Bytes that a launch with ``dynamic`` shared memory may ask for (CUDA C++ Programming Guide, table of compute capabilities)."""


def largest_fitting(step: Step, tiling: Tiling, limit: int = STATIC_LIMIT) -> Tiling | None:
    """The largest tiles up to those of ``tiling`` that ``step`` can hold in ``limit`` bytes; None where 1 x 1 do not fit.

    The longer side shrinks row by row, and the shorter side keeps the ratio, rounded down.
    """

    def shrunk(longer: int) -> Tiling:
        rows, cols = (max(1, side * longer // most) for side in (tiling.rows, tiling.cols))
        return replace(tiling, rows=rows, cols=cols)

    most = max(tiling.rows, tiling.cols)
    found = bisect_right(range(1, most + 1), limit, key=lambda longer: step.shared_bytes(shrunk(longer)))
    return shrunk(found) if found else None
