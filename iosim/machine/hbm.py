"""HBM arrays: they can be indexed with tiles, not read; only a machine's load and store see their elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from iosim.core.errors import BadInput, LoopMisuse, NotWritten
from iosim.core.events import Box, Kind
from iosim.core.masks.runs import Int, reached
from iosim.core.storage import Array, rounded
from iosim.machine.tiles import Tile

if TYPE_CHECKING:
    from iosim.machine.machine import Machine

Index = Tile | slice


class Address:
    """What lies in HBM: a place, not a value."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise BadInput(
            f"{self!r} lies in HBM: no arithmetic, no iteration, no copies; load it tile by tile, as in m.load(Q[i]), "
            "and read its .data after m.finish()"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _refuse
    __array__ = __iter__ = __reduce_ex__ = _refuse
    T = property(_refuse)


class Hbm(Address):
    """A two-dimensional array in slow memory, with the words read from it and written to it.

    An input is never stored to. An output starts as NaN, and every element of it must be written before the machine finishes.
    """

    __slots__ = (
        "_data", "cost", "covered", "init_writes", "is_input", "itemsize", "lends", "machine", "name", "narrow", "reads", "shape", "whole",
        "writes", "written",
    )  # fmt: skip

    def __init__(self, machine: Machine, name: str, shape: tuple[int, int], itemsize: int, kind: Kind) -> None:
        self.machine, self.name, self.shape, self.itemsize = machine, name, shape, itemsize
        self.is_input, self.whole = kind == "input", kind == "output"
        self.cost = itemsize if machine.unit == "bytes" else 1
        self.reads = self.writes = self.init_writes = 0
        self.written = None if self.is_input or machine.mode == "count" else np.zeros(shape, dtype=bool)
        self.covered: tuple[list[Int], list[Int]] = [], []
        self._data: Array | None = None
        self.lends = self.is_input
        self.narrow: np.dtype[np.generic] | None = None

    def hold(self, data: Array) -> None:
        """Give it numbers; an input whose elements are as wide as what is computed on chip lends views of them."""
        self._data = data
        self.lends = self.is_input and data.dtype == self.machine.dtype
        self.narrow = data.dtype if self.itemsize < self.machine.dtype.itemsize else None

    @property
    def words(self) -> int:
        """Its elements."""
        return self.shape[0] * self.shape[1]

    @property
    def data(self) -> Array:
        """The numbers, after the machine has finished in execute mode; raises :class:`BadInput` before."""
        if self._data is None or not self.machine.finished:
            raise BadInput(f"{self!r} lies in HBM; its numbers can be read after m.finish(), where mode='execute' computed some")
        return self._data

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Region:
        return Region(self, index if isinstance(index, tuple) else (index,))

    def __repr__(self) -> str:
        return f"{self.name}{self.shape}"

    def read(self, box: Box, dtype: np.dtype[np.generic]) -> Array | None:
        """The numbers of a region, widened to ``dtype``: a view of an input, a copy of an output."""
        (top, bottom), (left, right) = box
        if self.written is not None and not self.written[top:bottom, left:right].all():
            raise NotWritten(f"{self.name}[{top}:{bottom}, {left}:{right}] was read before it was written; store it first")
        if self._data is None:
            return None
        part = self._data[top:bottom, left:right]
        return part if self.lends else part.astype(dtype)

    def write(self, box: Box, data: Array | None, region: Region) -> None:
        """Put numbers into a region, rounded to the array's type."""
        (top, bottom), (left, right) = box
        if self.is_input:
            raise BadInput(f"{self.name} is an input and is never stored to; declare an output with m.output(name, shape)")
        if self.written is None:
            for axis in (0, 1):
                self.covered[axis].append(region.covered(axis))
        else:
            self.written[top:bottom, left:right] = True
        if self._data is not None and data is not None:
            self._data[top:bottom, left:right] = data if data.dtype == self._data.dtype else rounded(self.name, data, self._data.dtype)

    def check_written(self) -> None:
        """Raise :class:`NotWritten` unless every element of an output was stored to.

        Counting sees no elements: there it is the rows and the columns that must be covered, and the words that must suffice.
        """
        if not self.whole:
            return
        if self.written is None:
            where = self._gap(0, "row") or self._gap(1, "column") or ("some element" if self.writes < self.words else "")
        else:
            where = "" if self.written.all() else f"element {tuple(np.argwhere(~self.written)[0].tolist())}"
        if where:
            raise NotWritten(f"{self!r} is an output but {where} was never written; store every tile of it")

    def _gap(self, axis: int, name: str) -> str:
        end = reached(np.concatenate([np.zeros((1, 2), np.int64), *self.covered[axis]]))
        return f"{name} {end}" if end < self.shape[axis] else ""


class Region(Address):
    """A rectangular piece of an HBM array: an address, not a value."""

    __slots__ = ("array", "index", "machine")
    wanted = "a region of HBM; index an array with tiles, as in m.load(Q[i])"

    def __init__(self, array: Hbm, index: tuple[Index, ...]) -> None:
        self.array, self.index, self.machine = array, index, array.machine

    def __repr__(self) -> str:
        return f"a region of {self.array!r}"  # its tiles may be gone by now

    def box(self) -> Box:
        """(start, stop) per axis; raises where a tile is stale, is no tile of this machine, or cuts a longer axis than the array's."""
        array, index = self.array, self.index
        if len(index) == 1:
            return self._span(0, index[0]), (0, array.shape[1])
        if len(index) != 2:
            raise BadInput(f"{array!r} has 2 axes but was indexed with {len(index)} tiles")
        return self._span(0, index[0]), self._span(1, index[1])

    def covered(self, axis: int) -> Int:
        """The rows, or columns, that this region stands for in count mode, as (start, stop) pairs."""
        part = self.index[axis] if axis < len(self.index) else None
        return part.rows_covered() if isinstance(part, Tile) else np.array([[0, self.array.shape[axis]]])

    def _span(self, axis: int, part: Index) -> tuple[int, int]:
        array, length = self.array, self.array.shape[axis]
        if isinstance(part, Tile):
            if not part.open:
                part.check()
            if part.machine is not self.machine:
                self.machine.foreign(part, Tile)
            if part.axis > length:
                where = f"{array!r}: axis {axis} has {length} rows"
                raise BadInput(f"{where} but the tile comes from a loop over {part.axis}; loop over m.tiles({length}, ...)")
            return part.start, part.start + part.size
        if isinstance(part, slice) and part.start is part.stop is part.step is None:
            return 0, length
        raise LoopMisuse(f"{array!r} was indexed with {part!r}; index HBM arrays with a tile of m.tiles(...), or with : for a whole axis")
