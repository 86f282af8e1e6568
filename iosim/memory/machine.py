"""The machine: an unbounded HBM, a bounded SRAM, and a count of every word that moves between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim import dtypes
from iosim.errors import BadInput, DeadValue, LoopMisuse, NotWritten, SramOverflow
from iosim.masks.runs import Int, Runs
from iosim.memory.blocks import Array, Block, OnChip, Shape, Value
from iosim.memory.counts import Counts, Flops, Traffic
from iosim.memory.events import Box, Event, Kind, Observer
from iosim.memory.hbm import Hbm, Region
from iosim.memory.scope import Deed, Path, Scope, compare
from iosim.memory.tiles import Tile, Tiles, Visit, every_tile, one_of_each_kind, whole_axis
from iosim.units import Capacity, capacity, whole

Mode = Literal["execute", "trace", "count"]


class Machine:
    """A two-level memory on which a listing runs; how it was built decides what running means.

    ``sram``: its capacity (words, "100KiB", or None for unbounded). ``mode``: "execute" visits every tile with real numbers, "trace" visits
    every tile without them, "count" visits one tile of each kind and multiplies. ``overflow="record"`` runs on past the capacity and reports
    by how much. ``registers`` caps the unnamed words that live at once. ``check`` makes count mode visit up to that many other tiles of each
    kind and compare what they do. ``observers`` are called with every :class:`Event`.

    >>> m = Machine(sram=4096, mode="count")
    >>> X, Y = m.input("X", (1000, 8)), m.output("Y", (1000, 8))
    >>> for i in m.tiles(1000, 64):
    ...     x = m.load(X[i])
    ...     m.store(Y[i], 2.0 * x)
    >>> m.finish().arrays["X"].reads
    8000
    """

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
        size = None if sram is None else capacity(sram)
        self.mode, self.overflow, self.observers, self.check = mode, overflow, tuple(observers), whole("check", check, 0)
        self.sram, self.unit = (None, "words") if size is None else (size.amount, size.unit)
        self.registers = None if registers is None else whole("registers", registers, 0)
        self.dtype = dtypes.storage(accumulator)
        self.lowest = float(np.finfo(self.dtype).min)
        self.item = self.dtype.itemsize if self.unit == "bytes" else 1
        self.arrays: dict[str, Hbm] = {}
        self.root = self.scope = Scope(None, 1, 0)
        self.times = 1
        self.used = self.peak = self.live = self.epoch = 0
        self.largest_unnamed = self.peak_unnamed = 0
        self.matmul = self.elementwise = self.exp = 0
        self._known: dict[Path, list[Deed]] = {}

    # HBM

    def input(self, name: str, shape: Shape, data: ArrayLike | None = None, *, dtype: str | None = None) -> Hbm:
        """Declare an HBM array that holds data: ``(rows, cols)``, copied, refused where an element is not finite.

        ``dtype`` is the element type in HBM ("bool" for masks); the numbers are needed, and kept, only in execute mode.
        """
        values = None
        if self.mode == "execute":
            if data is None:
                raise BadInput(f"{name} is an input but no data was given; execute mode computes with real numbers")
            values = _stored(name, shape, data, dtype or str(self.dtype))
        return self._declare(name, shape, dtype, values, is_input=True)

    def output(self, name: str, shape: Shape, *, dtype: str | None = None) -> Hbm:
        """Declare an HBM array ``(rows, cols)`` that the listing fills; it starts as NaN and must be written whole."""
        values = np.full(shape, np.nan).astype(dtypes.storage(dtype or str(self.dtype))) if self.mode == "execute" else None
        array = self._declare(name, shape, dtype, values, is_input=False)
        if self.mode != "count":
            array.written = np.zeros(shape, dtype=bool)
        return array

    def _declare(self, name: str, shape: Shape, dtype: str | None, values: Array | None, *, is_input: bool) -> Hbm:
        if name in self.arrays:
            raise BadInput(f"an HBM array named {name!r} exists already; it has shape {self.arrays[name].shape}")
        rows, cols = (whole(f"the shape of {name}", size) for size in shape)
        itemsize = 1 if dtype == "bool" else dtypes.itemsize(dtype or str(self.dtype))
        array = self.arrays[name] = Hbm(self, name, (rows, cols), itemsize, values, is_input)
        self._emit("input" if is_input else "output", name, ((0, rows), (0, cols)), array.words, itemsize)
        return array

    def load(self, region: Region) -> Block:
        """Read a region of HBM into SRAM; it stays until the tile ends."""
        array = region.array
        box = self._box(region)
        (top, bottom), (left, right) = box
        shape = bottom - top, right - left
        words = shape[0] * shape[1]
        data = self._read(array, box)
        cost = words * array.itemsize if self.unit == "bytes" else words
        owned = data is None or data.flags.owndata
        block = self._give_room(shape, data, array.name, cost, owned=owned, origin=(array.name, box, array.itemsize))
        array.reads += words * self.times
        if self.check:
            self.scope.deeds.append(("load", array.name, *shape))
        if self.observers:
            self._emit("load", array.name, box, words, array.itemsize)
        return block

    def store(self, region: Region, value: OnChip, *, init: bool = False) -> None:
        """Write an on-chip value to a region of HBM, rounded to the array's type; ``init`` marks a store that only initialises."""
        array = region.array
        box = self._box(region)
        (top, bottom), (left, right) = box
        if not isinstance(value, OnChip) or value.shape != (bottom - top, right - left):
            raise BadInput(f"cannot store {value!r} into {array.name}{(bottom - top, right - left)}")
        if array.is_input:
            raise BadInput(f"{array.name} is an input and is never stored to; declare an output with m.output(name, shape)")
        self._write(array, box, value.take(self))
        words = value.words * self.times
        array.writes += words
        array.init_writes += words if init else 0
        if array.written is None:
            array.covered.append(region.rows_covered())
        if self.check:
            self.scope.deeds.append(("store", array.name, *value.shape))
        if self.observers:
            self._emit("init" if init else "store", array.name, box, value.words, array.itemsize)

    # On chip

    def full(self, fill: float, rows: int, cols: int, *, name: str) -> Block:
        """A block of one number, with room for ``rows * cols`` words until the tile ends."""
        shape = whole("rows", rows), whole("cols", cols)
        data = np.full(shape, fill, self.dtype) if self.mode == "execute" else None
        return self._compute_room(shape, data, name, owned=True)

    def empty(self, rows: int, cols: int, *, name: str) -> Block:
        """A block that was never written: it holds NaN."""
        return self.full(np.nan, rows, cols, name=name)

    def let(self, value: OnChip, name: str) -> Block:
        """Give a value a name and room, until the tile ends; a block is copied, an unnamed value moves in."""
        data = value.take(self)
        if data is not None and not isinstance(value, Value):
            data = data.copy()
        return self._compute_room(value.shape, data, name, owned=value.owned or not isinstance(value, Value))

    def pairs(self, rule: Callable[[Int, Int], NDArray[np.bool_]], i: Tile, j: Tile) -> Value:
        """``rule`` of every pair of a row of tile ``i`` and a row of tile ``j``, computed from their indices: no words move."""
        i.check()
        j.check()
        self.count_elementwise(i.size * j.size)
        keep = None
        if self.mode == "execute":
            keep = rule(np.arange(i.start, i.start + i.size)[:, None], np.arange(j.start, j.start + j.size)[None, :])
        return Value(self, (i.size, j.size), keep, owned=False)

    # Loops

    def tiles(self, n: int, b: int, *, seen: Runs | None = None) -> Tiles:
        """Cut ``range(n)`` into tiles of ``b`` rows, the last one short; ``seen`` limits the loop to some of them (see :mod:`iosim.masks`)."""
        n, b = whole("the axis", n), whole("the tile height", b)
        runs = whole_axis(n, b) if seen is None else seen
        times = self.times // runs.members
        self.scope.loops += 1
        if self.check:
            self.scope.deeds.append(("loop", n, b))
        visits = one_of_each_kind(n, b, runs, times, self.check) if self.mode == "count" else every_tile(n, b, runs, 1)
        return Tiles(self, n, b, visits)

    def enter(self, visit: Visit, home: Scope, number: int) -> Scope:
        """Open the scope of one turn of the ``number``-th loop of ``home``."""
        path = (*home.path, (number, visit.size, visit.code)) if self.check else ()
        self.scope = Scope(home, self.times, self.used, path)
        self.times, self.live = visit.times, 0
        self.epoch += 1
        if self.observers:
            self._emit("begin", "tile", ((visit.start, visit.start + visit.size),), 0, 0)
        return self.scope

    def leave(self, scope: Scope) -> None:
        """Close the scope of a turn and release what was made in it."""
        if self.scope is not scope or scope.parent is None:
            raise LoopMisuse("an inner loop was left by break or return, or an outer one went on before it ended; let every loop run to its end")
        if self.check:
            compare(scope.path, self._known.setdefault(scope.path, scope.deeds), scope.deeds)
        scope.open = False
        self.scope, self.times, self.used, self.live = scope.parent, scope.times, scope.used, 0
        self.epoch += 1
        if self.observers:
            self._emit("end", "tile", (), 0, 0)

    def finish(self) -> Counts:
        """End the run and return its counts; raises if a loop was left early or an output element never written."""
        if self.scope is not self.root:
            raise LoopMisuse("a loop over tiles was left by break or return, or never finished; let every loop run to its end")
        for array in self.arrays.values():
            if not array.is_input:
                array.check_written()
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

    # Accounts

    def count_matmul(self, rows: int, inner: int, cols: int) -> None:
        self.matmul += 2 * rows * inner * cols * self.times
        if self.check:
            self.scope.deeds.append(("matmul", rows, inner, cols))

    def count_elementwise(self, words: int) -> None:
        self.elementwise += words * self.times
        if self.check:
            self.scope.deeds.append(("elementwise", words))

    def count_exp(self, words: int) -> None:
        self.exp += words * self.times
        if self.check:
            self.scope.deeds.append(("exp", words))

    def born(self, value: Value) -> int:
        """Account for a new unnamed value; returns the epoch in which it may be used."""
        self.live += value.held
        if value.held > self.largest_unnamed:
            self.largest_unnamed = value.held
        if self.live > self.peak_unnamed:
            self.peak_unnamed = self.live
            if self.registers is not None and self.live > self.registers:
                raise SramOverflow(
                    f"an unnamed value{value.shape} makes {self.live} unnamed words but registers hold {self.registers}; "
                    "give some of them room with m.let(value, name)"
                )
        return self.epoch

    def emit_use(self, origin: tuple[str, Box, int]) -> None:
        name, box, itemsize = origin
        (top, bottom), (left, right) = box
        self._emit("use", name, box, (bottom - top) * (right - left), itemsize)

    def _compute_room(self, shape: Shape, data: Array | None, name: str, *, owned: bool) -> Block:
        block = self._give_room(shape, data, name, shape[0] * shape[1] * self.item, owned=owned, origin=None)
        if self.check:
            self.scope.deeds.append(("room", name, *shape))
        if self.observers:
            self._emit("alloc", name, ((0, shape[0]), (0, shape[1])), shape[0] * shape[1], self.dtype.itemsize)
        return block

    def _give_room(self, shape: Shape, data: Array | None, name: str, cost: int, *, owned: bool, origin: tuple[str, Box, int] | None) -> Block:
        if self.sram is not None and self.used + cost > self.sram and self.overflow == "error":
            raise SramOverflow(self._no_room(shape, name, cost))
        block = Block(self, shape, data, name, cost, owned=owned, origin=origin)
        self.scope.blocks.append(block)
        self.used += cost
        if self.used > self.peak:
            self.peak = self.used
        return block

    def _no_room(self, shape: Shape, name: str, cost: int) -> str:
        residents = ", ".join(map(repr, self.scope.residents())) or "nothing"
        free = (self.sram or 0) - self.used
        return f"{name}{shape} needs {cost} {self.unit} but {free} of {self.sram} are free; resident: {residents}"

    def _box(self, region: Region) -> Box:
        if not isinstance(region, Region):
            raise BadInput(f"{region!r} is not a region of HBM; index an array with tiles, as in m.load(Q[i])")
        if region.array.machine is not self:
            raise BadInput(f"{region.array.name} belongs to another machine; two machines never meet")
        return region.box()

    def _read(self, array: Hbm, box: Box) -> Array | None:
        part = tuple(slice(*span) for span in box)
        if array.written is not None and not array.written[part].all():
            raise NotWritten(f"{array.name}{_spell(box)} was read before it was written; store it first")
        if array.data is None:
            return None
        data = array.data[part]
        if data.dtype in (self.dtype, np.bool_):
            return data if array.is_input else data.copy()
        return data.astype(self.dtype)

    def _write(self, array: Hbm, box: Box, data: Array | None) -> None:
        part = tuple(slice(*span) for span in box)
        if array.written is not None:
            array.written[part] = True
        if array.data is None or data is None:
            return
        if array.data.dtype == data.dtype:
            array.data[part] = data
        else:
            array.data[part] = _rounded(array.name, data, array.data.dtype)

    def _emit(self, kind: Kind, name: str, box: Box, words: int, itemsize: int) -> None:
        if self.observers:
            event = Event(kind, name, box, words, itemsize, self.times, self.used)
            for observe in self.observers:
                observe(event)


def _stored(name: str, shape: Shape, data: ArrayLike, dtype: str) -> Array:
    values = np.array(data, dtype=np.bool_ if dtype == "bool" else dtypes.storage(dtype))
    if values.shape != tuple(shape):
        raise BadInput(f"{name} has shape {values.shape} but {tuple(shape)} was declared")
    bad = np.argwhere(~np.isfinite(values.astype(np.float64)))
    if len(bad):
        where = tuple(bad[0].tolist())
        raise BadInput(f"{name}[{', '.join(map(str, where))}] is {values[where]}; every element of {name} must be finite in {dtype}")
    values.flags.writeable = False
    return values


def _rounded(name: str, data: Array, dtype: np.dtype[np.generic]) -> Array:
    with np.errstate(over="ignore"):
        rounded = data.astype(dtype)
    lost = np.isfinite(data.astype(np.float64)) != np.isfinite(rounded.astype(np.float64))
    if lost.any():
        raise BadInput(f"{name} holds {data[lost][0]}, which {dtype} cannot hold; choose a wider dtype")
    return rounded


def _spell(box: Box) -> str:
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in box) + "]"
