"""What the kernels share: loads and stores that can be counted, and how minus infinity is spelled."""

from __future__ import annotations

from iosim_gpu.cuda import cuda, float32

NEG = float32(-1e30)
"""Below every score: a finite stand-in for -inf, since -inf - (-inf) is not a number. What is left of it is stored as -inf."""


@cuda.jit(device=True, inline=True)
def load(array, head, row, col, counts, slot):  # type: ignore[no-untyped-def]
    """``array[head, row, col]``, counted in ``slot``."""
    counts[slot] += 1
    return array[head, row, col]


@cuda.jit(device=True, inline=True)
def store(array, head, row, col, value, counts, slot):  # type: ignore[no-untyped-def]
    """``array[head, row, col] = value``, counted in ``slot``."""
    counts[slot] += 1
    array[head, row, col] = value
