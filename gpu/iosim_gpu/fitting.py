"""How much shared memory a block of threads may have, and the tiles that fit into it. Needs no Numba."""

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
    """The largest tiles no larger than ``tiling``'s that ``step`` can hold in ``limit`` bytes; None where not even 1 x 1 can.

    The longer side shrinks row by row, and the shorter with it, rounded down, so that their ratio is kept.
    """

    def shrunk(longer: int) -> Tiling:
        rows, cols = (max(1, side * longer // most) for side in (tiling.rows, tiling.cols))
        return replace(tiling, rows=rows, cols=cols)

    most = max(tiling.rows, tiling.cols)
    found = bisect_right(range(1, most + 1), limit, key=lambda longer: step.shared_bytes(shrunk(longer)))
    return shrunk(found) if found else None
