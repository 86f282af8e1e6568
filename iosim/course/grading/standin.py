"""The stand-in machine: a listing runs on it as on a real one, without numbers, and all that it does goes one way, as records.

It knows shapes only, and gets nothing back: no data, no counts, no capacity. It raises at once where an operation cannot be written down
as a record, or gives nothing to go on with; what is wrong with the memory is found when the records are replayed on a real machine.
Standard library only.
"""

from __future__ import annotations

from typing import NoReturn

from iosim.core import opaque
from iosim.core.errors import BadInput
from iosim.core.opaque import Shape, Span, expect, number
from iosim.course.grading import records as r
from iosim.course.grading.standin_log import Log, label, whole
from iosim.course.grading.standin_tiles import Rule, Runs, Slot, Tile, Tiles
from iosim.course.grading.standin_values import Block, OnChip, Value

Index = Tile | Slot | slice


class Hbm(opaque.Hbm):
    """A two-dimensional array in slow memory: a name and a shape."""

    __slots__ = ("_place", "name", "shape")

    def __init__(self, place: int, name: str, shape: Shape) -> None:
        self._place, self.name, self.shape = place, name, shape

    @property
    def data(self) -> NoReturn:
        """Raises :class:`BadInput`: there are no numbers here."""
        raise BadInput(f"{self!r} lies in HBM; its numbers can be read after the run, by who started it")

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Region:
        return Region(self, index if isinstance(index, tuple) else (index,))


class Region(opaque.Region):
    """A rectangular piece of an HBM array: an address, not a value."""

    __slots__ = ("array", "index")

    def __init__(self, array: Hbm, index: tuple[Index, ...]) -> None:
        self.array, self.index = array, index

    def _span(self, axis: int, part: Index) -> Span:
        """The tile's handle, or 0, and how many rows or columns it has."""
        if isinstance(part, Slot):
            return part._handle, part.rows
        return (part._handle, part.size) if isinstance(part, Tile) else super()._span(axis, part)


class Machine(Log):
    """What a listing gets as ``m``."""

    __slots__ = ()

    def load(self, region: Region) -> Block:
        """Read a region of HBM into SRAM."""
        (top, rows), (left, cols) = expect(Region, region)._box()
        handle, array = self._next(), region.array
        self._put(r.LOAD, handle, array._place, top, rows, cols, c=left)
        return Block(self, handle, (rows, cols), array.name)

    def store(self, region: Region, value: OnChip, *, init: bool = False) -> None:
        """Write an on-chip value to a region of HBM."""
        (top, rows), (left, cols) = expect(Region, region)._box()
        self._put(r.STORE, 0, region.array._place, top, expect(OnChip, value)._handle, c=left, flags=1 if init else 0)
        if value.shape != (rows, cols):
            raise BadInput(f"cannot store {value!r} into {region.array.name}{rows, cols}; the shapes must be equal")

    def full(self, fill: float, rows: int, cols: int, *, name: str) -> Block:
        """A block of one number."""
        shape = whole("rows", rows), whole("cols", cols)
        return Block(self, self._make(r.FULL, shape, scalar=number(fill), name=label(name)), shape, name)

    def empty(self, rows: int, cols: int, *, name: str) -> Block:
        """A block that was never written."""
        return self.full(float("nan"), rows, cols, name=name)

    def let(self, value: OnChip, name: str) -> Block:
        """Give a value a name and room."""
        shape = expect(OnChip, value).shape
        return Block(self, self._make(r.LET, shape, value._handle, name=label(name)), shape, name)

    def pairs(self, rule: Rule, i: Tile, j: Tile) -> Value:
        """``rule``, which is ``mask.rule``, of every pair of a row of tile ``i`` and a row of tile ``j``."""
        shape = expect(Tile, i).size, expect(Tile, j).size
        if not isinstance(rule, Rule):
            raise BadInput("m.pairs takes the rule of the mask that the listing got, mask.rule; where there is no mask, hide nothing")
        return Value(self, r.PAIRS, shape, i._handle, j._handle, flags=rule._number)

    def tiles(self, n: int, b: int, *, seen: Runs | None = None) -> Tiles:
        """Cut ``range(n)`` into tiles of ``b`` rows, the last one short; ``seen`` limits the loop to some."""
        n, b = whole("the axis", n), whole("the tile height", b)
        if seen is not None and not isinstance(seen, Runs):
            raise BadInput(f"seen must be runs of tiles, as from grid.row(i), not {type(seen).__name__}")
        return Tiles(self, n, b, seen)

    def __getattr__(self, name: str) -> NoReturn:
        verbs = [verb for verb, found in vars(Machine).items() if verb[0] != "_" and found is not Machine._not_here]
        raise AttributeError(f"a listing's machine has {', '.join(verbs)}, and no {name}")

    def _not_here(self, *_: object, **__: object) -> NoReturn:
        raise BadInput("a listing gets its arrays and its machine; it declares no arrays and does not finish the run")

    input = output = finish = __reduce_ex__ = _not_here
