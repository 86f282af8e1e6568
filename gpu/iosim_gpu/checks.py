"""Checks before every launch: what a GPU refuses, or does silently wrong, is refused on the host. Needs no Numba.

Numba's simulator forgives most of these faults. The table says who finds which:

=====================================================  =========================================================================
fault                                                  found by
=====================================================  =========================================================================
too much shared memory, too many threads               :func:`check`
no blocks of threads, or too many                      :func:`check`
another type, shape or layout than was compiled        :func:`check`
inputs that are not finite                             :func:`check`; the simulator stops at some overflows, a GPU at none
tiles that are not those of the case                   :func:`check`: grid and kernel would take different ones
a list of tiles that points outside                    :func:`check`
too many registers for that many threads               the device meter, which knows them when the kernel is compiled
a shared array whose size is an argument               the compiler, hence the emulator meter; a factory knows sizes only
a tile size that changes after the first launch        nobody needs to: a tiling is frozen, and each is a kernel of its own
any other index that is negative or past the end       the simulator meter, and the emulator by address
a barrier that only some threads reach                 the emulator, and the simulator where its threads run in a fixed order
a barrier that is missing                              a race hunt in the simulator, by the tests
=====================================================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.core.errors import BadInput
from iosim_gpu.calls import Call
from iosim_gpu.case import Case, shape
from iosim_gpu.declaration import Step
from iosim_gpu.fitting import OPT_IN, STATIC_LIMIT, largest_fitting
from iosim_gpu.tiling import Tiling

Array = NDArray[Any]

MAX_THREADS = 1024
MAX_GRID = (2**31 - 1, 65_535)
"""Blocks of threads along x and along y."""

LISTS = ("indptr", "indices")
"""The arrays of a block mask, which are int32; all others are float32."""

SIDES = ("rows", "cols", "d", "threads")


def check(call: Call, limit: int = STATIC_LIMIT) -> None:
    """Raise :class:`iosim.core.errors.BadInput`, in one line, for a launch that a GPU would refuse or that would go wrong on it.

    ``limit``: bytes of dynamic shared memory that a thread block may have (:data:`iosim_gpu.fitting.OPT_IN`); a static array never has
    more than 48 KB.
    """
    check_tiling(call.step, call.tiling, limit)
    check_case(call.case, call.tiling)
    check_grid(call.grid)
    check_arrays(call)


def check_tiling(step: Step, tiling: Tiling, limit: int = STATIC_LIMIT) -> None:
    """Check the constants, the number of threads, and the shared memory."""
    for name in SIDES:
        value = getattr(tiling, name)
        if type(value) is not int or value < 1:
            raise BadInput(f"{name} of a tiling must be a Python int >= 1, to be compiled in, not {value!r}")
    for name in ("causal", "counting", "dynamic"):
        if type(getattr(tiling, name)) is not bool:
            raise BadInput(f"{name} of a tiling must be True or False, to be compiled in, not {getattr(tiling, name)!r}")
    if tiling.threads > MAX_THREADS:
        raise BadInput(f"{step.name} was asked for {tiling.threads:,} threads a block; CUDA takes at most {MAX_THREADS:,}")
    check_shared(step, tiling, limit)


def check_shared(step: Step, tiling: Tiling, limit: int = STATIC_LIMIT) -> None:
    """Check the bytes that ``step`` needs; the error says what would fit."""
    allowed = limit if tiling.dynamic else min(limit, STATIC_LIMIT)
    asked = step.shared_bytes(tiling)
    if asked <= allowed:
        return
    kind = "dynamic" if tiling.dynamic else "static"
    raise BadInput(
        f"{step.name} {tiling} needs {asked:,} bytes of shared memory a block, but {allowed:,} is the {kind} limit; "
        f"{_remedy(step, tiling, allowed)}"
    )


def _remedy(step: Step, tiling: Tiling, allowed: int) -> str:
    """The largest tiles of that shape that fit, and the architectures with room for those that were asked for."""
    roomy = [arch for arch, most in OPT_IN.items() if most > allowed and most >= step.shared_bytes(tiling)]
    return would_fit(step, tiling, allowed) + (f", or dynamic shared memory on {', '.join(roomy)}" if roomy else "")


def would_fit(step: Step, tiling: Tiling, allowed: int = STATIC_LIMIT) -> str:
    """The largest tiles of that shape that fit, in words."""
    found = largest_fitting(step, tiling, allowed)
    return f"not even 1x1 tiles fit at d = {tiling.d}" if found is None else f"{found.rows}x{found.cols} would fit"


def check_case(case: Case, tiling: Tiling) -> None:
    """Check that the kernel is compiled for the tiles of the case."""
    for name in (*SIDES, "causal"):
        if getattr(tiling, name) != getattr(case, name):
            raise BadInput(f"a kernel compiled for {name} = {getattr(tiling, name)} was given the case {case.name}; compile it for that")
    with np.errstate(over="ignore"):
        scale = np.float32(case.problem.softmax_scale)
    if not np.isfinite(scale):
        raise BadInput(f"the scale {case.problem.softmax_scale:g} is not finite in float32")


def check_grid(grid: tuple[int, int]) -> None:
    """Check that there is a thread block, and no more than CUDA takes."""
    for axis, blocks, most in zip("xy", grid, MAX_GRID, strict=True):
        if not 1 <= blocks <= most:
            what = "tiles" if axis == "x" else "batch * heads"
            raise BadInput(f"a grid of {blocks:,} blocks along {axis} was asked for ({what}); CUDA takes 1 to {most:,}")


def check_arrays(call: Call) -> None:
    """Check that the arrays are those of the step, as it was compiled for, and that none overlaps one that is written."""
    if tuple(call.arrays) != call.step.arrays:
        raise BadInput(f"{call.step.name} takes the arrays {', '.join(call.step.arrays)}, not {', '.join(call.arrays) or 'none'}")
    for name, array in call.arrays.items():
        check_array(name, array, np.dtype(np.int32 if name in LISTS else np.float32), expected(call.case, name))
    check_array("counts", call.counts, np.dtype(np.int64), (len(call.step.slots),))
    check_writes(call)
    check_values(call.arrays, call.case)
    check_lists(call.arrays, call.case)


def expected(case: Case, name: str) -> tuple[int, ...] | None:
    """The shape of an array; None for the entries of a list, whose number the list says."""
    if name == "indices":
        return None
    if name == "indptr":
        return (-(-case.nk // case.cols) + 1,)
    return shape(case, name)


def check_array(name: str, array: Array, dtype: np.dtype[Any], sizes: tuple[int, ...] | None) -> None:
    """Check the type, the shape and the layout of one array."""
    if not isinstance(array, np.ndarray):
        raise BadInput(f"{name} must be a NumPy array, not {type(array).__name__}")
    if array.dtype != dtype:
        raise BadInput(f"{name} must be {dtype}, not {array.dtype}; {name}.astype(np.{dtype}) would do")
    if array.ndim != (1 if sizes is None else len(sizes)) or (sizes is not None and array.shape != sizes):
        raise BadInput(f"{name} must have the shape {'(entries,)' if sizes is None else sizes}, not {array.shape}")
    if not array.flags.c_contiguous:
        raise BadInput(f"{name} must be C-contiguous, its last axis the fastest; np.ascontiguousarray({name}) would do")


def check_writes(call: Call) -> None:
    """Check that arrays that are written are writable, and share memory with no other."""
    written = dict.fromkeys([slot.partition(".")[0] for slot in call.step.slots if not slot.endswith(".loads")] + ["counts"])
    arrays = {**call.arrays, "counts": call.counts}
    for name in written:
        if not arrays[name].flags.writeable:
            raise BadInput(f"{name} is written, but is read-only; {name}.copy() would do")
    for one, other in combinations(arrays, 2):
        if (one in written or other in written) and np.may_share_memory(arrays[one], arrays[other]):
            raise BadInput(f"{one} and {other} lie in the same memory, but {call.step.name} writes to one of them; copy one")


def check_values(arrays: Mapping[str, Array], case: Case) -> None:
    """Check that inputs are finite; the log-sum-exp of a query that attends to nothing is -inf."""
    for name in case.declared.reads:
        if name in arrays and not (np.isfinite(arrays[name]) | ((name == "LSE") & np.isneginf(arrays[name]))).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(arrays[name]))[0])
            raise BadInput(f"{name} must be finite, but {name}{list(at)} is {arrays[name][at]}")


def check_lists(arrays: Mapping[str, Array], case: Case) -> None:
    """Check that the lists of a block mask follow one another from 0 to the last entry, and name query tiles there are."""
    if not set(LISTS) <= arrays.keys():
        return
    indptr, indices = (arrays[name] for name in LISTS)
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise BadInput(f"indptr must rise from 0 to the {len(indices)} entries of indices, not {indptr.tolist()[:8]}")
    tiles = -(-case.n // case.rows)
    outside = indices[(indices < 0) | (indices >= tiles)]
    if outside.size:
        raise BadInput(f"indices must name query tiles, 0 to {tiles - 1}, but {int(outside[0])} is among them")
