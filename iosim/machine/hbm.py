"""HBM arrays: they can be indexed with tiles, not read; only a machine's load and store see their elements."""

from __future__ import annotations

import numpy as np

from iosim.core import opaque
from iosim.core.errors import BadInput, NotWritten
from iosim.core.events import Box, Kind
from iosim.core.masks.runs import joined
from iosim.core.storage import Array, rounded
from iosim.machine.ledger import Ledger
from iosim.machine.tiles import Slot, Tile, rows_of

Index = Tile | Slot | slice
ALL = slice(None)


class Hbm(opaque.Hbm):
    """A two-dimensional array in slow memory, with the words read from it and written to it.

    An input is never stored to. An output starts as NaN, and every element of it must be written before the machine finishes.
    """

    __slots__ = (
        "_data", "cost", "covered", "init_writes", "is_input", "itemsize", "lends", "machine", "name", "narrow", "reads", "shape", "whole",
        "writes", "written",
    )  # fmt: skip

    def __init__(self, machine: Ledger, name: str, shape: tuple[int, int], itemsize: int, kind: Kind) -> None:
        self.machine, self.name, self.shape, self.itemsize = machine, name, shape, itemsize
        self.is_input, self.whole = kind == "input", kind == "output"
        self.cost = itemsize if machine.unit == "bytes" else 1
        self.reads = self.writes = self.init_writes = 0
        self.written = None if self.is_input or machine.mode == "count" else np.zeros(shape, dtype=bool)
        self.covered: tuple[set[Tile | Slot | None], set[Tile | Slot | None]] = set(), set()
        self._data: Array | None = None
        self.lends = self.is_input
        self.narrow: np.dtype[np.generic] | None = None

    def _hold(self, data: Array) -> None:
        """Give it numbers; an input whose elements are as wide as what is computed on chip lends views of them."""
        self._data = data
        self.lends = self.is_input and data.dtype == self.machine.dtype
        self.narrow = data.dtype if self.itemsize < self.machine.dtype.itemsize else None

    @property
    def data(self) -> Array:
        """The numbers, after the machine has finished in execute mode; raises :class:`BadInput` before."""
        if self._data is None or not self.machine.finished:
            raise BadInput(f"{self!r} lies in HBM; its numbers can be read after m.finish(), where mode='execute' computed some")
        return self._data

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Region:
        return Region(self, index if isinstance(index, tuple) else (index,))

    def _read(self, box: Box, dtype: np.dtype[np.generic]) -> Array | None:
        """The numbers of a region, widened to ``dtype``: a view of an input, a copy of an output."""
        (top, bottom), (left, right) = box
        if self.written is not None and not self.written[top:bottom, left:right].all():
            raise NotWritten(f"{self.name}[{top}:{bottom}, {left}:{right}] was read before it was written; store it first")
        if self._data is None:
            return None
        part = self._data[top:bottom, left:right]
        return part if self.lends else part.astype(dtype)

    def _write(self, box: Box, data: Array | None, region: Region) -> None:
        """Put numbers into a region, rounded to the array's type."""
        (top, bottom), (left, right) = box
        if self.is_input:
            raise BadInput(f"{self.name} is an input and is never stored to; declare an output with m.output(name, shape)")
        if self.written is None:
            for axis, part in enumerate((*region.index, ALL)[:2]):
                self.covered[axis].add(part if isinstance(part, Tile | Slot) else None)
        else:
            self.written[top:bottom, left:right] = True
        if self._data is not None and data is not None:
            self._data[top:bottom, left:right] = data if data.dtype == self._data.dtype else rounded(self.name, data, self._data.dtype)

    def _check_written(self) -> None:
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
        if None in self.covered[axis]:
            return ""
        tiles = rows_of(part for part in self.covered[axis] if isinstance(part, Tile))
        slots = [part._places() for part in self.covered[axis] if isinstance(part, Slot)]
        end = joined(np.concatenate([tiles, *slots]))[0, 1]
        return f"{name} {end}" if end < self.shape[axis] else ""


class Region(opaque.Region):
    """A rectangular piece of an HBM array: an address, not a value."""

    __slots__ = ("array", "index", "machine")

    def __init__(self, array: Hbm, index: tuple[Index, ...]) -> None:
        self.array, self.index, self.machine = array, index, array.machine

    def _span(self, axis: int, part: Index) -> opaque.Span:
        """Where a tile begins and ends; raises where it is stale, of another machine, or cuts another axis than the array's."""
        if isinstance(part, Tile):
            if not part.open:
                part._check()
            if part.machine is not self.machine:
                self.machine.foreign(part, Tile)
            if part.axis != (length := self.array.shape[axis]):
                raise BadInput(
                    f"{self.array!r}: axis {axis} has {length} rows but the tile comes from a loop over {part.axis}; loop over "
                    f"m.tiles({length}, ...), and inside a tile i of that over i.tiles({part.height})"
                )
            return part.start, part.start + part.size
        if isinstance(part, Slot):
            part.tile._check()
            if part.tile.machine is not self.machine:
                self.machine.foreign(part.tile, Tile)
            if part.axis != self.array.shape[axis]:
                raise BadInput(
                    f"{self.array!r}: axis {axis} has {self.array.shape[axis]} rows but {part.rows} for each tile of "
                    f"{part.tile.height} of {part.tile.axis} rows are {part.axis}; declare it with as many"
                )
            return part.start, part.start + part.rows
        return super()._span(axis, part)
