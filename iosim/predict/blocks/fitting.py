"""The largest blocks that fit, and what would fit where others do not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.predict.case import Case, case
from iosim.predict.room import Room, room
from iosim.predict.sizes import Bools, Int, Ints, whole_numbers

_DEFAULTS = Options()


def largest(needs: Callable[[int], int], amount: int, limit: int) -> int:
    """The largest block up to ``limit`` that ``needs`` no more than ``amount``, where needs never fall; 0 when none does."""
    return bisect_right(range(1, limit + 1), amount, key=needs)


def farthest(fits: Callable[[Ints], Bools], limits: Ints) -> Ints:
    """For each place the largest number up to its limit that ``fits``, where smaller ones do too; 0 where none does."""
    low, high = np.zeros_like(limits), limits
    while (low < high).any():
        middle = (low + high + 1) // 2
        fitting = fits(middle)
        low, high = np.where(fitting, middle, low), np.where(fitting, high, middle - 1)
    return low


def widest(asked: Case, outer: Ints, amount: int, room: Room) -> Ints:
    """The largest inner block that fits beside each block in ``outer``, whatever tiles a mask leaves; 0 where none does."""
    rows = asked.problem.nk if asked.formula.outside == "queries" else asked.problem.n
    return farthest(lambda inner: np.asarray(asked.bound(*asked.sides(outer, inner), room) <= amount), np.full_like(outer, rows))


def shaped(asked: Case, outer: Int) -> tuple[Int, Int]:
    """Br and Bc of blocks of the paper's shape: B_in = min(B_out, d), or both alike, clipped to the axes; Bc = N_k if K, V stay whole."""
    rows, cols = asked.sides(outer, outer if asked.formula.square else np.minimum(outer, asked.problem.d))
    return rows, asked.problem.nk if asked.whole_keys else cols


def shaped_blocks(asked: Case, outer: int) -> Blocks:
    """The blocks of the paper's shape for one B_out."""
    return Blocks(*(int(size) for size in shaped(asked, outer)))


def tallest(asked: Case, amounts: Ints, room: Room) -> Ints:
    """For each SRAM the largest B_out of the paper's shape that fits; 0 where none does."""
    limit = min(max(asked.problem.n, asked.problem.nk), int(amounts.max(initial=1)))  # a row takes no less than one word or byte
    needs = asked.bound(*shaped(asked, np.arange(1, limit + 1)), room)
    return np.searchsorted(needs, amounts, side="right")


def fit_dense(
    kernel: str, sram: ArrayLike, *, n: ArrayLike, d: ArrayLike,
    nk: ArrayLike | None = None, dv: ArrayLike | None = None, options: Options = _DEFAULTS,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Br and Bc of the largest blocks of the paper's shape that fit in ``sram`` words, without a mask; 0 and 0 where none do.

    All arguments broadcast. Many capacities cost as much as one; every other size costs a table of its own.
    Raises :class:`iosim.core.errors.BadInput` for an unknown kernel, and for sizes that are not whole numbers >= 1.

    >>> fit_dense("flash2", [256, 49152], n=4096, d=64)
    (array([  0, 208]), array([ 0, 64]))
    """
    given = {"n": n, "d": d, "nk": n if nk is None else nk, "dv": d if dv is None else dv}
    rest = np.broadcast_arrays(*(whole_numbers(name, size) for name, size in given.items()))
    problems, which = np.unique(np.stack([size.ravel() for size in rest]), axis=1, return_inverse=True)
    amounts, which = np.broadcast_arrays(whole_numbers("sram", sram), which.reshape(rest[0].shape))
    blocks = np.zeros((2, *amounts.shape), dtype=np.int64)
    for index, (n_, d_, nk_, dv_) in enumerate(problems.T.tolist()):
        asked, here = case(kernel, Attention(n_, d_, nk=nk_, dv=dv_), options), which == index
        outer = tallest(asked, amounts[here], Room())
        blocks[:, here] = [np.where(outer > 0, size, 0) for size in shaped(asked, outer)]
    return blocks[0], blocks[1]


def would_fit(kernel: str, problem: Attention, blocks: Blocks, capacity: Capacity, options: Options = _DEFAULTS) -> str:
    """What would fit where ``blocks`` do not, for an error message: one block smaller, or both, or a larger SRAM.

    >>> would_fit("flash2", Attention(n=1024, d=32), Blocks(32, 32), Capacity(3000))
    'Bc <= 8 would fit'
    """
    asked, space = case(kernel, problem, options), room(problem, capacity.unit)
    if asked.fixed is None:
        for name in ("Bc", "Br") if asked.formula.outside == "queries" else ("Br", "Bc"):
            if block := _shrunk(asked, name, blocks, capacity.amount, space):
                return f"{name} <= {block} would fit"
        if outer := int(tallest(asked, np.array([capacity.amount]), space)[0]):
            return f"blocks {shaped_blocks(asked, outer)} would fit"
    return nothing_fits(asked, capacity)


def _shrunk(asked: Case, name: str, blocks: Blocks, amount: int, space: Room) -> int:
    """The largest Br or Bc that fits beside the other block as it is; 0 when none does."""
    if name == "Br":
        return largest(lambda rows: asked.enough(Blocks(rows, blocks.cols), space), amount, blocks.rows)
    return largest(lambda cols: asked.enough(Blocks(blocks.rows, cols), space), amount, blocks.cols)


def nothing_fits(asked: Case, capacity: Capacity) -> str:
    """What to ask for where no blocks fit: the least SRAM, and the option that needs less."""
    space = room(asked.problem, capacity.unit)
    least = asked.smallest(space)
    if asked.fixed is not None:
        return f"the block mask was made for blocks {asked.fixed}, which need {least} {capacity.unit}"
    message = f"the smallest SRAM for any blocks is {least} {capacity.unit}"
    streamed = replace(asked, options=asked.options.but(softmax="streamed")).smallest(space)
    return f'{message} ({streamed} with softmax="streamed")' if streamed < least else message
