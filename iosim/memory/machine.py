"""The machine: an unbounded HBM, a bounded SRAM, and a count of every word that moves between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim import dtypes
from iosim.errors import BadInput, LoopMisuse, SramOverflow
from iosim.masks.runs import Int, Runs, whole_axis
from iosim.masks.visits import every_tile, one_of_each_kind
from iosim.memory.accounts import Accounts
from iosim.memory.blocks import Array, Block, OnChip, Shape, Value, number, on_chip
from iosim.memory.counts import Counts, Flops, Traffic
from iosim.memory.events import Box, Event, Kind, Observer
from iosim.memory.hbm import Hbm, Region
from iosim.memory.tiles import Notes, Path, Tile, Tiles, allowed, compare, independent
from iosim.storage import poison, stored
from iosim.units import Capacity, Unit, capacity, whole

Mode = Literal["execute", "trace", "count"]


class Machine(Accounts):
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

    __slots__ = ("_known", "arrays", "cost", "dtype", "finished", "limit", "lowest", "mode", "observers", "sram", "unit")

    def __init__(
        self,
        sram: Capacity | int | str | None = None,
        *,
        mode: Mode = "execute",
        accumulator: str = "float32",
        overflow: Literal["error", "record"] = "error",
        registers: int | None = None,
        observers: Sequence[Observer] = (),
        check: int = 0,
    ) -> None:
        if mode not in ("execute", "trace", "count") or overflow not in ("error", "record"):
            raise BadInput(f"mode must be execute, trace or count and overflow error or record, not {mode!r} and {overflow!r}")
        super().__init__(None if registers is None else whole("registers", registers, 0), whole("check", check, 0))
        size = None if sram is None else capacity(sram)
        self.sram = None if size is None else size.amount
        self.unit: Unit = "words" if size is None else size.unit
        self.limit = math.inf if size is None or overflow == "record" else size.amount
        self.mode, self.observers = mode, tuple(observers)
        if accumulator not in ("float32", "float64"):
            raise BadInput(f"the accumulator must be float32 or float64, not {accumulator!r}")
        self.dtype = np.dtype(accumulator)
        self.cost = self.dtype.itemsize if self.unit == "bytes" else 1
        self.lowest = np.array(np.finfo(self.dtype).min, self.dtype)
        self.arrays: dict[str, Hbm] = {}
        self.finished = False
        self._known: dict[Path, Notes] = {}

    def input(self, name: str, shape: Shape, data: ArrayLike | None = None, *, dtype: str | None = None) -> Hbm:
        """Declare an HBM array that holds data: ``(rows, cols)``, copied, refused where an element is not finite.

        ``dtype`` is the element type in HBM ("bool" for masks); the numbers are needed, and kept, only in execute mode.
        """
        if self.mode == "execute" and data is None:
            raise BadInput(f"{name} is an input but no data was given; execute mode computes with real numbers")
        shape = self._free(name, shape)
        values = stored(name, shape, data, dtype or str(self.dtype)) if self.mode == "execute" and data is not None else None
        return self._declare(name, shape, dtype, values, "input")

    def output(self, name: str, shape: Shape, *, dtype: str | None = None) -> Hbm:
        """Declare an HBM array ``(rows, cols)`` that the listing fills; it starts as NaN and must be written whole."""
        shape = self._free(name, shape)
        dtypes.checked(dtype or str(self.dtype))
        values = poison(shape, dtype or str(self.dtype)) if self.mode == "execute" else None
        array = self._declare(name, shape, dtype, values, "output")
        array.written = None if self.mode == "count" else np.zeros(shape, dtype=bool)
        return array

    def load(self, region: Region) -> Block:
        """Read a region of HBM into SRAM; it stays until the tile ends."""
        if region.__class__ is not Region or region.array.machine is not self:
            raise self._misplaced(region)
        array, box = region.array, region.box()
        (top, bottom), (left, right) = box
        shape = bottom - top, right - left
        words = shape[0] * shape[1]
        data = array.read(box, self.dtype)
        block = Block(self, shape, data, array.name, words * array.cost, not array.lends, (array, box))
        array.reads += words * self.times
        if self.check:
            self.did("load", array.name, *shape)
        if self.observers:
            self.emit("load", array.name, box, words, array.itemsize)
        return block

    def store(self, region: Region, value: OnChip, *, init: bool = False) -> None:
        """Write an on-chip value to a region of HBM, rounded to the array's type; ``init`` marks a store that only initialises."""
        if region.__class__ is not Region or region.array.machine is not self:
            raise self._misplaced(region)
        array, box = region.array, region.box()
        shape = tuple(stop - start for start, stop in box)
        if not isinstance(value, OnChip) or value.shape != shape:
            raise BadInput(f"cannot store {value!r} into {array.name}{shape}; the shapes must be equal")
        if value.machine is not self:
            raise BadInput(f"{value!r} belongs to another machine; two machines never meet")
        array.write(box, value.take(), region)
        array.writes += value.words * self.times
        array.init_writes += value.words * self.times if init else 0
        if self.check:
            self.did("init" if init else "store", array.name, *shape)
        if self.observers:
            self.emit("init" if init else "store", array.name, box, value.words, array.itemsize)

    def full(self, fill: float, rows: int, cols: int, *, name: str) -> Block:
        """A block of one number, with room for ``rows * cols`` words until the tile ends."""
        shape, value = (whole("rows", rows), whole("cols", cols)), number(fill)
        block = self._room_for(shape, None, name)  # made after there is room for it
        if self.mode == "execute":
            block._data = np.full(shape, value, self.dtype)
        return block

    def empty(self, rows: int, cols: int, *, name: str) -> Block:
        """A block that was never written: it holds NaN."""
        return self.full(np.nan, rows, cols, name=name)

    def let(self, value: OnChip, name: str) -> Block:
        """Give a value a name and room, until the tile ends; a block is copied, an unnamed value moves in."""
        if on_chip(value).machine is not self:
            raise BadInput(f"{value!r} belongs to another machine; two machines never meet")
        data = value.take()
        return self._room_for(value.shape, data if data is None or value.__class__ is Value else data.copy(), name)

    def pairs(self, rule: Callable[[Int, Int], NDArray[np.bool_]], i: Tile, j: Tile) -> Value:
        """``rule`` of every pair of a row of tile ``i`` and a row of tile ``j``, computed from their indices: no words move."""
        for tile in (i, j):
            if not isinstance(tile, Tile) or tile.root is not self.root:
                raise BadInput(f"pairs needs two tiles of this machine, not {tile!r}")
            tile.check()
        words = self.count_elementwise((i.size, j.size))
        return Value(self, (i.size, j.size), allowed(rule, i, j).astype(self.dtype) if self.mode == "execute" else None, words)

    def tiles(self, n: int, b: int, *, seen: Runs | None = None) -> Tiles:
        """Cut ``range(n)`` into tiles of ``b`` rows, the last one short; ``seen`` limits the loop to some (see :mod:`iosim.masks`)."""
        n, b = whole("the axis", n), whole("the tile height", b)
        if seen is not None and not isinstance(seen, Runs):
            raise BadInput(f"seen must be runs of tiles, as from grid.row(i), not {type(seen).__name__}")
        runs = whole_axis(n, b) if seen is None else seen
        if runs.owner is not None:
            independent(self.tile, runs.owner)
        elif runs.members != 1:
            raise BadInput(f"seen sums over {runs.members} tiles but names none; ask a grid for it, as in grid.row(i)")
        place = self._count_loop(n, b, runs) if self.check else 0
        if self.mode == "count":
            return Tiles(self, n, b, one_of_each_kind(n, b, runs, self.times // runs.members, self.check), place, runs.owner)
        return Tiles(self, n, b, every_tile(n, b, runs), place, runs.owner)

    def enter(self, tile: Tile, number: int, code: int) -> None:
        """Open a tile: what is made from now on lives in it. Called by the loop."""
        if self.check and tile.parent is not None and tile.parent.notes is not None:
            tile.notes = Notes((*tile.parent.notes.path, (number, tile.size, code)))
        tile.used, tile.mark = self.used, len(self.residents)
        self.tile, self.times, self.live = tile, tile.times, 0
        self.epoch += 1
        if self.observers:
            self.emit("begin", "tile", ((tile.start, tile.start + tile.size),), 0, 0)

    def leave(self, tile: Tile) -> None:
        """Close the tile and release what was made in it. Called by the loop."""
        if self.tile is not tile or tile.parent is None:
            raise LoopMisuse(
                "an inner loop was left by break or return, or an outer one went on before it ended; let every loop run to its end"
            )
        if tile.notes is not None:
            compare(self._known.setdefault(tile.notes.path, tile.notes), tile.notes)
        tile.open = False
        self.used, self.live = tile.used, 0
        del self.residents[tile.mark :]
        self.epoch += 1
        if self.observers:
            self.emit("end", "tile", (), 0, 0)
        self.tile, self.times = tile.parent, tile.parent.times

    def finish(self) -> Counts:
        """End the run and return its counts; from now on the numbers of an HBM array are in its ``data``.

        Raises if a loop was left early, or an output element never written.
        """
        if self.tile is not self.root:
            raise LoopMisuse("a loop over tiles was left by break or return, or never finished; let every loop run to its end")
        for array in self.arrays.values():
            array.check_written()
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

    def refuse(self, block: Block, cost: int) -> NoReturn:
        """Raise :class:`SramOverflow`: what ``block`` costs is more than is free."""
        residents = ", ".join(map(repr, self.residents)) or "nothing"
        raise SramOverflow(
            f"{block!r} needs {cost} {self.unit} but {self.limit - self.used} of {self.limit} are free; resident: {residents}"
        )

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise BadInput("a machine can be neither copied nor pickled; build another one")

    def emit(self, kind: Kind, name: str, box: Box, words: int, itemsize: int) -> None:
        """Tell every observer."""
        event = Event(kind, name, box, words, itemsize, self.times, self.used)
        for observe in self.observers:
            observe(event)

    def _declare(self, name: str, shape: Shape, dtype: str | None, values: Array | None, kind: Literal["input", "output"]) -> Hbm:
        itemsize = 1 if dtype == "bool" else dtypes.itemsize(dtype or str(self.dtype))
        if itemsize > self.dtype.itemsize:
            raise BadInput(f"{name} is {dtype} but the machine computes in {self.dtype}; build it with accumulator={dtype!r}")
        array = self.arrays[name] = Hbm(self, name, shape, itemsize, values, kind == "input")
        self.emit(kind, name, ((0, shape[0]), (0, shape[1])), array.words, itemsize)
        return array

    def _free(self, name: str, shape: Shape) -> Shape:
        if self.tile is not self.root:
            raise LoopMisuse(f"{name} was declared inside a loop; declare HBM arrays before the loops")
        if not isinstance(name, str) or name in self.arrays:
            raise BadInput(f"an HBM array needs a name of its own, not {name!r}; taken: {', '.join(self.arrays) or 'none'}")
        if not isinstance(shape, tuple) or len(shape) != 2:
            raise BadInput(f"{name} has shape {shape!r}; HBM arrays are (rows, cols)")
        return whole(f"rows of {name}", shape[0]), whole(f"cols of {name}", shape[1])

    def _count_loop(self, n: int, b: int, runs: Runs) -> int:
        self.did("loop", n, b, "seen" if runs.owner is not None else str(list(runs)))
        notes = self.tile.notes
        if notes is None:
            return 0
        notes.loops += 1
        return notes.loops

    def _misplaced(self, region: object) -> BadInput:
        if isinstance(region, Region):
            return BadInput(f"{region.array.name} belongs to another machine; two machines never meet")
        return BadInput(f"{region!r} is not a region of HBM; index an array with tiles, as in m.load(Q[i])")

    def _room_for(self, shape: Shape, data: Array | None, name: str) -> Block:
        words = shape[0] * shape[1]
        block = Block(self, shape, data, name, words * self.cost, True)
        if self.check:
            self.did("room", name, *shape)
        if self.observers:
            self.emit("alloc", name, ((0, shape[0]), (0, shape[1])), words, self.dtype.itemsize)
        return block
