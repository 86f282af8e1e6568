"""HBM arrays: they can be indexed with tiles, not read; only a machine's load and store see their elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim import dtypes
from iosim.errors import BadInput, LoopMisuse, NotWritten
from iosim.memory.events import Box
from iosim.memory.tiles import Tile

if TYPE_CHECKING:
    from iosim.memory.machine import Machine

Array = NDArray[np.generic]
Index = Tile | slice


class Hbm:
    """A two-dimensional array in slow memory, with the words read from it and written to it.

    An input is never stored to. An output starts as NaN, and every element of it must be written before the machine finishes.
    """

    __slots__ = (
        "cost",
        "covered",
        "data",
        "init_writes",
        "is_input",
        "itemsize",
        "lends",
        "machine",
        "name",
        "reads",
        "shape",
        "writes",
        "written",
    )

    def __init__(self, machine: Machine, name: str, shape: tuple[int, int], itemsize: int, data: Array | None, is_input: bool) -> None:
        self.machine, self.name, self.shape, self.itemsize, self.data, self.is_input = machine, name, shape, itemsize, data, is_input
        self.lends = is_input and (data is None or data.dtype in (machine.dtype, np.bool_))
        self.cost = itemsize if machine.unit == "bytes" else 1
        self.reads = self.writes = self.init_writes = 0
        self.written: NDArray[np.bool_] | None = None
        self.covered: list[NDArray[np.int64]] = []

    @property
    def words(self) -> int:
        return self.shape[0] * self.shape[1]

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Region:
        return Region(self, index if isinstance(index, tuple) else (index,))

    def read(self, box: Box, dtype: np.dtype[np.generic]) -> Array | None:
        """The numbers of a region, widened to ``dtype``: a view of an input, a copy of an output."""
        (top, bottom), (left, right) = box
        if self.written is not None and not self.written[top:bottom, left:right].all():
            raise NotWritten(f"{self.name}{_spell(box)} was read before it was written; store it first")
        if self.data is None:
            return None
        part = self.data[top:bottom, left:right]
        return part if self.lends else part.astype(dtype)

    def write(self, box: Box, data: Array | None, region: Region) -> None:
        """Put numbers into a region, rounded to the array's type."""
        (top, bottom), (left, right) = box
        if self.is_input:
            raise BadInput(f"{self.name} is an input and is never stored to; declare an output with m.output(name, shape)")
        if self.written is None:
            self.covered.append(region.rows_covered())
        else:
            self.written[top:bottom, left:right] = True
        if self.data is not None and data is not None:
            self.data[top:bottom, left:right] = data if data.dtype == self.data.dtype else rounded(self.name, data, self.data.dtype)

    def check_written(self) -> None:
        """Raise :class:`NotWritten` unless every element of an output was stored to.

        Counting sees no elements: there it is the rows that must be covered, and the words that must suffice.
        """
        if self.is_input:
            return
        if self.written is None:
            where = _gap(self.covered, self.shape[0]) or ("some element" if self.writes < self.words else "")
        else:
            where = "" if self.written.all() else f"element {tuple(np.argwhere(~self.written)[0].tolist())}"
        if where:
            raise NotWritten(f"{self.name}{self.shape} is an output but {where} was never written; store every tile of it")


class Region:
    """A rectangular piece of an HBM array: an address, not a value."""

    __slots__ = ("array", "index")

    def __init__(self, array: Hbm, index: tuple[Index, ...]) -> None:
        self.array, self.index = array, index

    def box(self) -> Box:
        """(start, stop) per axis; raises where a tile is stale, is no tile, or cuts a longer axis than the array's."""
        part = self.index[0]
        if len(self.index) == 1 and isinstance(part, Tile) and part.open and part.axis <= self.array.shape[0]:
            return (part.start, part.start + part.size), (0, self.array.shape[1])
        spans = [self._span(axis, part) for axis, part in enumerate(self.index[:2])]
        if len(self.index) > 2:
            raise BadInput(f"{self.array.name} has 2 axes but was indexed with {len(self.index)} tiles")
        return (spans[0], spans[1] if len(spans) == 2 else (0, self.array.shape[1]))

    def _span(self, axis: int, part: Index) -> tuple[int, int]:
        length = self.array.shape[axis]
        if isinstance(part, Tile):
            part.check()
            if part.axis > length:
                raise BadInput(
                    f"{self.array.name}{self.array.shape}: axis {axis} has {length} rows but the tile comes from a loop over "
                    f"{part.axis}; loop over m.tiles({length}, ...)"
                )
            return part.start, part.start + part.size
        if part == slice(None):
            return 0, length
        raise LoopMisuse(
            f"{self.array.name} was indexed with {part!r}; index HBM arrays with a tile of m.tiles(...), or with : for a whole axis"
        )

    def rows_covered(self) -> NDArray[np.int64]:
        """The rows that this region stands for in count mode, as (start, stop) pairs."""
        part = self.index[0]
        return part.rows_covered() if isinstance(part, Tile) else np.array([[0, self.array.shape[0]]])


def _gap(covered: list[NDArray[np.int64]], rows: int) -> str:
    reached = 0
    for start, stop in sorted(map(tuple, np.concatenate([np.zeros((1, 2), np.int64), *covered]).tolist())):
        if start > reached:
            break
        reached = max(reached, stop)
    return f"row {reached}" if reached < rows else ""


def stored(name: str, shape: tuple[int, int], data: ArrayLike, dtype: str) -> Array:
    """``data`` as HBM holds it: of ``dtype``, read-only; raises :class:`BadInput` naming the first element that is not finite."""
    kind = np.dtype(np.bool_) if dtype == "bool" else dtypes.storage(dtype)
    settled = isinstance(data, np.ndarray) and data.dtype == kind and data.flags.owndata and not data.flags.writeable
    with np.errstate(over="ignore"):
        values = np.asarray(data) if settled else np.array(data, kind)
    if values.shape != tuple(shape):
        raise BadInput(f"{name} has shape {values.shape} but {tuple(shape)} was declared")
    sound = np.isfinite(values)
    if not sound.all():
        where = tuple(np.argwhere(~sound)[0].tolist())
        raise BadInput(f"{name}[{', '.join(map(str, where))}] is {values[where]}; every element of {name} must be finite in {dtype}")
    values.flags.writeable = False
    return values


def poison(shape: tuple[int, int], dtype: str) -> Array:
    """An array that was never written: NaN everywhere."""
    return np.full(shape, np.nan, dtypes.storage(dtype))


def rounded(name: str, data: Array, dtype: np.dtype[np.generic]) -> Array:
    """``data`` rounded to ``dtype``; raises :class:`BadInput` where a number is out of its range."""
    with np.errstate(over="ignore"):
        narrow = data.astype(dtype)
    lost = np.isfinite(data) & ~np.isfinite(narrow) | np.isinf(data) & np.isnan(narrow)
    if lost.any():
        raise BadInput(f"{name} holds {data[lost][0]}, which {dtype} cannot hold; choose a wider dtype")
    return narrow


def _spell(box: Box) -> str:
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in box) + "]"
