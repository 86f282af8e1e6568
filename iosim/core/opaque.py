"""What a listing holds and may not look into: places in HBM, tiles, values on chip, and how each of them refuses.

The machine and the grader's stand-in build on these classes. Standard library only: the stand-in runs where nothing else is.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from iosim.core.errors import BadInput, LoopMisuse

Shape = tuple[int, int]
Span = tuple[int, int]
MEANING = tuple((code & 1 != 0, code & 2 != 0, code & 4 != 0) for code in range(8))  # of a code: full, first, last
Kind = TypeVar("Kind", bound="Opaque")


class Opaque:
    """Something that an operation asks for; ``wanted`` says what it is and how a listing gets it."""

    __slots__ = ()
    wanted = ""


def expect(kind: type[Kind], thing: object) -> Kind:
    """``thing`` if it is of this ``kind``; raises :class:`BadInput` otherwise."""
    if isinstance(thing, kind):
        return thing
    raise BadInput(f"{type(thing).__name__} is not {kind.wanted}")


class Address(Opaque):
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
    """A two-dimensional array in slow memory: a name and a shape."""

    __slots__ = ()
    name: str
    shape: Shape

    @property
    def words(self) -> int:
        """Its elements."""
        return self.shape[0] * self.shape[1]

    def __repr__(self) -> str:
        return f"{self.name}{self.shape}"


class Region(Address):
    """A rectangular piece of an HBM array: an address, not a value."""

    __slots__ = ()
    wanted = "a region of HBM; index an array with tiles, as in m.load(Q[i])"
    array: Any
    index: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"a region of {self.array!r}"  # its tiles may be gone by now

    def _box(self) -> tuple[Span, Span]:
        """What ``_span`` says of each axis; raises :class:`BadInput` unless there is one index for each, or one for the first."""
        index = self.index
        if len(index) == 1:
            return self._span(0, index[0]), (0, self.array.shape[1])
        if len(index) != 2:
            raise BadInput(f"{self.array!r} has 2 axes but was indexed with {len(index)} tiles")
        return self._span(0, index[0]), self._span(1, index[1])

    def _span(self, axis: int, part: Any) -> Span:
        """0 and the length of the axis where ``part`` is ``:``; raises :class:`LoopMisuse` for everything but a tile."""
        if isinstance(part, slice) and part.start is part.stop is part.step is None:
            return 0, self.array.shape[axis]
        raise LoopMisuse(
            f"{self.array!r} was indexed with {part!r}; index HBM arrays with a tile of m.tiles(...), or with : for a whole axis"
        )


class Tile(Opaque):
    """One turn of a loop: some rows of an axis."""

    __slots__ = ()
    wanted = "a tile of this machine; use those of m.tiles(...)"
    size: int

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise LoopMisuse("a tile can be neither copied nor pickled; use it inside its own loop body")

    def __repr__(self) -> str:
        return f"a tile of {self.size} rows"


class Slot(Opaque):
    """The rows that belong to a tile in an array that holds as many rows for every tile of a loop."""

    __slots__ = ()
    wanted = "a slot of this machine; use p.slot(rows) of a tile p of m.tiles(...)"
    rows: int

    def __repr__(self) -> str:
        return f"a slot of {self.rows} rows"


class OnChip(Opaque):
    """A two-dimensional value on chip."""

    __slots__ = ()
    __array_priority__ = 1000  # NumPy scalars and arrays on the left leave the operation to this class
    wanted = "on chip; give a block or a value, such as m.load(Q[i])"
    shape: Shape
    label: str

    @property
    def words(self) -> int:
        """Its elements."""
        return self.shape[0] * self.shape[1]

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise BadInput(
            f"{self!r} is on chip: a listing may not look at it, branch on it, index it or copy it, but compute with "
            "+ - * / @ and the functions of iosim.memory; m.let copies, and its numbers leave only through m.store"
        )

    __array__ = __bool__ = __len__ = __float__ = __int__ = __getitem__ = __reduce_ex__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __neg__ = __abs__ = __pow__ = __rmatmul__ = _refuse

    def __repr__(self) -> str:
        return f"{self.label}{self.shape}"


def broadcast(x: OnChip, y: OnChip) -> Shape:
    """The common shape of two values, an axis of 1 stretching; raises :class:`BadInput` naming both."""
    (rows, cols), (rows_too, cols_too) = x.shape, y.shape
    if (rows == rows_too or 1 in (rows, rows_too)) and (cols == cols_too or 1 in (cols, cols_too)):
        return max(rows, rows_too), max(cols, cols_too)
    raise BadInput(f"{x!r} and {y!r} do not broadcast")


def number(x: object) -> float:
    """A Python number, for arithmetic with values; raises :class:`BadInput` for anything else, NumPy arrays among them."""
    if isinstance(x, float) or (type(x) is int and abs(x) < 1 << 1023):
        return float(x)
    raise BadInput(
        f"{type(x).__name__} is not an operand of on-chip arithmetic; use blocks, values and Python numbers, and m.load for arrays"
    )
