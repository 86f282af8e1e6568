"""The factors of a closed form: whole numbers, or arrays of them, each with the symbol that stands for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim.core.errors import BadInput
from iosim.core.units import whole

Ints: TypeAlias = NDArray[np.int64]
Int: TypeAlias = int | Ints
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Size:
    """A factor: how it is written and what it amounts to.

    >>> Size("Nq", 1024) * Size("d", 64)
    Size(symbol='Nq d', value=65536)
    """

    symbol: str
    value: Int

    def __mul__(self, other: Size) -> Size:
        return Size(f"{self.symbol} {other.symbol}".strip(), self.value * other.value)


ONE = Size("", 1)


class Passes(NamedTuple):
    """So many passes over so many rows of an array."""

    times: Size
    rows: Size


def once(rows: Size) -> Passes:
    """One pass over ``rows``."""
    return Passes(ONE, rows)


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of one head: N_q and N_k rows, d and d_v columns; whether any rule is ``masked`` onto them, and ``dropout``."""

    Nq: Size
    Nk: Size
    d: Size
    dv: Size
    masked: bool = False
    dropout: bool = False


def shape(n: Int, nk: Int, d: Int, dv: Int, *, masked: bool = False, dropout: bool = False) -> Shape:
    """The sizes of one head, by their symbols."""
    return Shape(Size("Nq", n), Size("Nk", nk), Size("d", d), Size("dv", dv), masked, dropout)


def ceil_div(rows: Int, block: Int) -> Int:
    """``rows / block``, rounded up."""
    return -(-rows // block)


def smaller(one: Int, other: Int) -> Int:
    """The smaller of two integers, or of each pair of arrays of them."""
    return min(one, other) if isinstance(one, int) and isinstance(other, int) else np.minimum(one, other)


def floors(count: Ints, start: Ints, step: Ints, by: Ints) -> Ints:
    """The sum of floor((start + i step) / by) over i < count, for start, step >= 0, in as many turns as Euclid's algorithm takes.

    Without the whole steps and starts, which are summed at once, start and step are less than ``by``; then the same points are counted
    along the other axis, which exchanges the two.

    >>> floors(np.array([4]), np.array([1]), np.array([3]), np.array([2]))  # 0 + 2 + 3 + 5
    array([10])
    """
    total = np.zeros_like(count)
    while count.any():
        total = total + count * (start // by) + count * (count - 1) // 2 * (step // by)
        start, step = start % by, step % by
        top = start + count * step
        count, start, step, by = top // by, top % by, by, np.maximum(step, 1)  # where the step is 0, no count is left
    return total


def whole_numbers(name: str, value: ArrayLike) -> Int:
    """``value`` as an ``int``, or an int64 array of numbers >= 1; raises :class:`iosim.core.errors.BadInput` naming it."""
    if np.ndim(value) == 0:
        return whole(name, value)
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise BadInput(f"{name} must hold whole numbers >= 1, not {array.dtype}")
    if array.size and array.min() < 1:
        raise BadInput(f"{name} must hold whole numbers >= 1, not {array.min()}")
    return array.astype(np.int64, copy=False)
