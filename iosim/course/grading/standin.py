"""The stand-in machine: a listing runs on it as on a real one, without numbers, and all that it does goes one way, as records.

It mirrors what :mod:`iosim.machine` offers to listings, knows shapes only, and gets nothing back: no data, no counts, no capacity.
What is wrong with the memory is found when the records are replayed on a real machine. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from operator import index
from types import FrameType
from typing import NoReturn

from iosim.course.grading import records as r
from iosim.course.grading.standin_errors import BadInput, LoopMisuse
from iosim.course.grading.standin_masks import Rule, Runs
from iosim.course.grading.standin_values import Block, OnChip, Shape, Value, number
from iosim.course.grading.submission import FILE

Write = Callable[[bytes], object]


class Tile:
    """One turn of a loop: its ``size``, whether it is ``full``, and whether this is the ``first`` or the ``last`` visit to it."""

    __slots__ = ("_axis", "_handle", "_height", "_index", "first", "full", "last", "size")
    wanted = "a tile of this machine; use those of m.tiles(...)"

    def __init__(self, handle: int, place: int, code: int, axis: int, height: int) -> None:
        self._handle, self._index, self._axis, self._height = handle, place, axis, height
        self.size = max(0, min(height, axis - place * height))
        self.full, self.first, self.last = code & 1 != 0, code & 2 != 0, code & 4 != 0

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a tile has size, full, first and last, and no {name}: one tile stands for all of its kind")

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise LoopMisuse("a tile can be neither copied nor pickled; use it inside its own loop body")

    def __repr__(self) -> str:
        return f"a tile of {self.size} rows"


class Tiles:
    """A loop over tiles; every step of it is written down, so that one that is left early is noticed."""

    __slots__ = ("_axis", "_handle", "_height", "_machine", "_over", "_turns")

    def __init__(self, machine: Machine, handle: int, axis: int, height: int, triples: Sequence[Sequence[int]]) -> None:
        self._machine, self._handle, self._axis, self._height = machine, handle, axis, height
        self._turns = ((place, code) for first, stop, code in triples for place in range(first, stop))
        self._over = False

    def __iter__(self) -> Tiles:
        self._machine.put(r.ITER, a=self._handle)
        return self

    def __next__(self) -> Tile:
        m, turn = self._machine, next(self._turns, None)
        if turn is None:
            if not self._over:
                m.put(r.NEXT, a=self._handle)
            self._over = True
            raise StopIteration
        m.made += 1
        tile = Tile(m.made, *turn, self._axis, self._height)
        m.put(r.NEXT, m.made, self._handle, rows=tile.size, flags=turn[1])
        if tile.size == 0:
            raise BadInput(f"seen= visits tile {turn[0]}, which an axis of {self._axis} cut into {self._height} has not")
        return tile


class Address:
    """What lies in HBM: a place, not a value."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise BadInput(f"{self!r} lies in HBM: no arithmetic, no iteration, no copies; load it tile by tile, as in m.load(Q[i])")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _refuse
    __array__ = __iter__ = __reduce_ex__ = _refuse
    T = property(_refuse)


Index = Tile | slice


class Hbm(Address):
    """A two-dimensional array in slow memory: a name and a shape."""

    __slots__ = ("_place", "name", "shape")

    def __init__(self, place: int, name: str, shape: Shape) -> None:
        self._place, self.name, self.shape = place, name, shape

    @property
    def words(self) -> int:
        """Its elements."""
        return self.shape[0] * self.shape[1]

    @property
    def data(self) -> NoReturn:
        """Raises :class:`BadInput`: there are no numbers here."""
        raise BadInput(f"{self!r} lies in HBM; its numbers can be read after the run, by who started it")

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Region:
        return Region(self, index if isinstance(index, tuple) else (index,))

    def __repr__(self) -> str:
        return f"{self.name}{self.shape}"


