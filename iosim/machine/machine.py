"""The machine: an unbounded HBM, a bounded SRAM, and a count of every word that moves between them."""

from __future__ import annotations

from typing import Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from iosim.core import dtypes
from iosim.core.counts import Counts, Flops, Traffic
from iosim.core.errors import BadInput, LoopMisuse
from iosim.core.masks.grid import Rule, allowed
from iosim.core.masks.runs import Runs
from iosim.core.opaque import Shape, number
from iosim.core.storage import poison, stored
from iosim.machine.blocks import Block, OnChip, Value
from iosim.machine.hbm import Hbm, Region
from iosim.machine.ledger import Ledger
from iosim.machine.tiles import Tile, Tiles, independent


class Machine(Ledger):
    """A two-level memory on which a listing runs; how it was built decides what running means.

    ``sram``: its capacity (words, "100KiB", or None for unbounded). ``mode``: "execute" visits every tile with real numbers, "trace"
    visits every tile without them, "count" visits one tile of each kind and multiplies. ``overflow="record"`` runs on past the capacity
    and reports by how much. ``registers`` caps the unnamed words that live at once. ``check`` makes count mode visit up to that many
    other tiles of each kind and compare what they do. ``observers`` are called with every :class:`Event`.

    >>> m = Machine(sram=4096, mode="count")
    >>> X, Y = m.input("X", (1000, 8)), m.output("Y", (1000, 8))
    >>> for i in m.tiles(1000, 64):
    ...     x = m.load(X[i])
    ...     m.store(Y[i], 2.0 * x)
    >>> m.finish().arrays["X"].reads
    8000
    """

    __slots__ = ()
    arrays: dict[str, Hbm]
    residents: list[Block]

    def input(self, name: str, shape: Shape, data: ArrayLike | None = None, *, dtype: str | None = None, infinite: bool = False) -> Hbm:
        """Declare an HBM array that holds data: ``(rows, cols)``, copied, refused where an element is not finite.

        ``dtype`` is the element type in HBM ("bool" for masks), ``infinite`` allows -inf, as in the statistics of a row that attends to
        nothing; the numbers are needed, and kept, only in execute mode.
        """
        kind = dtype or str(self.dtype)
        array = self._declare(name, shape, kind, "input")
        if self.mode == "execute":
            if data is None:
                raise BadInput(f"{name} is an input but no data was given; execute mode computes with real numbers")
            array._hold(stored(name, array.shape, data, kind, infinite=infinite))
        return array

    def output(self, name: str, shape: Shape, *, dtype: str | None = None, whole: bool = True) -> Hbm:
        """Declare an HBM array ``(rows, cols)`` that the listing fills; it starts as NaN and must be written whole.

        ``whole=False`` is for what only waits in HBM between tiles: it need not be written everywhere.
        """
        kind = dtype or str(self.dtype)
        array = self._declare(name, shape, kind, "output" if whole else "scratch")
        if self.mode == "execute":
            array._hold(poison(array.shape, kind))
        return array

    def load(self, region: Region) -> Block:
        """Read a region of HBM into SRAM; it stays until the tile ends."""
        if not isinstance(region, Region) or region.machine is not self:
            self.foreign(region, Region)
        array, box = region.array, region._box()
        (top, bottom), (left, right) = box
        shape = bottom - top, right - left
        words = shape[0] * shape[1]
        data = array._read(box, self.dtype)
        block = Block(self, shape, data, array.name, words * array.cost, not array.lends, (array, box))
        array.reads += words * self.times
        if self.watched:
            self.tell("load", array.name, box, words, array.itemsize)
        return block

    def store(self, region: Region, value: OnChip, *, init: bool = False) -> None:
        """Write an on-chip value to a region of HBM, rounded to the array's type; ``init`` marks a store that only initialises."""
        if not isinstance(region, Region) or region.machine is not self:
            self.foreign(region, Region)
        array, box = region.array, region._box()
        shape = tuple(stop - start for start, stop in box)
        if not isinstance(value, OnChip) or value.machine is not self:
            self.foreign(value, OnChip)
        if value.shape != shape:
            raise BadInput(f"cannot store {value!r} into {array.name}{shape}; the shapes must be equal")
        array._write(box, value._take(), region)
        array.writes += value.words * self.times
        array.init_writes += value.words * self.times if init else 0
        if self.watched:
            self.tell("init" if init else "store", array.name, box, value.words, array.itemsize)

    def full(self, fill: float, rows: int, cols: int, *, name: str) -> Block:
        """A block of one number, with room for ``rows * cols`` words until the tile ends."""
        shape, value = (self.size("rows", rows), self.size("cols", cols)), number(fill)
        block = Block(self, shape, None, name, shape[0] * shape[1] * self.cost)
        if self.mode == "execute":
            block._data = np.full(shape, value, self.dtype)  # now that there is room for it
        return block

    def empty(self, rows: int, cols: int, *, name: str) -> Block:
        """A block that was never written: it holds NaN."""
        return self.full(np.nan, rows, cols, name=name)

    def let(self, value: OnChip, name: str) -> Block:
        """Give a value a name and room, until the tile ends; a block is copied, an unnamed value moves in."""
        if not isinstance(value, OnChip) or value.machine is not self:
            self.foreign(value, OnChip)
        data = value._take()
        copied = data if data is None or type(value) is Value else data.copy()
        return Block(self, value.shape, copied, name, value.shape[0] * value.shape[1] * self.cost)

    def pairs(self, rule: Rule, i: Tile, j: Tile) -> Value:
        """``rule`` of every pair of a row of tile ``i`` and a row of tile ``j``, computed from their indices: no words move."""
        for tile in (i, j):
            if not isinstance(tile, Tile) or tile.machine is not self:
                self.foreign(tile, Tile)
            tile._check()
        self.elementwise += i.size * j.size * self.times
        if self.check:
            self.tile.deeds.append(("elementwise", i.size, j.size))
        if self.mode != "execute":
            return Value(self, (i.size, j.size), None)
        rows, cols = (np.arange(tile.start, tile.start + tile.size) for tile in (i, j))
        return Value(self, (i.size, j.size), allowed(rule, rows, cols).astype(self.dtype))

    def tiles(self, n: int, b: int, *, seen: Runs | None = None) -> Tiles:
        """Cut ``range(n)`` into tiles of ``b`` rows, the last one short; ``seen`` limits the loop to some (see :mod:`iosim.core.masks`)."""
        n, b = self.size("the axis", n), self.size("the tile height", b)
        if seen is not None and not isinstance(seen, Runs):
            raise BadInput(f"seen must be runs of tiles, as from grid.row(i), not {type(seen).__name__}")
        if seen is not None and seen.owner is not None:
            independent(self.tile, seen.owner)
        elif seen is not None and seen.members != 1:
            raise BadInput(f"seen sums over {seen.members} tiles but names none; ask a grid for it, as in grid.row(i)")
        return Tiles(self, n, b, seen)

    def finish(self) -> Counts:
        """End the run and return its counts; from now on the numbers of an HBM array are in its ``data``.

        Raises if a loop was left early, or an output element never written.
        """
        if self.tile is not self.root:
            raise LoopMisuse("a loop over tiles was left by break or return, or never finished; let every loop run to its end")
        for array in self.arrays.values():
            array._check_written()
        self.finished = True
        return Counts(
            arrays={a.name: Traffic(a.reads, a.writes, a.init_writes, a.itemsize) for a in self.arrays.values()},
            flops=Flops(self.matmul, self.elementwise, self.exp),
            peak_sram=self.peak,
            overflow=0 if self.sram is None else max(0, self.peak - self.sram),
            unit=self.unit,
            largest_unnamed=self.largest_unnamed,
            peak_unnamed=self.peak_unnamed,
            peak_hbm=sum(a.words for a in self.arrays.values()),
            peak_hbm_bytes=sum(a.words * a.itemsize for a in self.arrays.values()),
        )

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise BadInput("a machine can be neither copied nor pickled; build another one")

    def _declare(self, name: str, shape: Shape, dtype: str, kind: Literal["input", "output", "scratch"]) -> Hbm:
        if self.tile is not self.root:
            raise LoopMisuse(f"{name} was declared inside a loop; declare HBM arrays before the loops")
        if not isinstance(name, str) or name in self.arrays:
            raise BadInput(f"an HBM array needs a name of its own, not {name!r}; taken: {', '.join(self.arrays) or 'none'}")
        if not isinstance(shape, tuple) or len(shape) != 2:
            raise BadInput(f"{name} has shape {shape!r}; HBM arrays are (rows, cols)")
        shape = self.size(f"rows of {name}", shape[0]), self.size(f"cols of {name}", shape[1])
        itemsize = 1 if dtype == "bool" else dtypes.itemsize(dtype)
        if itemsize > self.dtype.itemsize:
            raise BadInput(f"{name} is {dtype} but the machine computes in {self.dtype}; build it with accumulator={dtype!r}")
        array = self.arrays[name] = Hbm(self, name, shape, itemsize, kind)
        self.emit(kind, name, ((0, shape[0]), (0, shape[1])), array.words, itemsize)
        return array
