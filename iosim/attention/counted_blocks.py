"""Blocks of kernels without a closed form: their listing is counted to see what fits."""

from __future__ import annotations

from bisect import bisect_right

from iosim.attention.arrays import launch
from iosim.attention.declaration import Kernel
from iosim.attention.own_kernels import told_where
from iosim.core import dtypes
from iosim.core.errors import BadInput, IosimError
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.machine import Machine


def choose(own: Kernel, problem: Attention, size: Capacity, rule: str, options: Options) -> Blocks:
    """The largest blocks of FlashAttention's shape that fit, or those that its paper prints.

    The block of the outer loop is the large one; that of the inner loop is the same, but at most d. A block mask brings its own.
    Raises :class:`BadInput` for "best", which a closed form must find, and where 1x1 blocks do not fit.
    """
    mask = problem.block_mask
    if mask is not None:
        return Blocks(mask.rows, mask.cols)
    if rule == "paper":
        return _shaped(own, problem, -(-size.words(problem.itemsize) // (2 * (problem.d + problem.dv))))
    if rule == "best":
        raise BadInput(f"{own} has no closed form in which to search for the best blocks; take 'fit', or give (Br, Bc)")
    outer = _largest(own, problem, size, options)
    if outer == 0:
        raise BadInput(f"no blocks of {own} fit in {size}: 1x1 blocks need {_peak(own, problem, size, options, Blocks(1, 1))}")
    return _shaped(own, problem, outer)


def advice(own: Kernel, problem: Attention, size: Capacity, options: Options) -> str:
    """What would fit where other blocks do not."""
    try:
        outer = _largest(own, problem, size, options)
    except IosimError as error:  # which comes up where there is room
        return f"with more room: {error}"
    return f"blocks {_shaped(own, problem, outer)} would fit" if outer else "no blocks fit"


def _largest(own: Kernel, problem: Attention, size: Capacity, options: Options) -> int:
    limit = min(max(problem.n, problem.nk), size.amount)
    needs = range(1, limit + 1)
    return bisect_right(needs, size.amount, key=lambda outer: _peak(own, problem, size, options, _shaped(own, problem, outer)))


def _shaped(own: Kernel, problem: Attention, outer: int) -> Blocks:
    inner = min(outer, problem.d)
    rows, cols = (outer, inner) if own.outside == "queries" else (inner, outer)
    return Blocks(min(rows, problem.n), min(cols, problem.nk))


def _peak(own: Kernel, problem: Attention, size: Capacity, options: Options, blocks: Blocks) -> int:
    m = Machine(size, mode="count", accumulator=dtypes.accumulator(problem.dtype), overflow="record")
    with told_where(own):
        launch(own, m, problem, blocks, options)
        return m.finish().peak_sram