class Region(Address):
    """A rectangular piece of an HBM array: an address, not a value."""

    __slots__ = ("array", "index")
    wanted = "a region of HBM; index an array with tiles, as in m.load(Q[i])"

    def __init__(self, array: Hbm, index: tuple[Index, ...]) -> None:
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"a region of {self.array!r}"

    def parts(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """For each axis the tile's handle, or 0, and its size; raises where it was indexed with something else."""
        array, index = self.array, self.index
        if len(index) == 1:
            return self._part(0, index[0]), (0, array.shape[1])
        if len(index) != 2:
            raise BadInput(f"{array!r} has 2 axes but was indexed with {len(index)} tiles")
        return self._part(0, index[0]), self._part(1, index[1])

    def _part(self, axis: int, part: Index) -> tuple[int, int]:
        if isinstance(part, Tile):
            return part._handle, part.size
        if isinstance(part, slice) and part.start is part.stop is part.step is None:
            return 0, self.array.shape[axis]
        raise LoopMisuse(f"{self.array!r} was indexed with {part!r}; index arrays with a tile of m.tiles(...), or with : for a whole axis")


class Machine:
    """What a listing gets as ``m``. ``write`` takes whole frames."""

    __slots__ = ("_buffer", "_write", "made")

    def __init__(self, write: Write | None = None, **_: object) -> None:
        if not callable(write):
            raise BadInput("a listing gets its machine; it builds none")
        self._write, self._buffer, self.made = write, bytearray(), 0

    def load(self, region: Region) -> Block:
        """Read a region of HBM into SRAM."""
        if not isinstance(region, Region):
            raise BadInput(f"{type(region).__name__} is not {Region.wanted}")
        (top, rows), (left, cols) = region.parts()
        self.made += 1
        self.put(r.LOAD, self.made, region.array._place, top, rows, cols, c=left)
        return Block(self, self.made, (rows, cols), region.array.name)

    def store(self, region: Region, value: OnChip, *, init: bool = False) -> None:
        """Write an on-chip value to a region of HBM."""
        if not isinstance(region, Region):
            raise BadInput(f"{type(region).__name__} is not {Region.wanted}")
        (top, rows), (left, cols) = region.parts()
        if not isinstance(value, OnChip):
            raise BadInput(f"{type(value).__name__} is not {OnChip.wanted}")
        self.put(r.STORE, 0, region.array._place, top, value.handle, c=left, flags=1 if init else 0)
        if value.shape != (rows, cols):
            raise BadInput(f"cannot store {value!r} into {region.array.name}{rows, cols}; the shapes must be equal")

    def full(self, fill: float, rows: int, cols: int, *, name: str) -> Block:
        """A block of one number."""
        shape = whole("rows", rows), whole("cols", cols)
        return Block(self, self.make(r.FULL, shape, scalar=number(fill), name=label(name)), shape, name)

    def empty(self, rows: int, cols: int, *, name: str) -> Block:
        """A block that was never written."""
        return self.full(float("nan"), rows, cols, name=name)

    def let(self, value: OnChip, name: str) -> Block:
        """Give a value a name and room."""
        if not isinstance(value, OnChip):
            raise BadInput(f"{type(value).__name__} is not {OnChip.wanted}")
        return Block(self, self.make(r.LET, value.shape, value.handle, name=label(name)), value.shape, name)

    def pairs(self, rule: Rule, i: Tile, j: Tile) -> Value:
        """``rule``, which is ``mask.rule``, of every pair of a row of tile ``i`` and a row of tile ``j``."""
        for tile in (i, j):
            if not isinstance(tile, Tile):
                raise BadInput(f"{type(tile).__name__} is not {Tile.wanted}")
        if not isinstance(rule, Rule):
            raise BadInput("m.pairs takes the rule of the mask that the listing got, mask.rule; where there is no mask, hide nothing")
        shape = i.size, j.size
        return Value(self, self.make(r.PAIRS, shape, i._handle, j._handle, flags=rule.number), shape)

    def tiles(self, n: int, b: int, *, seen: Runs | None = None) -> Tiles:
        """Cut ``range(n)`` into tiles of ``b`` rows, the last one short; ``seen`` limits the loop to some."""
        n, b = whole("the axis", n), whole("the tile height", b)
        if seen is not None and not isinstance(seen, Runs):
            raise BadInput(f"seen must be runs of tiles, as from grid.row(i), not {type(seen).__name__}")
        self.made += 1
        self.put(r.LOOP, self.made, 0 if seen is None else seen.handle, rows=n, cols=b)
        return Tiles(self, self.made, n, b, ((0, -(-n // b), 1),) if seen is None else seen.triples)

    def ask(self, which: int, tile: int = 0) -> int:
        """The handle of the runs that the grid is asked for."""
        self.made += 1
        self.put(r.SEEN, self.made, tile, flags=which)
        return self.made

    def make(self, op: int, shape: Shape, a: int = 0, b: int = 0, scalar: float = 0.0, name: bytes = b"", flags: int = 0) -> int:
        """Write down that something of ``shape`` is made; returns its handle."""
        self.made += 1
        self.put(op, self.made, a, b, shape[0], shape[1], scalar, name=name, flags=flags)
        return self.made

    def put(
        self, op: int, out: int = 0, a: int = 0, b: int = 0, rows: int = 0, cols: int = 0, scalar: float = 0.0, c: int = 0,
        name: bytes = b"", flags: int = 0, line: int | None = None,
    ) -> None:  # fmt: skip
        """Write down one operation, with the line of the submission that asked for it."""
        if line is None:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename != FILE:
                frame = frame.f_back
            line = 0 if frame is None else frame.f_lineno
        line = min(line, r.MOST_LINES)
        self._buffer += r.RECORD.pack(op, flags, line, out, a, b, c, rows, cols, scalar, name)
        if len(self._buffer) >= r.FRAME:
            self.flush()

    def flush(self) -> None:
        """Hand what was written down so far to ``write``, as one frame."""
        if self._buffer:
            frame, self._buffer = r.LENGTH.pack(len(self._buffer)) + self._buffer, bytearray()
            self._write(frame)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a listing's machine has load, store, full, empty, let, pairs and tiles, and no {name}")

    def _not_here(self, *_: object, **__: object) -> NoReturn:
        raise BadInput("a listing gets its arrays and its machine; it declares no arrays and does not finish the run")

    input = output = finish = __reduce_ex__ = _not_here


def whole(name: str, value: object) -> int:
    """``value`` as an ``int`` of at least 1, and no more than a record holds; raises :class:`BadInput` for anything else."""
    try:
        size = 0 if isinstance(value, bool) else index(value)  # type: ignore[arg-type]  # what is no integer raises TypeError
    except TypeError:
        size = 0
    if size < 1:
        raise BadInput(f"{name} must be a whole number >= 1, not {value!r}")
    return min(size, r.MOST)


def label(name: object) -> bytes:
    """The first bytes of a name."""
    return str(name)[: r.LABEL].encode("utf-8", "replace")[: r.LABEL]
